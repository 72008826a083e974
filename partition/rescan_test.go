package partition

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

func mustScan(tb testing.TB, s *Scanner) Scan {
	tb.Helper()
	scan, err := s.Scan()
	if err != nil {
		tb.Fatal(err)
	}
	return scan
}

func TestScanDiscoversOnlyWhenSomethingMoved(t *testing.T) {
	const a = BDF("0000:05:00.0")
	tests := map[string]struct {
		change  func(t *testing.T, root string)
		changed bool
		gpus    int
	}{
		"nothing": {func(*testing.T, string) {}, false, 8},
		"a sensor": {func(t *testing.T, root string) {
			fixturetest.Write(t, root, pciFile(a, "gpu_busy_percent"), "97\n")
		}, false, 8},
		"KFD's generation": {func(t *testing.T, root string) {
			fixturetest.Write(t, root, "class/kfd/kfd/topology/generation_id", "77\n")
		}, true, 8},
		"a compute partition mode": {func(t *testing.T, root string) {
			fixturetest.Write(t, root, pciFile(a, "current_compute_partition"), "CPX\n")
		}, true, 8},
		"a memory partition mode": {func(t *testing.T, root string) {
			fixturetest.Write(t, root, pciFile(a, "current_memory_partition"), "NPS4\n")
		}, true, 8},
		"a mode file is gone": {func(t *testing.T, root string) {
			fixturetest.Remove(t, root, pciFile(a, "current_compute_partition"))
		}, true, 8},
		"a mode file is empty": {func(t *testing.T, root string) {
			fixturetest.Write(t, root, pciFile(a, "current_compute_partition"), "")
		}, true, 8},
		"a mode file leaves the root": {func(t *testing.T, root string) {
			fixturetest.Link(t, root, pciFile(a, "current_compute_partition"), "/etc/hostname")
		}, true, 8},
		"a GPU leaves its driver": {func(t *testing.T, root string) {
			fixturetest.Remove(t, root, "bus/pci/drivers/amdgpu/"+string(a))
		}, true, 8},
		"a KFD node is gone": {func(t *testing.T, root string) {
			fixturetest.Remove(t, root, "class/kfd/kfd/topology/nodes/2")
		}, true, 7},
		"a DRM device appears": {func(t *testing.T, root string) {
			fixturetest.Link(t, root, "class/drm/card99", "../../devices/platform/amdgpu_xcp_0/drm/card2")
		}, true, 8},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "mi300x-spx-8")
			s := NewScanner(root)
			first := mustScan(t, s)
			if !first.Changed || len(first.Inventory.GPUs) != 8 {
				t.Fatalf("first scan: changed %t, %d GPUs", first.Changed, len(first.Inventory.GPUs))
			}
			if again := mustScan(t, s); again.Changed || again.Inventory != first.Inventory {
				t.Errorf("second scan: changed %t", again.Changed)
			}
			test.change(t, root)
			got := mustScan(t, s)
			if got.Changed != test.changed || len(got.Inventory.GPUs) != test.gpus {
				t.Errorf("changed %t, %d GPUs, want %t, %d", got.Changed, len(got.Inventory.GPUs), test.changed, test.gpus)
			}
			if got.Changed == (got.Inventory == first.Inventory) {
				t.Error("the inventory is not the one of the scan")
			}
			if later := mustScan(t, s); later.Changed {
				t.Error("changed again without a change")
			}
		})
	}
}

// A capture without generation_id is watched by its nodes.
func TestScanWithoutGeneration(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	fixturetest.Remove(t, root, "class/kfd/kfd/topology/generation_id")
	s := NewScanner(root)
	mustScan(t, s)
	if mustScan(t, s).Changed {
		t.Error("changed without a change")
	}
	fixturetest.SetLine(t, root, "class/kfd/kfd/topology/nodes/2/properties", "simd_count", "608")
	if !mustScan(t, s).Changed {
		t.Error("a changed node was missed")
	}
}

// A failed look keeps what was known, and the next one sees the change.
// Where only the nodes tell of a change, no more of them are read than discovery
// would, and nothing that is no node.
func TestScanWithoutGenerationIsBounded(t *testing.T) {
	root := t.TempDir()
	const nodes = "class/kfd/kfd/topology/nodes/"
	for i := range maxNodes + 50 {
		fixturetest.Write(t, root, fmt.Sprintf("%s%d/properties", nodes, i), "simd_count 0\n")
		fixturetest.Write(t, root, fmt.Sprintf("%sx%d/properties", nodes, i), "simd_count 0\n")
	}
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	commonPrint(tree)
	if most := 2*maxNodes + 20; tree.opened > most { // a folder and a file each where openat2 is refused
		t.Errorf("opened %d files and folders, want at most %d", tree.opened, most)
	}
}

func TestScanAfterAnError(t *testing.T) {
	root := fixturetest.Machine(t, "rx9060xt")
	s := NewScanner(root)
	first := mustScan(t, s)
	if err := os.Rename(root, root+"-away"); err != nil {
		t.Fatal(err)
	}
	if scan, err := s.Scan(); err == nil || scan.Inventory != nil {
		t.Errorf("scan without a root: %v, %v", scan, err)
	}
	if err := os.Rename(root+"-away", root); err != nil {
		t.Fatal(err)
	}
	if got := mustScan(t, s); got.Changed || got.Inventory != first.Inventory {
		t.Error("changed without a change")
	}
	if _, err := NewScanner(filepath.Join(root, "absent")).Scan(); err == nil {
		t.Error("no error for a root that does not exist")
	}
}

