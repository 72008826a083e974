package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// One sick device is reported with its reason, and the others stay. The
// machine has eight MI300X, KFD nodes 2 to 9; node 2 is 0000:05:00.0.
func TestSickDevicesAreSkipped(t *testing.T) {
	const pci = "bus/pci/devices/0000:05:00.0/"
	props := func(key, value string) func(testing.TB, string) {
		return func(tb testing.TB, root string) { fixturetest.SetLine(tb, root, nodeFile(2, "properties"), key, value) }
	}
	write := func(name, content string) func(testing.TB, string) {
		return func(tb testing.TB, root string) { fixturetest.Write(tb, root, name, content) }
	}
	remove := func(name string) func(testing.TB, string) {
		return func(tb testing.TB, root string) { fixturetest.Remove(tb, root, name) }
	}
	for name, test := range map[string]struct {
		edit func(tb testing.TB, root string)
		want []string
		also BDF // a second GPU that is lost
	}{
		"the GPU has gone": {
			edit: props("simd_count", "0"),
			want: []string{"node 2: 0000:05:00.0: simd_count 0: the gpu is gone"},
		},
		"no SIMDs in a CU": {
			edit: props("simd_per_cu", "0"),
			want: []string{"node 2: 0000:05:00.0: simd_count 1216 with simd_per_cu 0"},
		},
		"not AMD's": {
			edit: props("vendor_id", "4318"),
			want: []string{"node 2: 0000:05:00.0: vendor_id 0x10de: want AMD's 0x1002"},
		},
		"no target version": {
			edit: props("gfx_target_version", "0"),
			want: []string{"node 2: 0000:05:00.0: gfx_target_version 0: want that of a gpu"},
		},
		"no address": {
			edit: func(tb testing.TB, root string) {
				fixturetest.DropLine(tb, root, nodeFile(2, "properties"), "location_id")
			},
			want: []string{"node 2: 0000:05:00.0: location_id 0 in domain 0: want a pci address"},
		},
		"address with unknown bits": {
			edit: props("location_id", "66816"), // 0x10500
			want: []string{"node 2: 0000:05:00.0: location_id 66816 in domain 0: want a pci address"},
		},
		"domain beyond 32 bits": {
			edit: props("domain", "4294967296"),
			want: []string{"node 2: 0000:05:00.0: location_id 1280 in domain 4294967296: want a pci address"},
		},
		"impossible shape": {
			edit: props("simd_count", "1215"),
			want: []string{"node 2: 0000:05:00.0: simd_count 1215, simd_per_cu 4, num_xcc 8: impossible geometry"},
		},
		"unequal XCCs": {
			edit: props("simd_count", "1212"),
			want: []string{"node 2: 0000:05:00.0: geometry: 303 cus on 8 xccs: want the same number on each: impossible geometry"},
		},
		"device id beyond 16 bits": {
			edit: props("device_id", "95393"),
			want: []string{"node 2: 0000:05:00.0: device_id 95393: want 16 bits"},
		},
		"render minor 0": {
			edit: props("drm_render_minor", "0"),
			want: []string{"node 2: 0000:05:00.0: drm_render_minor 0: no render node"},
		},
		"render minor of a card": {
			edit: props("drm_render_minor", "1"),
			want: []string{"node 2: 0000:05:00.0: drm_render_minor 1: no render node"},
		},
		"render minor beyond the kernel's": {
			edit: props("drm_render_minor", "4294967424"),
			want: []string{"node 2: 0000:05:00.0: drm_render_minor 4294967424: no render node"},
		},
		"another GPU's render minor": {
			edit: props("drm_render_minor", "136"),
			want: []string{
				"node 2: 0000:05:00.0: render minor 136 is named by nodes of several gpus: conflicting sysfs entries",
				"node 3: 0000:27:00.0: render minor 136 is named by nodes of several gpus: conflicting sysfs entries",
			},
			also: "0000:27:00.0",
		},
		"the render minor of a GPU without a node": {
			edit: func(tb testing.TB, root string) {
				fixturetest.Remove(tb, root, topologyDir+"/nodes/3")
				fixturetest.SetLine(tb, root, nodeFile(2, "properties"), "drm_render_minor", "136")
			},
			want: []string{
				"node 2: 0000:05:00.0: render minor 136 belongs to 0000:27:00.0: conflicting sysfs entries",
				"0000:27:00.0: card9: no kfd node",
			},
			also: "0000:27:00.0",
		},
		"a render minor that two devices claim": {
			edit: func(tb testing.TB, root string) {
				fixturetest.Write(tb, root, "devices/platform/amdgpu_xcp_99/drm/renderD128/dev", "226:128\n")
			},
			want: []string{"node 2: 0000:05:00.0: render minor 128 belongs to several devices: conflicting sysfs entries"},
		},
		"properties are empty": {
			edit: write(nodeFile(2, "properties"), ""),
			want: []string{"node 2: 0000:05:00.0: properties: empty file"},
		},
		"properties are huge": {
			edit: write(nodeFile(2, "properties"), string(make([]byte, 1<<20))),
			want: []string{"node 2: 0000:05:00.0: read class/kfd/kfd/topology/nodes/2/properties: larger than a kernel attribute"},
		},
		"properties are a folder": {
			edit: func(tb testing.TB, root string) {
				fixturetest.Remove(tb, root, nodeFile(2, "properties"))
				fixturetest.Write(tb, root, nodeFile(2, "properties/x"), "")
			},
			want: []string{"node 2: 0000:05:00.0: read class/kfd/kfd/topology/nodes/2/properties: is a directory"},
		},
		"properties are gone": {
			edit: remove(nodeFile(2, "properties")),
			want: []string{"node 2: 0000:05:00.0: open class/kfd/kfd/topology/nodes/2/properties: no such file or directory"},
		},
		"properties with a broken number": {
			edit: props("num_xcc", "8x"),
			want: []string{`node 2: 0000:05:00.0: properties: num_xcc "8x": want a number`},
		},
		"no node": {
			edit: remove(topologyDir + "/nodes/2"),
			want: []string{"0000:05:00.0: card1: no kfd node"},
		},
		"PCI says it is another part": {
			edit: write(pci+"device", "0x75a3\n"),
			want: []string{"0000:05:00.0: conflicting sysfs entries: device 0x75a3: kfd speaks of 0x74a1"},
		},
		"PCI says it is another vendor's": {
			edit: write(pci+"vendor", "0x10de\n"),
			want: []string{"0000:05:00.0: conflicting sysfs entries: vendor 0x10de: want AMD's 0x1002"},
		},
		"the serial number cannot be read": {
			edit: func(tb testing.TB, root string) {
				fixturetest.Remove(tb, root, pci+"unique_id")
				fixturetest.Write(tb, root, pci+"unique_id/x", "")
			},
			want: []string{"0000:05:00.0: read bus/pci/devices/0000:05:00.0/unique_id: is a directory"},
		},
		"PCI function leads nowhere": {
			edit: func(tb testing.TB, root string) {
				fixturetest.Link(tb, root, "bus/pci/devices/0000:05:00.0", "../../../devices/absent")
			},
			want: []string{"0000:05:00.0: openat bus/pci/devices/0000:05:00.0: no such file or directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "mi300x-spx-8")
			test.edit(t, root)
			inv := discoverTree(t, root)
			if diff := cmp.Diff(test.want, skippedLines(inv)); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			checkOthersStay(t, inv, map[BDF]bool{"0000:05:00.0": true, test.also: true})
		})
	}
}

