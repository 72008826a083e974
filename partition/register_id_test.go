package partition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ids(devices []Registered) []string {
	var out []string
	for _, d := range devices {
		out = append(out, d.ID)
	}
	return out
}

func TestIdentities(t *testing.T) {
	gap := machine(mi355x, 1, CPX, "nps1")
	gap.GPUs[0].Nodes = append(gap.GPUs[0].Nodes[:2], gap.GPUs[0].Nodes[5:]...) // a host out of DRM minors
	twins := machine(mi300x, 3, SPX, "nps1")
	twins.GPUs[2].UniqueID = twins.GPUs[0].UniqueID
	mi300aAPU := machine(mi300a, 1, CPX, "nps1")
	mi300aAPU.GPUs[0].UniqueID = 0
	tests := map[string]struct {
		inv  *Inventory
		opts RegisterOptions
		want []string
	}{
		"a whole GPU": {machine(mi355x, 2, SPX, "nps1"), RegisterOptions{}, []string{
			"08ff75a3-0000-1000-80da-82c12ef81b00", "08ff75a3-0000-1000-80da-82c12ef81b01"}},
		"a whole GPU in partition mode": {machine(mi355x, 1, SPX, "nps1"), RegisterOptions{Mode: ModePartition}, []string{
			"08ff75a3-0000-1000-80da-82c12ef81b00"}},
		"a partitioned GPU in cu mode": {machine(mi355x, 1, QPX, "nps1"), RegisterOptions{}, []string{
			"08ff75a3-0000-1000-80da-82c12ef81b00"}},
		"partitions": {machine(mi355x, 1, DPX, "nps1"), RegisterOptions{Mode: ModePartition}, []string{
			"08ff75a3-0000-1000-80da-82c12ef81b00-p0", "08ff75a3-0000-1000-80da-82c12ef81b00-p1"}},
		"partitions keep their number when one is missing": {gap, RegisterOptions{Mode: ModePartition}, []string{
			"08ff75a3-0000-1000-80da-82c12ef81b00-p0", "08ff75a3-0000-1000-80da-82c12ef81b00-p1", "08ff75a3-0000-1000-80da-82c12ef81b00-p5",
			"08ff75a3-0000-1000-80da-82c12ef81b00-p6", "08ff75a3-0000-1000-80da-82c12ef81b00-p7"}},
		"a part without serial": {machine(apu8060, 2, "", ""), RegisterOptions{NodeName: "node-1.example"}, []string{
			"00ff1586-0000-1000-8000-000000000000-node-1.example-0000-05-00-0", "00ff1586-0000-1000-8000-000000000000-node-1.example-0000-15-00-0"}},
		"a part without serial on a nameless node": {machine(apu8060, 1, "", ""), RegisterOptions{}, []string{
			"00ff1586-0000-1000-8000-000000000000-0000-05-00-0"}},
		"partitions of a part without serial": {mi300aAPU, RegisterOptions{Mode: ModePartition, NodeName: "a-p3"}, []string{
			"00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p0", "00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p1",
			"00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p2", "00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p3",
			"00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p4", "00ff74a0-0000-1000-8000-000000000000-a-p3-0000-05-00-0-p5"}},
		"two GPUs that claim one serial": {twins, RegisterOptions{NodeName: "n"}, []string{
			"08ff74a1-0000-1000-80da-82c12ef81b00-n-0000-05-00-0", "08ff74a1-0000-1000-80da-82c12ef81b01", "08ff74a1-0000-1000-80da-82c12ef81b00-n-0000-25-00-0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := mustRegister(t, test.inv, test.opts)
			if diff := cmp.Diff(test.want, ids(reg)); diff != "" {
				t.Error(diff)
			}
			for _, d := range reg {
				if strings.ContainsAny(d.ID, ",:;") {
					t.Errorf("ID %q holds a separator", d.ID)
				}
			}
			checkRegistered(t, test.inv, reg)
		})
	}
}

func TestNotesAboutIdentities(t *testing.T) {
	twins := machine(mi300x, 2, SPX, "nps1")
	twins.GPUs[1].UniqueID = twins.GPUs[0].UniqueID
	for name, test := range map[string]struct {
		inv  *Inventory
		node string
		want []string
	}{
		"a serial":                  {machine(mi300x, 1, SPX, "nps1"), "", nil},
		"no serial on a named node": {machine(apu8060, 1, "", ""), "n", nil},
		"no serial on a nameless node": {machine(apu8060, 1, "", ""), "",
			[]string{"0000:05:00.0: the GPU has no serial number: without a node name its ID is unique on this node only"}},
		"one serial twice": {twins, "n", []string{
			"0000:05:00.0: another GPU has the same serial number 08da82c12ef81b00: node name and PCI address are part of its ID",
			"0000:15:00.0: another GPU has the same serial number 08da82c12ef81b00: node name and PCI address are part of its ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			reg, err := test.inv.Register(RegisterOptions{NodeName: test.node})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, reg.Notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// IDs and indices stay when GPUs are excluded, other GPUs switch, KFD renumbers
// its nodes or the operating mode changes.
func TestIdentitiesAreStable(t *testing.T) {
	inv := machine(mi300x, 4, SPX, "nps1")
	type place struct {
		id    string
		index uint
	}
	places := func(inv *Inventory, opts RegisterOptions) map[BDF]place {
		out := map[BDF]place{}
		for _, d := range mustRegister(t, inv, opts) {
			if d.Partition <= 0 {
				out[d.GPU.BDF] = place{parentID(d.ID), d.Index}
			}
		}
		return out
	}
	want := places(inv, RegisterOptions{})
	mixed := machine(mi300x, 4, SPX, "nps1")
	mixed.GPUs[0] = mi300x.gpu(0, CPX, "nps4")
	mixed.GPUs[2] = mi300x.gpu(2, QPX, "nps1")
	numberNodes(mixed)
	for name, got := range map[string]map[BDF]place{
		"partition mode":               places(inv, RegisterOptions{Mode: ModePartition}),
		"two GPUs switched":            places(mixed, RegisterOptions{}),
		"two switched, partition mode": places(mixed, RegisterOptions{Mode: ModePartition}),
		"another node name":            places(inv, RegisterOptions{NodeName: "n"}),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a GPU excluded", func(t *testing.T) {
		got := places(inv, RegisterOptions{Exclude: []string{"0000:05:00.0"}})
		if len(got) != 3 {
			t.Fatalf("%d GPUs, want 3", len(got))
		}
		for bdf, p := range got {
			if p != want[bdf] {
				t.Errorf("%s: %v, want %v", bdf, p, want[bdf])
			}
		}
	})
}

func TestParentID(t *testing.T) {
	const uuid = "08ff75a3-0000-1000-80da-82c12ef81b5d"
	for id, want := range map[string]string{
		uuid: uuid, uuid + "-p0": uuid, uuid + "-p63": uuid,
		uuid + "-p": uuid + "-p", uuid + "-px": uuid + "-px", uuid + "-p1-n": uuid + "-p1-n", "": "", "-p1": "",
		uuid + "-node-p3-0000-05-00-0": uuid + "-node-p3-0000-05-00-0",
	} {
		if got := parentID(id); got != want {
			t.Errorf("parentID(%q) = %q, want %q", id, got, want)
		}
	}
}
