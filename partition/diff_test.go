package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiff(t *testing.T) {
	base := func() *Inventory { return machine(mi300x, 2, SPX, "nps1") }
	const a, b = "08ff74a1-0000-1000-80da-82c12ef81b00", "08ff74a1-0000-1000-80da-82c12ef81b01"
	edited := func(edit func(*Inventory)) *Inventory {
		inv := base()
		edit(inv)
		return inv
	}
	cu, part := RegisterOptions{}, RegisterOptions{Mode: ModePartition}
	sick := RegisterOptions{Unhealthy: map[BDF]string{"0000:15:00.0": "ECC errors"}}
	worse := RegisterOptions{Unhealthy: map[BDF]string{"0000:15:00.0": "in reset"}}
	tests := map[string]struct {
		before, after         *Inventory
		beforeOpts, afterOpts RegisterOptions
		want                  []string
	}{
		"nothing": {base(), base(), cu, cu, nil},
		"KFD renumbered its nodes": {base(), edited(func(inv *Inventory) {
			for i := range inv.GPUs {
				inv.GPUs[i].Nodes[0].ID += 7
				inv.GPUs[i].Nodes[0].Rank++
				inv.GPUs[i].Nodes[0].Links = nil
			}
			inv.GPUs[0].Nodes[0].Links = []Link{{To: 10, Type: LinkXGMI}}
			inv.GPUs[1].Nodes[0].Links = []Link{{To: 9, Type: LinkXGMI}}
		}), cu, cu, nil},
		"a GPU appears":              {machine(mi300x, 1, SPX, "nps1"), base(), cu, cu, []string{"device " + a + " (GPU 0000:05:00.0): altered", "device " + b + " (GPU 0000:15:00.0): appeared"}},
		"a GPU vanishes":             {base(), &Inventory{}, cu, cu, []string{"device " + a + " (GPU 0000:05:00.0): vanished", "device " + b + " (GPU 0000:15:00.0): vanished"}},
		"a GPU falls sick":           {base(), base(), cu, sick, []string{"device " + b + " (GPU 0000:15:00.0): unhealthy: ECC errors"}},
		"for another reason":         {base(), base(), sick, worse, []string{"device " + b + " (GPU 0000:15:00.0): unhealthy: in reset"}},
		"and recovers":               {base(), base(), sick, cu, []string{"device " + b + " (GPU 0000:15:00.0): healthy again"}},
		"the operating mode changes": {base(), base(), cu, part, []string{"GPU 0000:05:00.0: mode changed from shared by CUs to spx", "GPU 0000:15:00.0: mode changed from shared by CUs to spx"}},
		"less VRAM": {base(), edited(func(inv *Inventory) { inv.GPUs[0].VRAMBytes = ptr(uint64(1 << 30)) }), cu, cu,
			[]string{"device " + a + " (GPU 0000:05:00.0): altered"}},
		"another render minor": {base(), edited(func(inv *Inventory) { inv.GPUs[0].Nodes[0].RenderMinor = 190 }), cu, cu,
			[]string{"device " + a + " (GPU 0000:05:00.0): altered"}},
		"more shares": {base(), base(), cu, RegisterOptions{SplitCount: 3}, []string{"device " + a + " (GPU 0000:05:00.0): altered", "device " + b + " (GPU 0000:15:00.0): altered"}},
		"between partition modes": {machine(mi300x, 1, DPX, "nps1"), machine(mi300x, 1, QPX, "nps1"), part, part, []string{
			"GPU 0000:05:00.0: mode changed from dpx to qpx",
			"device " + a + "-p2 (GPU 0000:05:00.0): appeared", "device " + a + "-p3 (GPU 0000:05:00.0): appeared"}},
		"a partition is lost": {machine(mi300x, 1, DPX, "nps1"), func() *Inventory {
			inv := machine(mi300x, 1, DPX, "nps1")
			inv.GPUs[0].Nodes[1].RenderMinor = inv.GPUs[0].Nodes[0].RenderMinor
			return inv
		}(), part, part, []string{
			"device " + a + "-p0 (GPU 0000:05:00.0): vanished", "device " + a + "-p1 (GPU 0000:05:00.0): vanished", "device " + a + " (GPU 0000:05:00.0): appeared"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := mustRegister(t, test.before, test.beforeOpts), mustRegister(t, test.after, test.afterOpts)
			var got []string
			for _, c := range Diff(before, after) {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
