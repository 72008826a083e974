package partition

import (
	"fmt"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// product is one row of the product table, as the tests of registration build
// machines from it: a machine in a mode that no archive has is the same
// hardware with other nodes.
type product struct {
	name       string
	device     uint16
	gfx        string
	xccs       int
	cusPerXCC  int
	cusPerWGP  int
	vramMiB    uint64
	modes      []ComputeMode
	profiles   []Profile
	queues     int
	fixed      bool // available_compute_partition is absent
	noModeFile bool // current_compute_partition is absent
	noSerial   bool
}

var (
	eightXCCs = []ComputeMode{SPX, DPX, QPX, CPX}
	mi300x    = product{name: "AMD Instinct MI300X", device: 0x74a1, gfx: "gfx942", xccs: 8, cusPerXCC: 38, vramMiB: 196592, modes: eightXCCs, queues: 24,
		profiles: []Profile{
			{Index: 0, Compute: SPX, Memory: []MemoryMode{"nps1"}, Partitions: 1, XCCsPerPart: 8},
			{Index: 1, Compute: DPX, Memory: []MemoryMode{"nps1", "nps2"}, Partitions: 2, XCCsPerPart: 4},
			{Index: 2, Compute: QPX, Memory: []MemoryMode{"nps1", "nps4"}, Partitions: 4, XCCsPerPart: 2},
			{Index: 3, Compute: CPX, Memory: []MemoryMode{"nps1", "nps4"}, Partitions: 8, XCCsPerPart: 1},
		}}
	mi300xVF = product{name: "AMD Instinct MI300X VF", device: 0x74b5, gfx: "gfx942", xccs: 8, cusPerXCC: 38, vramMiB: 196288, modes: eightXCCs, queues: 24, fixed: true}
	mi355x   = product{name: "AMD Instinct MI355X", device: 0x75a3, gfx: "gfx950", xccs: 8, cusPerXCC: 32, vramMiB: 294912, modes: eightXCCs, queues: 24,
		profiles: []Profile{
			{Index: 0, Compute: SPX, Memory: []MemoryMode{"nps1"}, Partitions: 1, XCCsPerPart: 8},
			{Index: 1, Compute: DPX, Memory: []MemoryMode{"nps1", "nps2"}, Partitions: 2, XCCsPerPart: 4},
			{Index: 2, Compute: QPX, Memory: []MemoryMode{"nps1"}, Partitions: 4, XCCsPerPart: 2},
			{Index: 3, Compute: CPX, Memory: []MemoryMode{"nps1", "nps2"}, Partitions: 8, XCCsPerPart: 1},
		}}
	mi300a  = product{name: "AMD Instinct MI300A", device: 0x74a0, gfx: "gfx942", xccs: 6, cusPerXCC: 38, vramMiB: 131072, modes: []ComputeMode{SPX, TPX, CPX}, queues: 24}
	mi308x  = product{name: "AMD Instinct MI308X", device: 0x74a2, gfx: "gfx942", xccs: 4, cusPerXCC: 20, vramMiB: 196608, modes: []ComputeMode{SPX, DPX, CPX}, queues: 24}
	mi210   = product{name: "AMD Instinct MI210", device: 0x740f, gfx: "gfx90a", xccs: 1, cusPerXCC: 104, vramMiB: 65520, queues: 24, noModeFile: true}
	rx7900  = product{name: "AMD Radeon RX 7900 XTX", device: 0x744c, gfx: "gfx1100", xccs: 1, cusPerXCC: 96, cusPerWGP: 2, vramMiB: 24560, queues: 8, noModeFile: true}
	rx9060  = product{name: "AMD Radeon RX 9060 XT", device: 0x7590, gfx: "gfx1200", xccs: 1, cusPerXCC: 32, cusPerWGP: 2, vramMiB: 16304, queues: 4, noModeFile: true}
	apu8060 = product{name: "AMD Radeon 8060S", device: 0x1586, gfx: "gfx1151", xccs: 1, cusPerXCC: 40, cusPerWGP: 2, vramMiB: 114688, queues: 4, noModeFile: true, noSerial: true}
)

// machine builds a node of n equal GPUs in the given mode, as discovery gives
// it: PCI addresses 05, 15, 25, ..., cards and render minors in strides of 8.
func machine(p product, n int, compute ComputeMode, memory MemoryMode) *Inventory {
	inv := &Inventory{}
	for i := range n {
		inv.GPUs = append(inv.GPUs, p.gpu(i, compute, memory))
	}
	numberNodes(inv)
	return inv
}

func (p product) gpu(i int, compute ComputeMode, memory MemoryMode) GPU {
	g := GPU{
		BDF: BDF(fmt.Sprintf("%04x:%x5:00.0", i/16, i%16)), DeviceID: p.device, Name: p.name, GFX: p.gfx, Card: ptr(8 * i), NUMANode: ptr(i / 4),
		UniqueID: 0x08da82c12ef81b00 + uint64(i), HiveID: 1, Profiles: p.profiles,
		Compute: compute, Memory: memory, ComputeModes: p.modes, MemoryModes: []MemoryMode{"nps1", "nps4"},
	}
	if p.noSerial {
		g.UniqueID = 0
	}
	if p.fixed {
		g.ComputeModes, g.VF = nil, true
	}
	if p.noModeFile {
		g.Compute, g.Memory, g.ComputeModes, g.MemoryModes, compute = "", "", nil, nil, SPX
	}
	parts := compute.partitions(p.xccs)
	total := p.vramMiB << 20
	g.VRAMBytes = &total
	for k := range parts {
		share := total / uint64(parts)
		g.Nodes = append(g.Nodes, Node{
			Partition: k, UniqueID: g.UniqueID, RenderMinor: 128 + 8*i + k, Card: ptr(8*i + k), VRAMBytes: &share, ComputeQueues: p.queues,
			Geometry: cumask.Geometry{CUs: p.xccs / parts * p.cusPerXCC, XCCs: p.xccs / parts, CUsPerWGP: p.cusPerWGP},
		})
	}
	return g
}

// numberNodes numbers the KFD nodes after two CPU nodes, and links every GPU
// that has modes over XGMI with the others of its hive, 8 GPUs.
func numberNodes(inv *Inventory) {
	id := 2
	for i := range inv.GPUs {
		for j := range inv.GPUs[i].Nodes {
			inv.GPUs[i].Nodes[j].ID, inv.GPUs[i].Nodes[j].Rank = id, id-2
			id++
		}
	}
	for i := range inv.GPUs {
		n := &inv.GPUs[i].Nodes[0]
		n.Links = []Link{{To: 0, Type: LinkPCIe, Weight: 20}}
		for k := i / 8 * 8; k < min(i/8*8+8, len(inv.GPUs)); k++ {
			for _, to := range inv.GPUs[k].Nodes {
				if to.ID != n.ID && len(inv.GPUs[i].ComputeModes) > 0 {
					n.Links = append(n.Links, Link{To: to.ID, Type: LinkXGMI, Weight: 15})
				}
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }

// mustRegister registers and fails the test on an error.
func mustRegister(tb testing.TB, inv *Inventory, opts RegisterOptions) []Registered {
	tb.Helper()
	devices, err := inv.Registered(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return devices
}
