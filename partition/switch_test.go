package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// fakeKernel plays the kernel's side of a mode switch on an unpacked machine:
// it answers writes with errors in the order given, or by rewriting the mode
// file and the KFD nodes.
type fakeKernel struct {
	tb     testing.TB
	root   string
	errors map[BDF][]error // for the next writes of a GPU
	slow   int             // looks before an accepted switch shows; -1 is never
	writes []string

	pending func()
	sleeps  int
	blocked chan struct{} // if set, writes wait for it
}

func (k *fakeKernel) options(to ComputeMode) SwitchOptions {
	return SwitchOptions{To: to, write: k.write, sleep: k.sleep}
}

func (k *fakeKernel) write(_ *os.Root, name, mode string) error {
	if k.blocked != nil {
		<-k.blocked
		return nil
	}
	bdf := BDF(filepath.Base(filepath.Dir(name)))
	k.writes = append(k.writes, fmt.Sprintf("%s %s", bdf, mode))
	if left := k.errors[bdf]; len(left) > 0 {
		k.errors[bdf] = left[1:]
		if left[0] != nil {
			return &fs.PathError{Op: "write", Path: name, Err: left[0]}
		}
	}
	apply := func() { k.apply(bdf, ComputeMode(strings.ToLower(mode))) }
	if k.slow == 0 {
		apply()
	} else {
		k.pending = apply
	}
	return nil
}

