package partition

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// The figures below restate what the heads of the archives promise; they are
// not taken from the generator.

// wantMachines are the inventories of the machines of testdata, links apart.
func wantMachines() map[string]*Inventory {
	return map[string]*Inventory{
		"mi300x-spx-8":       wantMI300X(1, "spx", 1),
		"mi300x-cpx-8":       wantMI300X(0, "cpx", 8),
		"mi300x-vf":          wantMI300XVF(),
		"mi355x-spx-8":       wantMI355X("spx", 1, true),
		"mi355x-qpx-8":       wantMI355X("qpx", 4, true),
		"mi355x-qpx-8-noxcp": wantMI355X("qpx", 4, false),
		"mi210-8":            wantMI210(),
		"rx7900xtx": wantRadeon(GPU{
			DeviceID: 0x744c, Revision: new(uint8(0xc8)), Name: "AMD Radeon RX 7900 XTX", GFX: "gfx1100", UniqueID: 0x53b1a2c8e7d64f09,
		}, cumask.Geometry{CUs: 96, XCCs: 1, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8}, 25753026560, 8),
		"rx9060xt": wantRadeon(GPU{
			DeviceID: 0x7590, Revision: new(uint8(0xc0)), Name: "AMD Radeon RX 9060 XT", GFX: "gfx1200", UniqueID: 0x8f4e19c27ab3d650,
		}, cumask.Geometry{CUs: 32, XCCs: 1, CUsPerWGP: 2, SEsPerXCC: 2, SAsPerSE: 2, CUsPerSA: 8}, 16304<<20, 4),
		"apu-8060s": wantAPU(),
		"empty":     {},
	}
}

var instinctModes = []ComputeMode{"spx", "dpx", "qpx", "cpx"}

// wantSplit completes a GPU with its nodes: n equal partitions, whose render
// minors and cards count up from the GPU's own.
func wantSplit(g GPU, shape cumask.Geometry, n, firstNode, render, queues int, bank func(k int) uint64) GPU {
	shape.CUs /= n
	shape.XCCs /= n
	var sum uint64
	for k := range n {
		g.Nodes = append(g.Nodes, Node{
			ID: firstNode + k, Partition: k, UniqueID: g.UniqueID, RenderMinor: render + k, Card: new(*g.Card + k),
			Geometry: shape, VRAMBytes: new(bank(k)), ComputeQueues: queues,
		})
		sum += bank(k)
	}
	g.VRAMBytes = &sum
	return g
}

