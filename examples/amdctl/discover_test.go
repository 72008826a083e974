package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/testdata"
)

func TestDiscoverEveryMachine(t *testing.T) {
	for _, name := range testdata.Machines() {
		t.Run(name, func(t *testing.T) {
			sysfs := fixturetest.Machine(t, name)
			for mode, file := range map[string]string{"cu": "discover-" + name, "partition": "discover-" + name + "-partition"} {
				args := []string{"discover", "--sysfs", sysfs, "--node-name", "n1", "--mode", mode}
				r := ok(t, "", args...)
				golden(t, file, result{stdout: r.stdout}) // the notes are partition's to test
				checkFormatsAgree(t, args)
				args[2] = filepath.Join("../../testdata/machines", name+".txt")
				if archive := ok(t, "", args...); archive != r {
					t.Errorf("mode %s: the archive gives\n%s%s\nits folder\n%s%s", mode, archive.stdout, archive.stderr, r.stdout, r.stderr)
				}
			}
		})
	}
}

// checkFormatsAgree compares the devices of the annotation with those of the
// JSON.
func checkFormatsAgree(t *testing.T, args []string) {
	t.Helper()
	entries, err := annotations.DecodeDevices(strings.TrimSpace(ok(t, "", append(args, "-o", "annotation")...).stdout))
	if err != nil {
		t.Fatal(err)
	}
	var devices []discovered
	if err := json.Unmarshal([]byte(ok(t, "", append(args, "-o", "json")...).stdout), &devices); err != nil {
		t.Fatal(err)
	}
	if len(devices) != len(entries) {
		t.Fatalf("%d devices as JSON, %d in the annotation", len(devices), len(entries))
	}
	for i, d := range devices {
		e := entries[i]
		if d.ID != e.ID || d.Devcore != e.Devcore || d.DevmemMiB != e.Devmem || d.Count != e.Count || d.Health != e.Health || d.Type != e.Type {
			t.Errorf("device %d: JSON says %+v, the annotation %+v", i, d, e)
		}
		if len(d.KubeletIDs) != int(d.Count) || len(d.Nodes) == 0 {
			t.Errorf("device %d: %d kubelet IDs for %d shares, %d KFD nodes", i, len(d.KubeletIDs), d.Count, len(d.Nodes))
		}
	}
}

func TestDiscoverCaptures(t *testing.T) {
	for name, tc := range map[string]struct {
		gpus, partitions, cus int
	}{
		"mi210-xgmi-pcie": {gpus: 8, partitions: 8, cus: 104},
		"mi300-cpx":       {gpus: 8, partitions: 63, cus: 38},
	} {
		t.Run(name, func(t *testing.T) {
			sysfs := fixturetest.Captured(t, name)
			for mode, want := range map[string]int{"cu": tc.gpus, "partition": tc.partitions} {
				var devices []discovered
				r := ok(t, "", "discover", "--sysfs", sysfs, "--mode", mode, "-o", "json")
				if err := json.Unmarshal([]byte(r.stdout), &devices); err != nil {
					t.Fatal(err)
				}
				if len(devices) != want {
					t.Errorf("mode %s: %d devices, want %d", mode, len(devices), want)
				}
				for _, d := range devices {
					if d.Nodes[0].CUs != tc.cus {
						t.Errorf("mode %s: %s has %d CUs on a node, want %d", mode, d.BDF, d.Nodes[0].CUs, tc.cus)
					}
				}
			}
		})
	}
}

func TestDiscoverEmptyMachine(t *testing.T) {
	sysfs := fixturetest.Machine(t, "empty")
	for format, want := range map[string]string{"json": "[]\n", "annotation": "[]\n", "table": ""} {
		if r := ok(t, "", "discover", "--sysfs", sysfs, "-o", format); r.stdout != want {
			t.Errorf("-o %s prints %q, want %q", format, r.stdout, want)
		}
	}
}

// In a broken tree the healthy GPUs are listed and each broken one is named
// with its reason.
func TestDiscoverBrokenTree(t *testing.T) {
	sysfs := fixturetest.Machine(t, "mi300x-spx-8")
	nodes := filepath.Join(sysfs, "class/kfd/kfd/topology/nodes")
	write := func(node, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(nodes, node, "properties"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("2", "simd_count many\n")
	write("3", "")

	r := ok(t, "", "discover", "--sysfs", sysfs, "-o", "json")
	var devices []discovered
	if err := json.Unmarshal([]byte(r.stdout), &devices); err != nil {
		t.Fatal(err)
	}
	if len(devices) != 6 {
		t.Errorf("%d devices, want the 6 that can be used", len(devices))
	}
	for _, node := range []string{"skipped node 2:", "skipped node 3:"} {
		if strings.Count(r.stderr, node) != 1 {
			t.Errorf("standard error has not one line %q:\n%s", node, r.stderr)
		}
	}
	if !strings.Contains(r.stderr, "many") {
		t.Errorf("standard error does not quote the bad value:\n%s", r.stderr)
	}
}

func TestDiscoverOptions(t *testing.T) {
	sysfs := fixturetest.Machine(t, "mi300x-spx-8")
	r := ok(t, "", "discover", "--sysfs", sysfs, "--split-count", "4", "--memory-scaling", "2", "--exclude", "0000:05:00.0, card9,card200", "-o", "json")
	var devices []discovered
	if err := json.Unmarshal([]byte(r.stdout), &devices); err != nil {
		t.Fatal(err)
	}
	if len(devices) != 6 || devices[0].Count != 4 || devices[0].DevmemMiB != 2*196592 {
		t.Errorf("%d devices, the first %+v, want 6 with 4 shares and twice the memory", len(devices), devices[0])
	}
	if !strings.Contains(r.stderr, "card200") {
		t.Errorf("standard error %q does not name the entry that excludes nothing", r.stderr)
	}
}

func TestDiscoverRefuses(t *testing.T) {
	sysfs := fixturetest.Machine(t, "rx9060xt")
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, make([]byte, fixture.MaxArchiveBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"no such tree":         {[]string{"--sysfs", sysfs + "/absent"}, []string{"absent"}},
		"a file":               {[]string{"--sysfs", filepath.Join(sysfs, "class/kfd/kfd/topology/generation_id")}, []string{"invalid machine archive"}},
		"a long file":          {[]string{"--sysfs", long}, []string{"invalid machine archive", "want at most"}},
		"empty tree name":      {[]string{"--sysfs", ""}, []string{"--sysfs"}},
		"unknown mode":         {[]string{"--sysfs", sysfs, "--mode", "mig"}, []string{"--mode", `"mig"`}},
		"unknown naming":       {[]string{"--sysfs", sysfs, "--naming", "both"}, []string{"--naming", `"both"`}},
		"negative shares":      {[]string{"--sysfs", sysfs, "--split-count", "-1"}, []string{"-1"}},
		"no memory":            {[]string{"--sysfs", sysfs, "--memory-scaling", "0"}, []string{"--memory-scaling"}},
		"not a number":         {[]string{"--sysfs", sysfs, "--memory-scaling", "NaN"}, []string{"NaN"}},
		"exclude of no device": {[]string{"--sysfs", sysfs, "--exclude", "gpu0"}, []string{"gpu0"}},
		"node name of a path":  {[]string{"--sysfs", sysfs, "--node-name", "a/b"}, []string{"a/b"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", append([]string{"discover"}, tc.args...), tc.words...) })
	}
}