// What discovery left out may have been unreadable for a moment only.
func TestScanRetriesSkippedDevices(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	const props = "class/kfd/kfd/topology/nodes/2/properties"
	good, err := os.ReadFile(filepath.Join(root, props))
	if err != nil {
		t.Fatal(err)
	}
	fixturetest.Write(t, root, props, "nonsense\n")
	s := NewScanner(root)
	if first := mustScan(t, s); len(first.Inventory.GPUs) != 7 || len(first.Inventory.Skipped) == 0 {
		t.Fatalf("%d GPUs, skipped %v", len(first.Inventory.GPUs), first.Inventory.Skipped)
	}
	fixturetest.Write(t, root, props, string(good))
	for i := range retryPartial {
		if got := mustScan(t, s); got.Changed != (i == retryPartial-1) {
			t.Errorf("look %d: changed %t", i+1, got.Changed)
		}
	}
	if got := mustScan(t, s); got.Changed || len(got.Inventory.GPUs) != 8 {
		t.Errorf("%d GPUs", len(got.Inventory.GPUs))
	}
}

// The kernel hides a GPU's modes while it is in reset. No file can be made to
// do so here, so the fingerprint is told.
func TestResetIsNoModeChange(t *testing.T) {
	const a = BDF("0000:05:00.0")
	before := fingerprint{common: "x", gpus: []gpuPrint{{bdf: a, compute: "SPX\n"}, {bdf: "0000:15:00.0", compute: "SPX\n"}}}
	inReset := fingerprint{common: "x", gpus: []gpuPrint{{bdf: a, compute: orError("", syscall.EPERM), reset: true}, before.gpus[1]}}
	if !inReset.equal(before) {
		t.Error("a reset counts as a change")
	}
	if diff := cmp.Diff(map[BDF]string{a: "the GPU is in reset"}, inReset.inReset()); diff != "" {
		t.Error(diff)
	}
	after := fingerprint{common: "x", gpus: []gpuPrint{{bdf: a, compute: "CPX\n"}, before.gpus[1]}}
	if after.equal(before) {
		t.Error("another mode after the reset was missed")
	}
	other := inReset
	other.common = "y"
	if other.equal(before) {
		t.Error("a change of the topology during a reset was missed")
	}

	old, now := machine(mi300x, 2, QPX, "nps1"), machine(mi300x, 2, QPX, "nps1")
	for i := range now.GPUs {
		now.GPUs[i].Compute, now.GPUs[i].Memory = "", ""
	}
	keepModes(now, old, inReset)
	if g := now.GPUs[0]; g.Compute != QPX || g.Memory != "nps1" {
		t.Errorf("the GPU in reset is in %q, %q", g.Compute, g.Memory)
	}
	if g := now.GPUs[1]; g.Compute != "" {
		t.Errorf("the other GPU is in %q", g.Compute)
	}
	whole := machine(mi300x, 2, SPX, "nps1")
	whole.GPUs[0].Compute = ""
	keepModes(whole, old, inReset)
	if g := whole.GPUs[0]; g.Compute != "" {
		t.Errorf("a GPU with other nodes got the mode %q", g.Compute)
	}
}

func TestOrErrorLeavesThePathOut(t *testing.T) {
	err := &os.PathError{Op: "open", Path: "bus/pci/x", Err: syscall.ENOENT}
	if got := orError("", err); got != "error: no such file or directory" {
		t.Error(got)
	}
	if got := orError("", fmt.Errorf("odd")); got != "error: odd" {
		t.Error(got)
	}
}

// TestC35ModeChangedWhileRunning: GPU A is in SPX and a pod holds CUs of it;
// then KFD lists partitions. The new registration names the partitions only,
// the pod is found to hold what is gone, and nothing of A becomes p0's.
func TestC35ModeChangedWhileRunning(t *testing.T) {
	k, inv := newKernel(t, "mi300x-spx-8")
	opts := RegisterOptions{Mode: ModePartition, Exclude: []string{"card9", "card17", "card25", "card33", "card41", "card49", "card57"}}
	s := NewScanner(k.root)
	before := mustRegister(t, mustScan(t, s).Inventory, opts)
	if len(before) != 1 {
		t.Fatalf("%d devices: %q", len(before), briefs(before))
	}
	a := before[0].ID
	if _, err := Switch(t.Context(), k.root, keep(inv, 1), k.options(CPX)); err != nil {
		t.Fatal(err)
	}
	scan := mustScan(t, s)
	if !scan.Changed {
		t.Fatal("the switch was missed")
	}
	after := mustRegister(t, scan.Inventory, opts)
	var want []string
	for k := range 8 {
		want = append(want, fmt.Sprintf("%s-p%d", a, k))
	}
	if diff := cmp.Diff(want, ids(after)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	holders := map[string][]string{"default/p": {a}, "default/q": {"another GPU"}, "default/new": {a + "-p3"}}
	if diff := cmp.Diff([]string{"default/p"}, ModeChangedInUse(nil, after, holders)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	var lines []string
	for _, c := range Diff(before, after) {
		lines = append(lines, strings.ReplaceAll(c.String(), a, "A"))
	}
	wantLines := []string{"GPU 0000:05:00.0: mode changed from spx to cpx", "device A (GPU 0000:05:00.0): vanished"}
	for k := range 8 {
		wantLines = append(wantLines, fmt.Sprintf("device A-p%d (GPU 0000:05:00.0): appeared", k))
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