// wantRanks numbers the nodes in KFD order.
func wantRanks(inv *Inventory) *Inventory {
	slices.SortFunc(inv.GPUs, func(a, b GPU) int { return cmp.Compare(a.BDF, b.BDF) })
	var ids []int
	for _, g := range inv.GPUs {
		for _, n := range g.Nodes {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	for i := range inv.GPUs {
		for j := range inv.GPUs[i].Nodes {
			n := &inv.GPUs[i].Nodes[j]
			n.Rank = slices.Index(ids, n.ID)
		}
	}
	return inv
}

func wantProfiles(current ComputeMode, dpx, qpx, cpx []MemoryMode) []Profile {
	profiles := []Profile{
		{Index: 0, Compute: "spx", Memory: []MemoryMode{"nps1"}, Partitions: 1, XCCsPerPart: 8},
		{Index: 1, Compute: "dpx", Memory: dpx, Partitions: 2, XCCsPerPart: 4},
		{Index: 2, Compute: "qpx", Memory: qpx, Partitions: 4, XCCsPerPart: 2},
		{Index: 3, Compute: "cpx", Memory: cpx, Partitions: 8, XCCsPerPart: 1},
	}
	for i := range profiles {
		profiles[i].Current = profiles[i].Compute == current
	}
	return profiles
}

func wantMI300X(firstCard int, mode ComputeMode, parts int) *Inventory {
	inv := &Inventory{}
	shape := cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}
	serials := []uint64{
		0x1a72f0c33b95e8d1, 0xe3a9046bd8127f5c, 0x77d15b209ce4063a, 0x9f0836e1c45ab2d7,
		0x25c8e97f61d0b34e, 0xb64f1d82a7935ec0, 0x0d93a65ce27b18f4, 0xc81e70b95fd3a426,
	}
	nps14 := []MemoryMode{"nps1", "nps4"}
	for i, bus := range []string{"05", "27", "47", "65", "85", "a7", "c7", "e5"} {
		g := GPU{
			BDF: BDF("0000:" + bus + ":00.0"), DeviceID: 0x74a1, Revision: new(uint8(0)), Name: "AMD Instinct MI300X", GFX: "gfx942",
			Card: new(firstCard + 8*i), NUMANode: new(i / 4), UniqueID: serials[i], HiveID: 0xd1f00b6a83c2974e,
			Compute: mode, ComputeModes: instinctModes, Memory: "nps1", MemoryModes: nps14,
			Profiles: wantProfiles(mode, []MemoryMode{"nps1"}, nps14, nps14),
		}
		inv.GPUs = append(inv.GPUs, wantSplit(g, shape, parts, 2+i*parts, 128+8*i, 24, func(k int) uint64 {
			switch {
			case parts == 1:
				return 206141652992
			case k == parts-1:
				return 25769803776 - 16<<20
			}
			return 25769803776
		}))
	}
	return wantRanks(inv)
}

func wantMI300XVF() *Inventory {
	inv := &Inventory{}
	for i, serial := range []uint64{0x8e1bb56457addd1b, 0x3c07d9a1e4685bf2} {
		g := GPU{
			BDF: BDF(fmt.Sprintf("0000:%02x:00.0", 3+i)), DeviceID: 0x74b5, Revision: new(uint8(0)), Name: "AMD Instinct MI300X VF",
			GFX: "gfx942", Card: new(1 + i), UniqueID: serial, HiveID: 0xd1f00b6a83c2974e, VF: true, Compute: "spx", Memory: "nps1",
			Profiles: wantProfiles("spx", []MemoryMode{"nps1"}, []MemoryMode{"nps1", "nps4"}, []MemoryMode{"nps1", "nps4"}),
		}
		inv.GPUs = append(inv.GPUs, wantSplit(g, cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
			1, 1+i, 128+i, 24, func(int) uint64 { return 196288 << 20 }))
	}
	return wantRanks(inv)
}

// wantMI355X is the published MI355X node; xcp is whether KFD names the render
// minors of the partitions.
func wantMI355X(mode ComputeMode, parts int, xcp bool) *Inventory {
	inv := &Inventory{}
	shape := cumask.Geometry{CUs: 256, XCCs: 8, CUsPerWGP: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 9}
	nps1, nps12 := []MemoryMode{"nps1"}, []MemoryMode{"nps1", "nps2"}
	for i, row := range []struct {
		bus    string
		numa   int
		serial uint64
	}{
		{"75", 0, 0x08da82c12ef81b5d}, {"05", 1, 0xc62ac130ee448403}, {"65", 3, 0x8aa2810481bf6315}, {"15", 2, 0xf32cb37ceef6feb5},
		{"f5", 4, 0xe88fa10fb8782ebc}, {"85", 5, 0xcf10e0d8795d487e}, {"e5", 7, 0x6402daab8ae76e4e}, {"95", 6, 0x1303b4d1d1d0c537},
	} {
		g := wantSplit(GPU{
			BDF: BDF("0000:" + row.bus + ":00.0"), DeviceID: 0x75a3, Revision: new(uint8(0)), Name: "AMD Instinct MI355X", GFX: "gfx950",
			Card: new(1 + 8*i), NUMANode: new(row.numa), UniqueID: row.serial, HiveID: 0x6c9be1440f27da83,
			Compute: mode, ComputeModes: instinctModes, Memory: "nps1", MemoryModes: nps12, Profiles: wantProfiles(mode, nps12, nps1, nps1),
		}, shape, parts, 8+i*parts, 128+8*i, 24, func(k int) uint64 {
			switch {
			case parts == 1:
				return 294896 << 20
			case !xcp && k == parts-1:
				return 77309411328 - 16<<20
			}
			return 77309411328
		})
		for k := range g.Nodes {
			switch {
			case parts == 1:
			case xcp: // each partition has an id of its own, none of them the GPU's
				g.Nodes[k].UniqueID = (row.serial + uint64(k)) * 0x9e3779b97f4a7c15
			default:
				g.Nodes[k].RenderMinor, g.Nodes[k].Card = 128+8*i, g.Card
			}
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	return wantRanks(inv)
}

func wantMI210() *Inventory {
	inv := &Inventory{}
	serials := []uint64{
		0x19f3c07ab258e46d, 0x5127b8ed90c6a34f, 0x93bd64e01fa8275c, 0x4345ad9c7e20b81f,
		0xaea81f36c95d7b02, 0xa378e25b0d4f916c, 0xf83f0c94d7a6be15, 0xc34d871ea259f063,
	}
	hives := []uint64{0xaefe5d3017c6b82f, 0xaefe5d3117c6b82f}
	for i, bus := range []string{"63", "43", "03", "26", "e3", "c3", "83", "a3"} {
		g := GPU{
			BDF: BDF("0000:" + bus + ":00.0"), DeviceID: 0x740f, Revision: new(uint8(2)), Name: "AMD Instinct MI210", GFX: "gfx90a",
			Card: new(1 + i), NUMANode: new(i / 4), UniqueID: serials[i], HiveID: hives[i/4],
		}
		inv.GPUs = append(inv.GPUs, wantSplit(g, cumask.Geometry{CUs: 104, XCCs: 1, CUsPerWGP: 1, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 14},
			1, 2+i, 128+i, 24, func(int) uint64 { return 65520 << 20 }))
	}
	return wantRanks(inv)
}

func wantRadeon(g GPU, shape cumask.Geometry, vram uint64, queues int) *Inventory {
	g.BDF, g.Card = "0000:03:00.0", new(1)
	return &Inventory{GPUs: []GPU{wantSplit(g, shape, 1, 1, 128, queues, func(int) uint64 { return vram })}}
}

func wantAPU() *Inventory {
	g := GPU{BDF: "0000:c2:00.0", DeviceID: 0x1586, Revision: new(uint8(0xc1)), Name: "AMD Radeon 8060S", GFX: "gfx1151", Card: new(1), APU: true}
	shape := cumask.Geometry{CUs: 40, XCCs: 1, CUsPerWGP: 2, SEsPerXCC: 2, SAsPerSE: 2, CUsPerSA: 10}
	return &Inventory{
		GPUs:  []GPU{wantSplit(g, shape, 1, 1, 128, 8, func(int) uint64 { return 118111600640 })},
		Notes: []string{"0000:c2:00.0: APU: its 112640 MiB are shared with the host; carve-out: 512 MiB"},
	}
}

func TestDiscoverMachines(t *testing.T) {
	want := wantMachines()
	for _, name := range testdata.Machines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if want[name] == nil {
				t.Fatal("no inventory is expected of this machine")
			}
			got, err := Discover(fixturetest.Machine(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(want[name], got, cmpopts.IgnoreFields(Node{}, "Links")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Without openat2 (kernels before 5.6, some seccomp profiles) the same files
// are read in more steps.
func TestDiscoverWithoutOpenat2(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	want, err := Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	tr.openat2 = false
	w := walker{t: tr}
	got, err := w.walk("class/kfd/kfd/topology")
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-openat2 +openat):\n%s", diff)
	}
}

func TestDiscoverIsRepeatable(t *testing.T) {
	root := fixturetest.Machine(t, "mi355x-qpx-8")
	first, err := DiscoverWith(root, DiscoverOptions{AllLinks: true})
	if err != nil {
		t.Fatal(err)
	}
	second, err := DiscoverWith(root, DiscoverOptions{AllLinks: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(first, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}