// sleep counts looks instead of waiting, and ends the wait after 20 of them.
func (k *fakeKernel) sleep(ctx context.Context, _ time.Duration) error {
	k.sleeps++
	if k.pending != nil && k.sleeps == k.slow {
		k.pending()
		k.pending = nil
	}
	if k.sleeps == 20 {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// apply turns the GPU's one KFD node into as many as the mode has, with the
// render minors of the XCP devices, and counts the generation up.
func (k *fakeKernel) apply(bdf BDF, mode ComputeMode) {
	const nodes = "class/kfd/kfd/topology/nodes"
	inv, err := Discover(k.root)
	if err != nil {
		k.tb.Fatal(err)
	}
	g, err := inv.find(bdf)
	if err != nil {
		k.tb.Fatal(err)
	}
	fixturetest.Write(k.tb, k.root, pciFile(bdf, "current_compute_partition"), strings.ToUpper(string(mode))+"\n")
	n := mode.partitions(g.Nodes[0].Geometry.XCCs)
	entries, err := os.ReadDir(filepath.Join(k.root, nodes))
	if err != nil {
		k.tb.Fatal(err)
	}
	first := filepath.Join(nodes, fmt.Sprint(g.Nodes[0].ID))
	var location int
	raw, err := os.ReadFile(filepath.Join(k.root, first, "properties"))
	if err != nil {
		k.tb.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		fmt.Sscanf(line, "location_id %d", &location)
	}
	for p := range n {
		dir := first
		if p > 0 {
			dir = filepath.Join(nodes, fmt.Sprint(len(entries)+p-1))
			if err := os.CopyFS(filepath.Join(k.root, dir), os.DirFS(filepath.Join(k.root, first))); err != nil {
				k.tb.Fatal(err)
			}
		}
		props := filepath.Join(dir, "properties")
		if p == 0 {
			fixturetest.SetLine(k.tb, k.root, props, "simd_count", fmt.Sprint(g.Nodes[0].Geometry.CUs*4/n))
			fixturetest.SetLine(k.tb, k.root, props, "num_xcc", fmt.Sprint(g.Nodes[0].Geometry.XCCs/n))
		}
		fixturetest.SetLine(k.tb, k.root, props, "location_id", fmt.Sprint(location+p))
		fixturetest.SetLine(k.tb, k.root, props, "drm_render_minor", fmt.Sprint(g.Nodes[0].RenderMinor+p))
	}
	fixturetest.Write(k.tb, k.root, "class/kfd/kfd/topology/generation_id", fmt.Sprint(100+len(k.writes))+"\n")
}

// addProcess puts a process into KFD's list.
func addProcess(tb testing.TB, root string, pid int, files map[string]string) {
	tb.Helper()
	dir := fmt.Sprintf("%s/%d/", kfdProc, pid)
	fixturetest.Write(tb, root, dir+"pasid", "32769\n")
	for name, content := range files {
		fixturetest.Write(tb, root, dir+name, content)
	}
}

func newKernel(tb testing.TB, name string) (*fakeKernel, *Inventory) {
	tb.Helper()
	k := &fakeKernel{tb: tb, root: fixturetest.Machine(tb, name), errors: map[BDF][]error{}}
	inv, err := Discover(k.root)
	if err != nil {
		tb.Fatal(err)
	}
	return k, inv
}

// keep cuts an inventory down to its first n GPUs.
func keep(inv *Inventory, n int) *Inventory { return &Inventory{GPUs: inv.GPUs[:n]} }

// TestSwitch: one result per GPU in one line each, and nothing written where
// nothing may be.
func TestSwitch(t *testing.T) {
	gpuID := func(t *testing.T, root string, node int) string {
		raw, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("class/kfd/kfd/topology/nodes/%d/gpu_id", node)))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(raw))
	}
	const a, b = BDF("0000:05:00.0"), BDF("0000:27:00.0")
	tests := map[string]struct {
		machine string
		prepare func(*testing.T, *fakeKernel, *SwitchOptions, *Inventory)
		to      ComputeMode
		want    []string
		writes  []string
	}{
		"two idle GPUs": {"mi300x-spx-8", nil, CPX,
			[]string{"0000:05:00.0: switched from spx to cpx, KFD nodes: 8", "0000:27:00.0: switched from spx to cpx, KFD nodes: 8"},
			[]string{"0000:05:00.0 CPX", "0000:27:00.0 CPX"}},
		"already there": {"mi300x-spx-8", nil, SPX, []string{"0000:05:00.0: already in spx", "0000:27:00.0: already in spx"}, nil},
		"the new mode shows late": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			k.slow = 3
			o.Exclude = []string{string(b)}
		}, QPX, []string{"0000:05:00.0: switched from spx to qpx, KFD nodes: 4"}, []string{"0000:05:00.0 QPX"}},
		"the new mode never shows": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			k.slow = -1
			o.Exclude = []string{string(b)}
		}, QPX, []string{`0000:05:00.0: failed: the kernel accepted mode qpx, but the GPU shows mode "spx": context deadline exceeded`}, []string{"0000:05:00.0 QPX"}},
		"KFD does not come back": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, o *SwitchOptions, inv *Inventory) {
			o.Exclude = []string{string(b)}
			o.write = func(_ *os.Root, name, mode string) error {
				fixturetest.Write(t, k.root, name, mode+"\n")
				fixturetest.Remove(t, k.root, fmt.Sprintf("class/kfd/kfd/topology/nodes/%d", inv.GPUs[0].Nodes[0].ID))
				return nil
			}
		}, QPX, []string{`0000:05:00.0: failed: the kernel accepted mode qpx, but the GPU cannot be used: card1: no kfd node: context deadline exceeded`}, nil},
		"an excluded GPU is not looked at": {"mi300x-spx-8", func(_ *testing.T, _ *fakeKernel, o *SwitchOptions, _ *Inventory) {
			o.Exclude = []string{"card1", string(b)}
		}, CPX, nil, nil},
		"a GPU some pod holds": {"mi300x-spx-8", func(_ *testing.T, _ *fakeKernel, o *SwitchOptions, _ *Inventory) {
			o.InUse = map[BDF]string{a: "pod default/train"}
		}, DPX, []string{"0000:05:00.0: busy: in use: pod default/train", "0000:27:00.0: switched from spx to dpx, KFD nodes: 2"}, []string{"0000:27:00.0 DPX"}},
		"a process with memory on one GPU": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, _ *SwitchOptions, inv *Inventory) {
			addProcess(t, k.root, 4711, map[string]string{
				"vram_" + gpuID(t, k.root, inv.GPUs[0].Nodes[0].ID): "4096\n", "vram_" + gpuID(t, k.root, inv.GPUs[1].Nodes[0].ID): "0\n"})
		}, DPX, []string{"0000:05:00.0: busy: used by process 4711", "0000:27:00.0: switched from spx to dpx, KFD nodes: 2"}, []string{"0000:27:00.0 DPX"}},
		"a process with a queue on one GPU": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, _ *SwitchOptions, inv *Inventory) {
			addProcess(t, k.root, 12, map[string]string{"queues/3/gpuid": gpuID(t, k.root, inv.GPUs[1].Nodes[0].ID)})
		}, DPX, []string{"0000:05:00.0: switched from spx to dpx, KFD nodes: 2", "0000:27:00.0: busy: used by process 12"}, []string{"0000:05:00.0 DPX"}},
		"the kernel counts a monitor as a user": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			addProcess(t, k.root, 99, nil)
			addProcess(t, k.root, 7, nil)
			k.errors[a] = []error{syscall.EBUSY}
			o.Exclude = []string{string(b)}
		}, DPX, []string{"0000:05:00.0: busy: KFD is in use by process 7, 99: write bus/pci/devices/0000:05:00.0/current_compute_partition: device or resource busy"}, []string{"0000:05:00.0 DPX"}},
		"a process that just ended": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			k.errors[a] = []error{syscall.EBUSY, syscall.EBUSY}
			o.Exclude = []string{string(b)}
		}, DPX, []string{"0000:05:00.0: switched from spx to dpx, KFD nodes: 2"}, []string{"0000:05:00.0 DPX", "0000:05:00.0 DPX", "0000:05:00.0 DPX"}},
		"busy for no known reason": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			k.errors[a] = []error{syscall.EBUSY, syscall.EBUSY, syscall.EBUSY, syscall.EBUSY, syscall.EBUSY}
			o.Exclude = []string{string(b)}
		}, DPX, []string{"0000:05:00.0: busy: the kernel says that KFD is in use: write bus/pci/devices/0000:05:00.0/current_compute_partition: device or resource busy"},
			[]string{"0000:05:00.0 DPX", "0000:05:00.0 DPX", "0000:05:00.0 DPX", "0000:05:00.0 DPX"}},
		"what the kernel answers": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, _ *SwitchOptions, _ *Inventory) {
			k.errors[a], k.errors[b] = []error{syscall.EINVAL}, []error{syscall.EIO}
		}, DPX, []string{
			"0000:05:00.0: unsupported: the kernel refuses mode dpx in memory partition mode \"NPS1\": write bus/pci/devices/0000:05:00.0/current_compute_partition: invalid argument",
			"0000:27:00.0: needs driver reload: KFD did not start in mode dpx, reload the amdgpu driver: write bus/pci/devices/0000:27:00.0/current_compute_partition: input/output error"},
			[]string{"0000:05:00.0 DPX", "0000:27:00.0 DPX"}},
		"what else the kernel answers": {"mi300x-spx-8", func(_ *testing.T, k *fakeKernel, _ *SwitchOptions, _ *Inventory) {
			k.errors[a], k.errors[b] = []error{syscall.EPERM}, []error{syscall.EACCES}
		}, DPX, []string{
			"0000:05:00.0: failed: the GPU is in reset or has no KFD: write bus/pci/devices/0000:05:00.0/current_compute_partition: operation not permitted",
			"0000:27:00.0: failed: the mode file is not writable, switching needs root and a writable sysfs: write bus/pci/devices/0000:27:00.0/current_compute_partition: permission denied"},
			[]string{"0000:05:00.0 DPX", "0000:27:00.0 DPX"}},
		"a mode the GPU does not offer": {"mi300x-spx-8", nil, TPX, []string{
			"0000:05:00.0: unsupported: mode tpx is not offered, only spx, dpx, qpx, cpx",
			"0000:27:00.0: unsupported: mode tpx is not offered, only spx, dpx, qpx, cpx"}, nil},
		"virtual functions": {"mi300x-vf", nil, CPX, []string{
			"0000:03:00.0: unsupported: the GPU cannot change its compute partition mode",
			"0000:04:00.0: unsupported: the GPU cannot change its compute partition mode"}, nil},
		"GPUs without modes": {"rx9060xt", nil, CPX, []string{"0000:03:00.0: unsupported: the GPU cannot change its compute partition mode"}, nil},
		"a GPU that left": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, o *SwitchOptions, inv *Inventory) {
			inv.GPUs[0].BDF = "0000:99:00.0"
			o.Exclude = []string{string(b)}
		}, CPX, []string{"0000:99:00.0: failed: KFD does not list the GPU"}, nil},
		"a mode file with another word": {"mi300x-spx-8", func(t *testing.T, k *fakeKernel, o *SwitchOptions, _ *Inventory) {
			fixturetest.Write(t, k.root, pciFile(a, "current_compute_partition"), "UNKNOWN\n")
			o.Exclude = []string{string(b)}
		}, QPX, []string{"0000:05:00.0: switched from an unknown mode to qpx, KFD nodes: 4"}, []string{"0000:05:00.0 QPX"}},
		"an empty machine": {"empty", nil, CPX, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k, inv := newKernel(t, test.machine)
			inv = keep(inv, min(2, len(inv.GPUs)))
			opts := k.options(test.to)
			if test.prepare != nil {
				test.prepare(t, k, &opts, inv)
			}
			results, err := Switch(t.Context(), k.root, inv, opts)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range results {
				got = append(got, r.String())
				checkResult(t, r, test.to)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.writes, k.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// checkResult holds what is true of every result.
func checkResult(t *testing.T, r SwitchResult, to ComputeMode) {
	t.Helper()
	done := r.Outcome == Switched || r.Outcome == SwitchAlready
	if r.Outcome == "" || done != (r.Err == nil) || done && r.Now != to || (r.Nodes > 0) != (r.Outcome == Switched) {
		t.Errorf("half a result: %+v", r)
	}
}

// After a switch everything is found anew: the partitions register in place of
// the GPU, and the GPU left alone stays as it is.
func TestSwitchThenRegister(t *testing.T) {
	k, inv := newKernel(t, "mi300x-spx-8")
	if _, err := Switch(t.Context(), k.root, keep(inv, 1), k.options(QPX)); err != nil {
		t.Fatal(err)
	}
	after, err := Discover(k.root)
	if err != nil {
		t.Fatal(err)
	}
	reg := mustRegister(t, after, RegisterOptions{Mode: ModePartition})
	want := []string{
		"hard qpx x1: 196592 MiB, 76 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0-p0, nodes 1", "hard qpx x1: 196592 MiB, 76 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0-p1, nodes 1",
		"hard qpx x1: 196592 MiB, 76 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0-p2, nodes 1", "hard qpx x1: 196592 MiB, 76 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0-p3, nodes 1",
		"hard spx x1: 196592 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:27:00.0, nodes 1"}
	if diff := cmp.Diff(want, briefs(reg)[:5]); diff != "" {
		t.Error(diff)
	}
}

func TestSwitchRefusesItsOptions(t *testing.T) {
	k, inv := newKernel(t, "rx9060xt")
	for name, test := range map[string]struct {
		root string
		opts SwitchOptions
		want string
	}{
		"no mode":           {k.root, SwitchOptions{}, `switching GPUs: compute partition "": want one of`},
		"no mode of KFD's":  {k.root, SwitchOptions{To: "octo"}, `switching GPUs: compute partition "octo": want one of`},
		"upper case":        {k.root, SwitchOptions{To: "SPX"}, `switching GPUs: compute partition "SPX": want one of`},
		"a bad exclude":     {k.root, SwitchOptions{To: SPX, Exclude: []string{"gpu0"}}, `switching GPUs: exclude "gpu0": want`},
		"a root not there":  {k.root + "/absent", SwitchOptions{To: SPX}, "switching GPUs: "},
		"a file for a root": {filepath.Join(k.root, "module/amdgpu/initstate"), SwitchOptions{To: SPX}, "switching GPUs: "},
	} {
		t.Run(name, func(t *testing.T) {
			results, err := Switch(t.Context(), test.root, inv, test.opts)
			checkRefused(t, err, test.want)
			if results != nil {
				t.Errorf("results %v beside the error", results)
			}
		})
	}
}

func TestSwitchEndsWithItsContext(t *testing.T) {
	t.Run("before the first GPU", func(t *testing.T) {
		k, inv := newKernel(t, "mi300x-spx-8")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		results, err := Switch(ctx, k.root, inv, k.options(CPX))
		if err != nil || len(results) != 8 || len(k.writes) != 0 {
			t.Fatalf("%d results, %d writes, error %v", len(results), len(k.writes), err)
		}
		for _, r := range results {
			if checkResult(t, r, CPX); r.Outcome != SwitchFailed || !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%v", r)
			}
		}
	})
	t.Run("while the kernel switches", func(t *testing.T) {
		k, inv := newKernel(t, "mi300x-spx-8")
		k.blocked = make(chan struct{})
		defer close(k.blocked)
		ctx, cancel := context.WithCancel(t.Context())
		opts := k.options(CPX)
		opts.write = func(root *os.Root, name, mode string) error {
			cancel()
			return k.write(root, name, mode)
		}
		results, err := Switch(ctx, k.root, keep(inv, 2), opts)
		if err != nil || len(results) != 2 {
			t.Fatalf("%v, %v", results, err)
		}
		if r := results[0]; r.Outcome != SwitchFailed || r.From != SPX || r.Now != "" || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		if r := results[1]; r.Outcome != SwitchFailed || r.String() != "0000:27:00.0: failed: not tried: context canceled" {
			t.Errorf("%+v", r)
		}
	})
}

// The real writer: one write of the mode's name, through the root and no
// further.
func TestSwitchWritesTheModeFile(t *testing.T) {
	k, inv := newKernel(t, "mi300x-spx-8")
	results, err := Switch(t.Context(), k.root, keep(inv, 1), SwitchOptions{To: CPX, sleep: k.sleep})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(k.root, pciFile("0000:05:00.0", "current_compute_partition")))
	if err != nil || string(raw) != "CPX\n" {
		t.Errorf("the file holds %q, error %v", raw, err)
	}
	if got := results[0].String(); got != "0000:05:00.0: switched from spx to cpx, KFD nodes: 1" {
		t.Error(got)
	}
}

