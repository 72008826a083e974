package partition

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRegisterProperties registers random machines in random states under
// random options. Whatever they are: the invariants of checkRegistered hold,
// the same input gives the same answer, and the inventory is not touched.
func TestRegisterProperties(t *testing.T) {
	products := []product{mi300x, mi300xVF, mi355x, mi300a, mi308x, mi210, rx7900, rx9060, apu8060}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		inv := randomMachine(r, products)
		opts := RegisterOptions{
			Mode:     []OperatingMode{"", ModeCU, ModePartition, ModePartition}[r.IntN(4)],
			Naming:   []NamingStrategy{"", NamingSingle, NamingMixed}[r.IntN(3)],
			NodeName: []string{"", "node-1", "a.b-p7"}[r.IntN(3)], SplitCount: []int{0, 1, 7}[r.IntN(3)],
			MemoryScaling: []float64{0, 1, 0.5, 2.5}[r.IntN(4)],
			Exclude:       []string{fmt.Sprintf("card%d", 8*r.IntN(10)), ""},
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			copied := machineCopy(inv)
			reg, err := inv.Register(opts)
			if err != nil {
				t.Fatal(err)
			}
			checkRegistered(t, inv, reg.Devices)
			if diff := cmp.Diff(copied, inv); diff != "" {
				t.Errorf("the inventory was changed (-before +after):\n%s", diff)
			}
			again, err := inv.Register(opts)
			if err != nil || !reflect.DeepEqual(again, reg) {
				t.Errorf("another answer for the same question, error %v", err)
			}
			if changes := Diff(reg.Devices, again.Devices); changes != nil {
				t.Errorf("changes without a change: %v", changes)
			}
			if !slices.IsSortedFunc(reg.Devices, func(a, b Registered) int {
				if c := compareBDF(a.GPU.BDF, b.GPU.BDF); c != 0 {
					return c
				}
				return a.Partition - b.Partition
			}) {
				t.Errorf("not in order: %q", briefs(reg.Devices))
			}
			if opts.Mode != ModePartition {
				for _, d := range reg.Devices {
					if d.Hard || d.Resource != ResourceGPU || d.Partition != -1 {
						t.Errorf("in cu mode: %s of %s", brief(d), d.Resource)
					}
				}
			}
		})
	}
}

func randomMachine(r *rand.Rand, products []product) *Inventory {
	inv := &Inventory{}
	for i := range r.IntN(9) {
		p := products[r.IntN(len(products))]
		mode := SPX
		if len(p.modes) > 0 {
			mode = p.modes[r.IntN(len(p.modes))]
		}
		g := p.gpu(i, mode, []MemoryMode{"nps1", "nps4", "", "nps?"}[r.IntN(4)])
		switch r.IntN(6) { // damage
		case 0:
			g.Compute, g.RawCompute = "", "FOO"
		case 1:
			g.VRAMBytes = nil
			for j := range g.Nodes {
				g.Nodes[j].VRAMBytes = nil
			}
		case 2:
			for j := range g.Nodes {
				g.Nodes[j].RenderMinor = g.Nodes[0].RenderMinor
			}
		case 3:
			g.Nodes = g.Nodes[:1+r.IntN(len(g.Nodes))]
		case 4:
			g.NUMANode, g.Card, g.ComputeModes, g.Profiles, g.UniqueID = nil, nil, nil, nil, 0
		}
		inv.GPUs = append(inv.GPUs, g)
	}
	numberNodes(inv)
	return inv
}

// machineCopy copies an inventory as deep as registration could reach.
func machineCopy(inv *Inventory) *Inventory {
	out := &Inventory{GPUs: slices.Clone(inv.GPUs)}
	for i := range out.GPUs {
		g := &out.GPUs[i]
		g.Nodes = slices.Clone(g.Nodes)
		g.ComputeModes, g.MemoryModes = slices.Clone(g.ComputeModes), slices.Clone(g.MemoryModes)
		g.Profiles = slices.Clone(g.Profiles)
		for j := range g.Profiles {
			g.Profiles[j].Memory = slices.Clone(g.Profiles[j].Memory)
		}
		for j := range g.Nodes {
			g.Nodes[j].Links = slices.Clone(g.Nodes[j].Links)
		}
	}
	return out
}
