package partition

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestC29VRAMOfDevices: what a device holds is its own banks,
// what is unknown is 0, and nothing is invented.
func TestC29VRAMOfDevices(t *testing.T) {
	const unknown = "VRAM size unknown, registered as 0 MiB: requests with gpumem do not fit"
	tests := map[string]struct {
		compute ComputeMode
		edit    func(*GPU)
		want    []int32 // partition mode
		notes   int
	}{
		"each partition has its own banks": {QPX, func(g *GPU) { g.Nodes[3].VRAMBytes = ptr(uint64(73712 << 20)) }, []int32{73728, 73728, 73728, 73712}, 0},
		"a size that is no whole MiB":      {SPX, func(g *GPU) { g.VRAMBytes = ptr(uint64(3<<20 - 1)) }, []int32{2}, 0},
		"nothing is known":                 {SPX, func(g *GPU) { g.VRAMBytes, g.Nodes[0].VRAMBytes = nil, nil }, []int32{0}, 1},
		"no banks, but the size of the PCI function": {QPX, func(g *GPU) {
			for i := range g.Nodes {
				g.Nodes[i].VRAMBytes = nil
			}
			g.VRAMBytes = ptr(uint64(294896<<20 + 3))
		}, []int32{73724, 73724, 73724, 73724}, 0},
		"no banks and one node short of its mode": {CPX, func(g *GPU) {
			g.Nodes = g.Nodes[:7]
			for i := range g.Nodes {
				g.Nodes[i].VRAMBytes = nil
			}
		}, []int32{36864, 36864, 36864, 36864, 36864, 36864, 36864}, 0},
		"one partition without banks":    {DPX, func(g *GPU) { g.Nodes[1].VRAMBytes = nil }, []int32{147456, 147456}, 0},
		"nothing known of a partitioned": {DPX, func(g *GPU) { g.Nodes[0].VRAMBytes, g.Nodes[1].VRAMBytes, g.VRAMBytes = nil, nil, nil }, []int32{0, 0}, 2},
		"a size that cannot be":          {SPX, func(g *GPU) { g.VRAMBytes = ptr(uint64(math.MaxUint64)) }, []int32{0}, 1},
		"the largest that can be":        {SPX, func(g *GPU) { g.VRAMBytes = ptr(uint64(math.MaxInt32) << 20) }, []int32{math.MaxInt32}, 0},
		"less than a MiB":                {SPX, func(g *GPU) { g.VRAMBytes = ptr(uint64(1<<20 - 1)) }, []int32{0}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inv := machine(mi355x, 1, test.compute, "nps1")
			test.edit(&inv.GPUs[0])
			reg, err := inv.Register(RegisterOptions{Mode: ModePartition})
			if err != nil {
				t.Fatal(err)
			}
			var got []int32
			for _, d := range reg.Devices {
				got = append(got, d.Devmem)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("MiB %v, want %v", got, test.want)
			}
			notes := 0
			for _, n := range reg.Notes {
				if strings.HasSuffix(n, unknown) {
					notes++
				}
			}
			if notes != test.notes {
				t.Errorf("%d notes about unknown VRAM, want %d: %q", notes, test.notes, reg.Notes)
			}
		})
	}
}

func TestMemoryScaling(t *testing.T) {
	tests := map[string]struct {
		factor float64
		want   int32
	}{
		"none": {0, 294912}, "one": {1, 294912}, "half again": {1.5, 442368}, "less than there is": {0.5, 147456}, "rounded down": {1.0000021, 294912},
		"the most an int32 holds": {7281, 2147254272},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := mustRegister(t, machine(mi355x, 1, SPX, "nps1"), RegisterOptions{MemoryScaling: test.factor})
			if reg[0].Devmem != test.want {
				t.Errorf("%d MiB, want %d", reg[0].Devmem, test.want)
			}
		})
	}
	for name, factor := range map[string]float64{"beyond an int32": 7282, "beyond any integer": 1e300, "to less than a MiB": 1e-9} {
		t.Run(name, func(t *testing.T) {
			reg, err := machine(mi355x, 1, SPX, "nps1").Register(RegisterOptions{MemoryScaling: factor})
			checkRefused(t, err, "registering GPU 0000:05:00.0: memory scaling ")
			if reg != nil {
				t.Error("devices beside the error")
			}
		})
	}
	t.Run("unknown VRAM stays unknown", func(t *testing.T) {
		inv := machine(mi355x, 1, SPX, "nps1")
		inv.GPUs[0].VRAMBytes = nil
		if reg := mustRegister(t, inv, RegisterOptions{MemoryScaling: 1e300}); reg[0].Devmem != 0 {
			t.Errorf("%d MiB, want 0", reg[0].Devmem)
		}
	})
}
