package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

const topologyDir = "class/kfd/kfd/topology"

// writeNode adds a KFD GPU node to a tree: one CPX partition of an MI300X, with
// the given keys changed.
func writeNode(tb testing.TB, root string, id int, changes map[string]uint64) {
	tb.Helper()
	props := []string{"simd_count", "simd_per_cu", "num_xcc", "gfx_target_version", "vendor_id", "device_id", "location_id", "domain", "drm_render_minor", "unique_id"}
	values := map[string]uint64{
		"simd_count": 152, "simd_per_cu": 4, "num_xcc": 1, "gfx_target_version": 90402, "vendor_id": 4098, "device_id": 0x74a1,
		"location_id": 0x500, "domain": 0, "drm_render_minor": uint64(128 + id), "unique_id": 0,
	}
	for k, v := range changes {
		if _, ok := values[k]; !ok {
			tb.Fatalf("no key %q", k)
		}
		values[k] = v
	}
	var b strings.Builder
	for _, k := range props {
		fmt.Fprintf(&b, "%s %d\n", k, values[k])
	}
	fixturetest.Write(tb, root, nodeFile(id, "properties"), b.String())
}

func nodeFile(id int, name string) string {
	return topologyDir + "/nodes/" + strconv.Itoa(id) + "/" + name
}

// discoverTree discovers and fails the test on an error.
func discoverTree(tb testing.TB, root string) *Inventory {
	tb.Helper()
	inv, err := Discover(root)
	if err != nil {
		tb.Fatal(err)
	}
	return inv
}

// placed says where each node ended up: "GPU pK: node N".
func placed(inv *Inventory) []string {
	var out []string
	for _, g := range inv.GPUs {
		for _, n := range g.Nodes {
			out = append(out, fmt.Sprintf("%s p%d: node %d", g.BDF, n.Partition, n.ID))
		}
	}
	return out
}

func skippedLines(inv *Inventory) []string {
	var out []string
	for _, s := range inv.Skipped {
		out = append(out, s.Device+": "+s.Reason.Error())
	}
	return out
}

