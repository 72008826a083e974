package partition

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestCustomInfo(t *testing.T) {
	tests := map[string]struct {
		inv  *Inventory
		edit func(*GPU)
		mode OperatingMode
		want annotations.CustomInfo // of the first device
	}{
		"a GPU with modes": {machine(mi300x, 2, SPX, "nps1"), nil, ModeCU, annotations.CustomInfo{
			PCIBDF: "0000:05:00.0", CUsPerWGP: 1, NumXCC: 8, ComputeQueues: 24, XGMIPeers: []string{"0000:15:00.0"}, PartitionProfile: "spx_nps1",
			PartitionProfiles: []annotations.PartitionProfile{
				{ProfileIndex: 0, Type: "SPX", MemoryCaps: "NPS1", NumPartitions: 1, XCCPerPartition: 8},
				{ProfileIndex: 1, Type: "DPX", MemoryCaps: "NPS1,NPS2", NumPartitions: 2, XCCPerPartition: 4},
				{ProfileIndex: 2, Type: "QPX", MemoryCaps: "NPS1,NPS4", NumPartitions: 4, XCCPerPartition: 2},
				{ProfileIndex: 3, Type: "CPX", MemoryCaps: "NPS1,NPS4", NumPartitions: 8, XCCPerPartition: 1},
			}}},
		"a partition is no peer of its siblings": {machine(mi308x, 1, CPX, "nps1"), nil, ModePartition, annotations.CustomInfo{
			PCIBDF: "0000:05:00.0", CUsPerWGP: 1, NumXCC: 1, ComputeQueues: 24, PartitionProfile: "cpx_nps1"}},
		"a Radeon": {machine(rx9060, 1, "", ""), nil, ModePartition, annotations.CustomInfo{
			PCIBDF: "0000:05:00.0", CUsPerWGP: 2, NumXCC: 1, ComputeQueues: 4}},
		"a memory mode that is not known": {machine(mi308x, 1, SPX, ""), nil, ModeCU, annotations.CustomInfo{
			PCIBDF: "0000:05:00.0", CUsPerWGP: 1, NumXCC: 4, ComputeQueues: 24, PartitionProfile: "spx"}},
		"counts that are not known, and links to nowhere": {machine(mi308x, 1, SPX, "nps1"), func(g *GPU) {
			n := &g.Nodes[0]
			n.ComputeQueues, n.Geometry.XCCs, n.Geometry.CUsPerWGP = 0, 0, 0
			n.Links = []Link{{To: 99, Type: LinkXGMI}, {To: n.ID, Type: LinkXGMI}, {To: 0, Type: LinkPCIe}}
		}, ModeCU, annotations.CustomInfo{PCIBDF: "0000:05:00.0", CUsPerWGP: 1, NumXCC: 1, PartitionProfile: "spx_nps1"}},
		"more queues than an annotation holds": {machine(mi308x, 1, DPX, "nps1"), func(g *GPU) {
			g.Nodes[0].ComputeQueues, g.Nodes[1].ComputeQueues = math.MaxInt32, 24
		}, ModeCU, annotations.CustomInfo{PCIBDF: "0000:05:00.0", CUsPerWGP: 1, NumXCC: 4, ComputeQueues: math.MaxInt32, PartitionProfile: "dpx_nps1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.edit != nil {
				test.edit(&test.inv.GPUs[0])
			}
			reg := mustRegister(t, test.inv, RegisterOptions{Mode: test.mode})
			if diff := cmp.Diff(test.want, reg[0].CustomInfo); diff != "" {
				t.Errorf("custominfo (-want +got):\n%s", diff)
			}
			checkRegistered(t, test.inv, reg)
		})
	}
}
