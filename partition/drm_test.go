package partition

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

func TestMinorOf(t *testing.T) {
	for name, want := range map[string]int{"card0": 0, "card9": 9, "card10": 10, "card192": 192} {
		if got, ok := minorOf(name, "card"); !ok || got != want {
			t.Errorf("%q: want %d, found %d, %t", name, want, got, ok)
		}
	}
	for _, name := range []string{"card", "card0-DP-1", "card01", "card-1", "card1048576", "card99999999", "renderD128", "controlD64", "", "Card1", "card1 "} {
		if got, ok := minorOf(name, "card"); ok {
			t.Errorf("%q: want no card, found %d", name, got)
		}
	}
}

func TestIsXCP(t *testing.T) {
	for _, name := range []string{"amdgpu_xcp_0", "amdgpu_xcp_30", "amdgpu_xcp.55"} {
		if !isXCP(name) {
			t.Errorf("%q is an XCP device", name)
		}
	}
	for _, name := range []string{"amdgpu_xcp", "amdgpu_xcp_", "amdgpu_xcp-1", "amdgpu_xcp30", "amdgpu_xcp_x", "amdgpu_xcp_01", "amdgpu_xcp_1.2", "serial8250"} {
		if isXCP(name) {
			t.Errorf("%q is no XCP device", name)
		}
	}
}

func TestCanonicalInt(t *testing.T) {
	for s, want := range map[string]int{"0": 0, "7": 7, "10": 10, "9999999": 9999999} {
		if got, ok := canonicalInt(s); !ok || got != want {
			t.Errorf("%q: want %d, found %d, %t", s, want, got, ok)
		}
	}
	for _, s := range []string{"", "00", "01", "-1", "+1", " 1", "1 ", "1_0", "0x1", "10000000", "1a", "٣"} {
		if got, ok := canonicalInt(s); ok {
			t.Errorf("%q: want no number, found %d", s, got)
		}
	}
}

