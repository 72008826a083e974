package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

var partitionMode = partition.RegisterOptions{Mode: partition.ModePartition, NodeName: "node-1"}

func TestCDISpec(t *testing.T) {
	tests := map[string]struct {
		machine string
		opts    partition.RegisterOptions
		n       int
		first   cdispec.Device
	}{
		"whole GPUs": {machine: "mi355x-spx-8", opts: registerDefaults, n: 8,
			first: cdispec.Device{Name: "card1", ContainerEdits: nodeEdits("/dev/dri/card1", "/dev/dri/renderD128")}},
		"partitions with cards of their own": {machine: "mi355x-qpx-8", opts: partitionMode, n: 32,
			first: cdispec.Device{Name: "card1", ContainerEdits: nodeEdits("/dev/dri/card1", "/dev/dri/renderD128")}},
		"partitions behind one card": {machine: "mi355x-qpx-8-noxcp", opts: partitionMode, n: 8,
			first: cdispec.Device{Name: "card1", ContainerEdits: nodeEdits("/dev/dri/card1", "/dev/dri/renderD128")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := cdiSpec(machineSnapshot(t, test.machine, test.opts).Devices)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Devices) != test.n {
				t.Fatalf("%d devices, want %d", len(got.Devices), test.n)
			}
			if diff := cmp.Diff(test.first, got.Devices[0]); diff != "" {
				t.Error(diff)
			}
			got.Devices = nil
			want := &cdispec.Spec{Version: "0.3.0", Kind: "amd.com/gpu", ContainerEdits: nodeEdits("/dev/kfd")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("no GPU at all", func(t *testing.T) {
		if got, err := cdiSpec(nil); got != nil || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("a card nobody knows", func(t *testing.T) {
		s := machineSnapshot(t, "rx7900xtx", registerDefaults)
		gpu := *s.Devices[0].GPU
		gpu.Card = nil
		r := s.Devices[0]
		r.GPU, r.Nodes = &gpu, []partition.Node{{ID: 1, RenderMinor: 128}}
		if got, err := cdiSpec([]partition.Registered{r}); got != nil || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// The rules of names and versions are the CDI library's; the spec must come out
// as old as it can.
func TestC53NamesAndVersions(t *testing.T) {
	tests := map[string]struct {
		name    string
		legal   bool
		version string // the lowest spec version
	}{
		"a card":               {"card1", true, "0.3.0"},
		"a ROCr name":          {"GPU-a1b2c3d4e5f60718", true, "0.3.0"},
		"a digit":              {"0", true, "0.5.0"},
		"a PCI address":        {"0000:83:00.0", true, "0.5.0"},
		"a share of kubelet's": {"0000:83:00.0#3", false, ""},
		"a slash":              {"A/1", false, ""},
		"a dash at the end":    {"gpu-", false, ""},
		"empty":                {"", false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := parser.ValidateDeviceName(test.name); (err == nil) != test.legal {
				t.Fatalf("legal is %t, want %t: %v", err == nil, test.legal, err)
			}
			if !test.legal {
				return
			}
			got, err := cdispec.MinimumRequiredVersion(&cdispec.Spec{Kind: allocate.CDIKind, ContainerEdits: nodeEdits("/dev/kfd"),
				Devices: []cdispec.Device{{Name: test.name, ContainerEdits: nodeEdits("/dev/dri/card1")}}})
			if err != nil || got != test.version {
				t.Errorf("version %q, %v, want %q", got, err, test.version)
			}
		})
	}
	// Every name that is handed out is one of the first kind.
	for _, machine := range []string{"mi300x-cpx-8", "mi355x-qpx-8-noxcp", "mi210-8", "apu-8060s", "rx9060xt", "mi300x-vf"} {
		spec, err := cdiSpec(machineSnapshot(t, machine, partitionMode).Devices)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Version != "0.3.0" {
			t.Errorf("%s: version %s", machine, spec.Version)
		}
		if err := cdispec.ValidateVersion(spec); err != nil {
			t.Errorf("%s: %v", machine, err)
		}
	}
}

// Package allocate answers with names, this one writes the spec: every name
// resolves, and to the nodes that the same container would get without CDI.
func TestC53EveryNameOfAnAnswerResolves(t *testing.T) {
	for _, machine := range []string{"mi300x-cpx-8", "mi300x-spx-8", "mi355x-qpx-8", "mi355x-qpx-8-noxcp", "mi210-8", "rx7900xtx", "apu-8060s"} {
		for _, opts := range []partition.RegisterOptions{registerDefaults, partitionMode} {
			s := machineSnapshot(t, machine, opts)
			w := &cdiWriter{dir: t.TempDir()}
			if err := w.ensure(s); err != nil {
				t.Fatal(err)
			}
			spec, err := cdi.ReadSpec(filepath.Join(w.dir, cdiFile), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range s.Devices {
				c, err := allocate.Whole("main", []partition.Registered{r})
				if err != nil {
					t.Fatal(err)
				}
				want := make(map[string]bool)
				for _, n := range c.DeviceNodes {
					want[n.Path] = true
				}
				got := make(map[string]bool)
				for _, n := range spec.ContainerEdits.DeviceNodes { // for whoever gets any
					got[n.Path] = true
				}
				for _, name := range c.CDIDevices {
					d := spec.GetDevice(strings.TrimPrefix(name, "amd.com/gpu="))
					if d == nil {
						t.Fatalf("%s: %s does not resolve", machine, name)
					}
					for _, n := range d.ContainerEdits.DeviceNodes {
						got[n.Path] = true
						if n.Permissions != "rw" || n.HostPath != "" {
							t.Errorf("%s: %+v", machine, n)
						}
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s %s: nodes by CDI:\n%s", machine, r.ID, diff)
				}
			}
		}
	}
}

func TestCDIWriterWritesOnlyWhatChanged(t *testing.T) {
	w := &cdiWriter{dir: filepath.Join(t.TempDir(), "run", "cdi")} // made as needed
	path := filepath.Join(w.dir, cdiFile)
	spx, qpx := machineSnapshot(t, "mi355x-spx-8", registerDefaults), machineSnapshot(t, "mi355x-qpx-8", partitionMode)
	write := func(s *snapshot) os.FileInfo {
		t.Helper()
		if err := w.ensure(s); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write(spx)
	if first.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", first.Mode())
	}
	if !os.SameFile(first, write(spx)) {
		t.Error("the same devices were written again")
	}
	second := write(qpx)
	if os.SameFile(first, second) {
		t.Error("the file was not replaced by a rename")
	}
	// Somebody removes it, or writes into it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	third := write(qpx)
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), third.ModTime()); err != nil {
		t.Fatal(err)
	}
	if fourth := write(qpx); os.SameFile(third, fourth) {
		t.Error("a file that was overwritten stayed")
	}
	// Without a GPU nothing is to be resolved, and the file stays.
	if err := w.ensure(newSnapshot(nil, nil, partition.ModeCU, nil)); err != nil {
		t.Error(err)
	}
	names, err := os.ReadDir(w.dir)
	if err != nil || len(names) != 1 {
		t.Errorf("%d files, %v: want the spec alone", len(names), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) {
		t.Errorf("no JSON: %s", raw)
	}
}

func TestCDIWriterRefuses(t *testing.T) {
	s := machineSnapshot(t, "rx7900xtx", registerDefaults)
	t.Run("a folder that cannot be", func(t *testing.T) {
		dir := t.TempDir()
		fixturetest.Write(t, dir, "cdi", "")
		err := (&cdiWriter{dir: filepath.Join(dir, "cdi")}).ensure(s)
		if err == nil || !strings.HasPrefix(err.Error(), "CDI spec "+filepath.Join(dir, "cdi", cdiFile)+": ") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("another spec has the name", func(t *testing.T) {
		dir := t.TempDir()
		fixturetest.Write(t, dir, "other.json", `{"cdiVersion": "0.3.0", "kind": "amd.com/gpu",
			"devices": [{"name": "card1", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}}]}`)
		err := (&cdiWriter{dir: dir}).ensure(s)
		if err == nil || !strings.Contains(err.Error(), "amd.com/gpu=card1 does not resolve to it: conflicting device") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a broken spec of somebody else is no hindrance", func(t *testing.T) {
		dir := t.TempDir()
		fixturetest.Write(t, dir, "broken.json", "{")
		if err := (&cdiWriter{dir: dir}).ensure(s); err != nil {
			t.Error(err)
		}
	})
}

// The names must resolve when the answer is sent, whatever happened to the file.
func TestPluginKeepsTheCDISpec(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.CDISpecDir = t.TempDir()
	path := filepath.Join(cfg.CDISpecDir, cdiFile)
	d := newDevices(cfg, partition.ModeCU, quietLog(t))
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !exists(path) {
		t.Fatal("no spec at the start")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := d.PrepareCDI(d.Snapshot()); err != nil || !exists(path) {
		t.Errorf("the spec was not made again: %v", err)
	}
	// Turned off, it stays.
	k := newFakeKubelet(t)
	k.start()
	cfg.CDISpecDir, cfg.KubeletDir = "", k.root()
	r := startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 10)
	r.stop()
	if !exists(path) {
		t.Error("the spec is gone")
	}
	off := newDevices(cfg, partition.ModeCU, quietLog(t))
	if err := off.PrepareCDI(d.Snapshot()); err != nil {
		t.Error(err)
	}
}

func TestStartFailsWhereCDICannotBeWritten(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.CDISpecDir = filepath.Join(cfg.DevRoot, "kfd", "cdi")
	err := newDevices(cfg, partition.ModeCU, quietLog(t)).start(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "CDI spec ") {
		t.Errorf("error %v", err)
	}
}