// checkOthersStay compares the GPUs that were not lost with the whole machine,
// links and ranks apart.
func checkOthersStay(t *testing.T, inv *Inventory, lost map[BDF]bool) {
	t.Helper()
	want := wantMachines()["mi300x-spx-8"]
	kept := want.GPUs[:0:0]
	for _, g := range want.GPUs {
		if !lost[g.BDF] {
			kept = append(kept, g)
		}
	}
	want.GPUs = kept
	if diff := cmp.Diff(wantRanks(want).GPUs, inv.GPUs, cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".Links"
	}, cmp.Ignore())); diff != "" {
		t.Errorf("the other GPUs (-want +got):\n%s", diff)
	}
}

// A partition that is sick costs the partition.
func TestSickPartitionIsSkipped(t *testing.T) {
	root := fixturetest.Machine(t, "mi355x-qpx-8")
	// Node 13 is partition 1 of 0000:05:00.0.
	fixturetest.SetLine(t, root, nodeFile(13, "properties"), "simd_count", "0")
	inv := discoverTree(t, root)
	want := []string{"0000:05:00.0 p0: node 12", "0000:05:00.0 p2: node 14", "0000:05:00.0 p3: node 15"}
	if diff := cmp.Diff(want, placed(inv)[:3]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"node 13: 0000:05:00.0: simd_count 0: the gpu is gone"}, skippedLines(inv)); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

// Nodes of one PCI function that are different parts: no telling which it is.
func TestNodesDisagreeAboutTheDevice(t *testing.T) {
	root := t.TempDir()
	writeNode(t, root, 1, map[string]uint64{"location_id": 0x500})
	writeNode(t, root, 2, map[string]uint64{"location_id": 0x501, "device_id": 0x75a3})
	writeNode(t, root, 3, map[string]uint64{"location_id": 0x600})
	inv := discoverTree(t, root)
	if diff := cmp.Diff([]string{"0000:05:00.0: nodes 1 and 2 are devices 0x74a1 and 0x75a3: conflicting sysfs entries"}, skippedLines(inv)); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0000:06:00.0 p0: node 3"}, placed(inv)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Several nodes without an address, several functions without a node: which
// is which cannot be told, so both are listed.
func TestSeveralNodesCannotBeRead(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	fixturetest.Write(t, root, nodeFile(2, "properties"), "")
	fixturetest.Write(t, root, nodeFile(3, "properties"), "simd_count many\n")
	want := []string{
		"node 2: properties: empty file",
		`node 3: properties: simd_count "many": want a number`,
		"0000:05:00.0: card1: no kfd node that can be read",
		"0000:27:00.0: card9: no kfd node that can be read",
	}
	if diff := cmp.Diff(want, skippedLines(discoverTree(t, root))); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

// Without KFD, as with a module that was built without it, cards are reported.
func TestCardsWithoutKFD(t *testing.T) {
	root := fixturetest.Machine(t, "rx9060xt")
	fixturetest.Remove(t, root, "class/kfd")
	fixturetest.Remove(t, root, "devices/virtual")
	inv := discoverTree(t, root)
	if diff := cmp.Diff([]string{"0000:03:00.0: card1: no kfd node"}, skippedLines(inv)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(inv.GPUs) != 0 {
		t.Errorf("found %d GPUs", len(inv.GPUs))
	}
}