// Where parts of the tree are missing, others give the same answer.
func TestDiscoverAlongOtherPaths(t *testing.T) {
	for name, test := range map[string]struct {
		machine string
		edit    func(tb testing.TB, root string)
	}{
		"kfd without its class": {"mi300x-spx-8", func(tb testing.TB, root string) {
			fixturetest.Remove(tb, root, "class/kfd")
		}},
		"amdgpu through its module": {"mi300x-spx-8", func(tb testing.TB, root string) {
			fixturetest.Remove(tb, root, "module/amdgpu/drivers/pci:amdgpu")
			fixturetest.Rename(tb, root, "bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu")
		}},
		"no bus/pci: class/drm": {"mi300x-cpx-8", func(tb testing.TB, root string) {
			fixturetest.Remove(tb, root, "bus/pci")
			fixturetest.Remove(tb, root, "module")
		}},
		"no platform devices: class/drm": {"mi300x-cpx-8", func(tb testing.TB, root string) {
			fixturetest.Rename(tb, root, "devices/platform", "devices/system")
			for i, g := range wantMachines()["mi300x-cpx-8"].GPUs {
				for k, n := range g.Nodes[1:] {
					minor := "class/drm/renderD" + strconv.Itoa(n.RenderMinor)
					fixturetest.Link(tb, root, minor, "../../devices/system/amdgpu_xcp_"+strconv.Itoa(7*i+k)+"/drm/renderD"+strconv.Itoa(n.RenderMinor))
					fixturetest.Link(tb, root, minor+"/device", "../../../amdgpu_xcp_"+strconv.Itoa(7*i+k))
				}
			}
		}},
		"a kernel that names no render minor": {"mi210-8", func(tb testing.TB, root string) {
			for id := 2; id < 10; id++ {
				fixturetest.DropLine(tb, root, nodeFile(id, "properties"), "drm_render_minor")
			}
		}},
		"a kernel without gpu_id and name": {"mi210-8", func(tb testing.TB, root string) {
			for id := range 10 {
				fixturetest.Remove(tb, root, nodeFile(id, "gpu_id"))
				fixturetest.Remove(tb, root, nodeFile(id, "name"))
			}
			fixturetest.Remove(tb, root, topologyDir+"/generation_id")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, test.machine)
			want := discoverTree(t, root)
			test.edit(t, root)
			if diff := cmp.Diff(want, discoverTree(t, root)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A node of an old kernel has one render minor if its function has one.
func TestNoRenderMinorAnywhere(t *testing.T) {
	for name, renders := range map[string][]string{
		"none": nil, "two of them": {"renderD128", "renderD129"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeNode(t, root, 1, nil)
			fixturetest.DropLine(t, root, nodeFile(1, "properties"), "drm_render_minor")
			writeFunction(t, root, "0000:05:00.0", "0x74a1")
			for _, r := range renders {
				fixturetest.Write(t, root, "bus/pci/devices/0000:05:00.0/drm/"+r+"/dev", "226:128\n")
			}
			if diff := cmp.Diff([]string{"node 1: 0000:05:00.0: no render node"}, skippedLines(discoverTree(t, root))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// class/drm lists cards of all drivers and connectors; the driver's name and
// the address decide.
func TestCardsOfOtherDriversAreNotAMDs(t *testing.T) {
	root := t.TempDir()
	for card, f := range map[string]struct{ driver, uevent string }{
		"card0":       {"ast", "PCI_SLOT_NAME=0000:c1:00.0\n"},
		"card1":       {"amdgpu", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:05:00.0\n"},
		"card10":      {"amdgpu", "PCI_SLOT_NAME=0000:06:00.0\n"},
		"card2":       {"amdgpu", "PCI_SLOT_NAME=../../..\n"},
		"card3":       {"amdgpu", ""},
		"card1-DP-1":  {"amdgpu", "PCI_SLOT_NAME=0000:07:00.0\n"},
		"renderD128":  {"amdgpu", "PCI_SLOT_NAME=0000:08:00.0\n"},
		"card4_weird": {"amdgpu", "PCI_SLOT_NAME=0000:09:00.0\n"},
	} {
		fixturetest.Write(t, root, "class/drm/"+card+"/device/uevent", f.uevent)
		fixturetest.Link(t, root, "class/drm/"+card+"/device/driver", "../../../../bus/pci/drivers/"+f.driver)
	}
	want := []string{"0000:05:00.0: no kfd node", "0000:06:00.0: no kfd node"}
	if diff := cmp.Diff(want, skippedLines(discoverTree(t, root))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Old kernels put an APU's GPU and CPU into one node.
func TestCombinedAPUNode(t *testing.T) {
	root := fixturetest.Machine(t, "rx7900xtx")
	fixturetest.SetLine(t, root, nodeFile(1, "properties"), "cpu_cores_count", "8")
	inv := discoverTree(t, root)
	if len(inv.GPUs) != 1 || !inv.GPUs[0].APU {
		t.Errorf("want an APU, found %+v", inv.GPUs)
	}
}

func TestVirtualFunction(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	fixturetest.Link(t, root, "bus/pci/devices/0000:05:00.0/physfn", "../0000:04:00.0")
	inv := discoverTree(t, root)
	for _, g := range inv.GPUs {
		if g.VF != (g.BDF == "0000:05:00.0") {
			t.Errorf("%s: VF is %t", g.BDF, g.VF)
		}
	}
}

func TestSerialNumber(t *testing.T) {
	const file = "bus/pci/devices/0000:05:00.0/unique_id"
	for name, test := range map[string]struct {
		machine, content string
		want             uint64
	}{
		"of the function":                     {"mi355x-qpx-8", "c62ac130ee448403\n", 0xc62ac130ee448403},
		"with 0x":                             {"mi355x-qpx-8", "0xc62ac130ee448403\n", 0xc62ac130ee448403},
		"zero is what it says":                {"mi300x-cpx-8", "0000000000000000\n", 0},
		"garbage: kfd's, which all agree on":  {"mi300x-cpx-8", "none\n", 0x1a72f0c33b95e8d1},
		"missing: kfd's, which all agree on":  {"mi300x-cpx-8", "-", 0x1a72f0c33b95e8d1},
		"missing, and kfd's are partitions'":  {"mi355x-qpx-8", "-", 0},
		"too long: kfd's are the partitions'": {"mi355x-qpx-8", "c62ac130ee4484030\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, test.machine)
			fixturetest.WriteOrRemove(t, root, file, test.content)
			if got := gpuAt(t, discoverTree(t, root), "0000:05:00.0").UniqueID; got != test.want {
				t.Errorf("want %x, found %x", test.want, got)
			}
		})
	}
}

// supported_nps_configs describes the config that xcp_config selects, which
// need not be the current mode.
func TestSelectedConfig(t *testing.T) {
	const dir = "bus/pci/devices/0000:05:00.0/compute_partition_config/"
	root := fixturetest.Machine(t, "mi355x-spx-8")
	fixturetest.Write(t, root, dir+"xcp_config", "CPX\n")
	fixturetest.Write(t, root, dir+"supported_nps_configs", "NPS1, NPS2\n")
	g := gpuAt(t, discoverTree(t, root), "0000:05:00.0")
	want := wantProfiles("spx", nps("nps1", "nps2"), nps("nps1"), nps("nps1", "nps2"))
	if diff := cmp.Diff(want, g.Profiles); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