func TestC26XCPSpellingsAndMinors(t *testing.T) {
	root := t.TempDir()
	writeNode(t, root, 1, map[string]uint64{"location_id": 0x500, "drm_render_minor": 191})
	writeNode(t, root, 2, map[string]uint64{"location_id": 0x501, "drm_render_minor": 158})
	for _, dir := range []string{
		"devices/platform/amdgpu_xcp.55/drm/card192", "devices/platform/amdgpu_xcp.55/drm/renderD191",
		"devices/platform/amdgpu_xcp_30/drm/card38", "devices/platform/amdgpu_xcp_30/drm/renderD158",
		// No KFD node names the minor of the first; the others are no XCP devices.
		"devices/platform/amdgpu_xcp_31/drm/card39", "devices/platform/amdgpu_xcp_31/drm/renderD159",
		"devices/platform/amdgpu_xcp/drm/renderD191", "devices/platform/amdgpu_xcp_x/drm/renderD158",
		"devices/platform/serial8250/drm/renderD158",
	} {
		fixturetest.Write(t, root, dir+"/dev", "226:0\n")
	}
	inv := discoverTree(t, root)
	var got []string
	for _, n := range inv.GPUs[0].Nodes {
		got = append(got, fmt.Sprintf("card%d renderD%d", *n.Card, n.RenderMinor))
	}
	if diff := cmp.Diff([]string{"card192 renderD191", "card38 renderD158"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(inv.GPUs) != 1 || len(inv.Skipped) != 0 {
		t.Errorf("want one GPU and nothing skipped, found %d and %v", len(inv.GPUs), inv.Skipped)
	}
}

func TestC26SixtyFourDevicesOfEightGPUs(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-cpx-8")
	// Half of the 56 platform devices with a dot.
	for k := range 28 {
		fixturetest.Rename(t, root, fmt.Sprintf("devices/platform/amdgpu_xcp_%d", 2*k), fmt.Sprintf("devices/platform/amdgpu_xcp.%d", 2*k))
	}
	want := wantMachines()["mi300x-cpx-8"]
	got := discoverTree(t, root)
	if diff := cmp.Diff(placed(want), placed(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cards := map[int]bool{}
	for _, g := range got.GPUs {
		for _, n := range g.Nodes {
			cards[*n.Card] = true
		}
	}
	if len(cards) != 64 {
		t.Errorf("want 64 cards, found %d", len(cards))
	}
}

func TestC27GroupedByPCIAddress(t *testing.T) {
	root := t.TempDir()
	for id, changes := range map[int]map[string]uint64{
		1: {"location_id": 768, "unique_id": 11},
		2: {"location_id": 768, "unique_id": 12},
		3: {"domain": 3, "location_id": 32, "unique_id": 77},
		4: {"domain": 3, "location_id": 32, "unique_id": 77},
		5: {"domain": 0, "location_id": 32, "unique_id": 77},
	} {
		writeNode(t, root, id, changes)
	}
	inv := discoverTree(t, root)
	want := []string{
		"0000:00:04.0 p0: node 5",
		"0000:03:00.0 p0: node 1", "0000:03:00.0 p1: node 2",
		"0003:00:04.0 p0: node 3", "0003:00:04.0 p1: node 4",
	}
	if diff := cmp.Diff(want, placed(inv)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Two ids on one GPU: neither is the GPU's.
	if got := gpuAt(t, inv, "0000:03:00.0").UniqueID; got != 0 {
		t.Errorf("0000:03:00.0 has unique id %d", got)
	}
	if got := gpuAt(t, inv, "0003:00:04.0").UniqueID; got != 77 {
		t.Errorf("0003:00:04.0 has unique id %d, want 77", got)
	}
	// As devices: five, each with an ID of its own, the same at every start.
	options := RegisterOptions{Mode: ModePartition, NodeName: "n"}
	first := ids(mustRegister(t, inv, options))
	if diff := cmp.Diff(first, ids(mustRegister(t, discoverTree(t, root), options))); diff != "" {
		t.Errorf("IDs of a second start (-first +second):\n%s", diff)
	}
	slices.Sort(first)
	if own := slices.Compact(slices.Clone(first)); len(own) != 5 {
		t.Errorf("%d IDs of 5 devices: %q", len(own), first)
	}
}

// Where location_id does not tell partitions apart, the render minors do.
func TestC27SameLocationForAllPartitions(t *testing.T) {
	root := t.TempDir()
	writeNode(t, root, 1, map[string]uint64{"location_id": 768, "drm_render_minor": 137})
	writeNode(t, root, 2, map[string]uint64{"location_id": 768, "drm_render_minor": 136})
	want := []string{"0000:03:00.0 p0: node 2", "0000:03:00.0 p1: node 1"}
	if diff := cmp.Diff(want, placed(discoverTree(t, root))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The function bits count partitions on some kernels, and the PCI domain tells
// apart what they make look alike.
func TestC27FunctionBitsInAnotherDomain(t *testing.T) {
	root := t.TempDir()
	for id, changes := range map[int]map[string]uint64{
		1: {"domain": 3, "location_id": 32, "drm_render_minor": 136},
		2: {"domain": 3, "location_id": 33, "drm_render_minor": 137},
		3: {"domain": 0, "location_id": 32, "drm_render_minor": 128},
		4: {"domain": 0, "location_id": 33, "drm_render_minor": 129},
	} {
		writeNode(t, root, id, changes)
	}
	want := []string{
		"0000:00:04.0 p0: node 3", "0000:00:04.0 p1: node 4",
		"0003:00:04.0 p0: node 1", "0003:00:04.0 p1: node 2",
	}
	if diff := cmp.Diff(want, placed(discoverTree(t, root))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartitionBits(t *testing.T) {
	for name, test := range map[string]struct {
		locations []uint64
		want      []string
	}{
		"bits 2:0":                {[]uint64{0x500, 0x501, 0x507}, []string{"0000:05:00.0 p0: node 1", "0000:05:00.0 p1: node 2", "0000:05:00.0 p7: node 3"}},
		"bits 31:28":              {[]uint64{0x500, 0x1000_0500, 0x7000_0500}, []string{"0000:05:00.0 p0: node 1", "0000:05:00.0 p1: node 2", "0000:05:00.0 p7: node 3"}},
		"bits 31:28 before 2:0":   {[]uint64{0x3000_0501}, []string{"0000:05:00.0 p3: node 1"}},
		"another device":          {[]uint64{0x500, 0x508}, []string{"0000:05:00.0 p0: node 1", "0000:05:01.0 p0: node 2"}},
		"one left of several":     {[]uint64{0x503}, []string{"0000:05:00.0 p3: node 1"}},
		"both bits name one part": {[]uint64{0x501, 0x1000_0500}, []string{"0000:05:00.0 p0: node 1", "0000:05:00.0 p1: node 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for i, l := range test.locations {
				writeNode(t, root, 1+i, map[string]uint64{"location_id": l})
			}
			if diff := cmp.Diff(test.want, placed(discoverTree(t, root))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// writeFunction adds a PCI function as a plain folder.
func writeFunction(tb testing.TB, root, bdf, device string) {
	tb.Helper()
	dir := "bus/pci/devices/" + bdf + "/"
	fixturetest.Write(tb, root, dir+"vendor", "0x1002\n")
	fixturetest.Write(tb, root, dir+"device", device+"\n")
}

// A function at the very address is a GPU of its own; only where there is
// none, or it is something else, the function bits are a partition.
func TestLiteralAddressComesFirst(t *testing.T) {
	for name, test := range map[string]struct {
		device string
		want   []string
	}{
		"virtual functions of one device": {"0x74a1", []string{"0000:05:00.0 p0: node 1", "0000:05:00.1 p0: node 2"}},
		"a sound device":                  {"0xab40", []string{"0000:05:00.0 p0: node 1", "0000:05:00.0 p1: node 2"}},
		"garbage":                         {"", []string{"0000:05:00.0 p0: node 1", "0000:05:00.0 p1: node 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeNode(t, root, 1, map[string]uint64{"location_id": 0x500})
			writeNode(t, root, 2, map[string]uint64{"location_id": 0x501})
			writeFunction(t, root, "0000:05:00.0", "0x74a1")
			writeFunction(t, root, "0000:05:00.1", test.device)
			if diff := cmp.Diff(test.want, placed(discoverTree(t, root))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestC30ComputePartitionFile(t *testing.T) {
	const file = "bus/pci/devices/0000:05:00.0/current_compute_partition"
	for name, test := range map[string]struct {
		machine string
		content string // "-" removes the file
		compute ComputeMode
		raw     string
	}{
		"missing":              {"mi300x-spx-8", "-", "", ""},
		"empty":                {"mi300x-spx-8", "", "", ""},
		"a newline alone":      {"mi300x-spx-8", "\n", "", ""},
		"partitioned":          {"mi300x-cpx-8", "CPX\n", CPX, ""},
		"lower case":           {"mi300x-spx-8", "dpx", DPX, ""},
		"unknown word":         {"mi300x-spx-8", "FOO\n", "", "FOO"},
		"the kernel's unknown": {"mi300x-spx-8", "UNKNOWN\n", "", "UNKNOWN"},
		"garbage":              {"mi300x-spx-8", "\x00\x1b[2J" + strings.Repeat("A", 500), "", "[2J" + strings.Repeat("A", 61)},
		"a page and more":      {"mi300x-spx-8", strings.Repeat("A", 5000), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, test.machine)
			fixturetest.WriteOrRemove(t, root, file, test.content)
			inv := discoverTree(t, root)
			if len(inv.GPUs) != 8 || len(inv.Skipped) != 0 {
				t.Fatalf("want 8 GPUs, found %d and %v skipped", len(inv.GPUs), inv.Skipped)
			}
			if g := inv.GPUs[0]; g.Compute != test.compute || g.RawCompute != test.raw {
				t.Errorf("want %q, raw %q; found %q, raw %q", test.compute, test.raw, g.Compute, g.RawCompute)
			}
		})
	}
}

// An MI50 has no partition files at all: one GPU, no mode, no profiles.
func TestC30NoPartitionFiles(t *testing.T) {
	root := t.TempDir()
	writeNode(t, root, 1, map[string]uint64{"simd_count": 240, "gfx_target_version": 90006, "device_id": 0x66a1})
	writeFunction(t, root, "0000:05:00.0", "0x66a1")
	inv := discoverTree(t, root)
	g := inv.GPUs[0]
	if g.Compute != "" || g.RawCompute != "" || g.Memory != "" || g.ComputeModes != nil || g.Profiles != nil || len(g.Nodes) != 1 {
		t.Errorf("found %+v", g)
	}
}

func TestC33NUMANode(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-cpx-8")
	for name, content := range map[string]string{
		"-1": "-1\n", "missing": "-", "empty": "", "a word": "none\n", "beyond reason": "99999\n", "-2": "-2\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, bdf := range []string{"0000:05:00.0", "0000:27:00.0"} {
				file := "bus/pci/devices/" + bdf + "/numa_node"
				fixturetest.Write(t, root, file, content)
				if content == "-" {
					fixturetest.Remove(t, root, file)
				}
			}
			inv := discoverTree(t, root)
			for _, bdf := range []BDF{"0000:05:00.0", "0000:27:00.0"} {
				if g := gpuAt(t, inv, bdf); g.NUMANode != nil || len(g.Nodes) != 8 {
					t.Errorf("%s: NUMA node %v with %d partitions", bdf, g.NUMANode, len(g.Nodes))
				}
			}
			if g := gpuAt(t, inv, "0000:85:00.0"); g.NUMANode == nil || *g.NUMANode != 1 {
				t.Errorf("0000:85:00.0 lost its NUMA node")
			}
		})
	}
}

// A switch from SPX to CPX renumbers nodes and minors; address and UUID stay.
func TestC35IdentityAcrossModes(t *testing.T) {
	spx := discoverTree(t, fixturetest.Machine(t, "mi300x-spx-8"))
	cpx := discoverTree(t, fixturetest.Machine(t, "mi300x-cpx-8"))
	for i := range spx.GPUs {
		a, b := &spx.GPUs[i], &cpx.GPUs[i]
		if a.BDF != b.BDF || a.UUID() != b.UUID() || a.Name != b.Name {
			t.Errorf("%s %s %s became %s %s %s", a.BDF, a.UUID(), a.Name, b.BDF, b.UUID(), b.Name)
		}
		if len(a.Nodes) != 1 || len(b.Nodes) != 8 {
			t.Errorf("%s: %d nodes became %d", a.BDF, len(a.Nodes), len(b.Nodes))
		}
	}
	// On kernels with an id per partition the GPU's own comes from PCI.
	spx, qpx := discoverTree(t, fixturetest.Machine(t, "mi355x-spx-8")), discoverTree(t, fixturetest.Machine(t, "mi355x-qpx-8"))
	for i := range spx.GPUs {
		if a, b := spx.GPUs[i].UUID(), qpx.GPUs[i].UUID(); a != b {
			t.Errorf("%s: %s became %s", spx.GPUs[i].BDF, a, b)
		}
	}
}