func TestSwitchWritesNothingOutsideTheRoot(t *testing.T) {
	k, inv := newKernel(t, "mi300x-spx-8")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("SPX\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fixturetest.Link(t, k.root, pciFile("0000:05:00.0", "current_compute_partition"), outside)
	inv.GPUs[0].Compute = SPX
	results, err := Switch(t.Context(), k.root, keep(inv, 1), SwitchOptions{To: CPX, sleep: k.sleep})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(outside)
	if err != nil || string(raw) != "SPX\n" || results[0].Outcome != SwitchFailed {
		t.Errorf("%v; the file outside holds %q, error %v", results[0], raw, err)
	}
}

// KFD's process folder is input like any other.
func TestKFDUsersOfAnOddTree(t *testing.T) {
	k, inv := newKernel(t, "mi300x-spx-8")
	g := &inv.GPUs[0]
	raw, err := os.ReadFile(filepath.Join(k.root, fmt.Sprintf("class/kfd/kfd/topology/nodes/%d/gpu_id", g.Nodes[0].ID)))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(raw))
	addProcess(t, k.root, 1, map[string]string{"vram_" + id: "not a number\n"})
	addProcess(t, k.root, 2, map[string]string{"vram_" + id: "0\n", "queues/0/gpuid": ""})
	addProcess(t, k.root, 3, map[string]string{"vram_" + id: "18446744073709551615\n"})
	fixturetest.Write(t, k.root, kfdProc+"/notapid/pasid", "1\n")
	fixturetest.Write(t, k.root, kfdProc+"/-4/pasid", "1\n")
	fixturetest.Write(t, k.root, kfdProc+"/5", "a file\n")
	tree, err := openTree(k.root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	got, err := kfdUsers(tree, g)
	if err != nil {
		t.Fatal(err)
	}
	want := processes{all: []int{1, 2, 3, 5}, thisGPU: []int{1, 3}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(processes{})); diff != "" {
		t.Error(diff)
	}
}
