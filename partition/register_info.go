package partition

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// sumGeometry is what several KFD nodes of one GPU are together. The shader
// layout of a partition says nothing about the others, so it is kept for one
// node only.
func sumGeometry(nodes []Node) cumask.Geometry {
	if len(nodes) == 1 {
		g := nodes[0].Geometry
		g.XCCs, g.CUsPerWGP = max(g.XCCs, 1), max(g.CUsPerWGP, 1)
		return g
	}
	var sum cumask.Geometry
	for i := range nodes {
		g := nodes[i].Geometry
		sum.CUs += g.CUs
		sum.XCCs += max(g.XCCs, 1)
		sum.CUsPerWGP = max(sum.CUsPerWGP, g.CUsPerWGP, 1)
	}
	return sum
}

// sumQueues adds up the compute queues of several nodes; what an int32 has no
// room for is left out.
func sumQueues(nodes []Node) int {
	sum := 0
	for i := range nodes {
		if q := nodes[i].ComputeQueues; q > 0 && q <= math.MaxInt32-sum {
			sum += q
		}
	}
	return sum
}

// profiles writes partition profiles in AMD SMI's words: upper case, memory
// modes joined by commas.
func profiles(in []Profile) []annotations.PartitionProfile {
	var out []annotations.PartitionProfile
	for _, p := range in {
		memory := make([]string, len(p.Memory))
		for i, m := range p.Memory {
			memory[i] = strings.ToUpper(string(m))
		}
		out = append(out, annotations.PartitionProfile{
			ProfileIndex:    p.Index,
			Type:            strings.ToUpper(string(p.Compute)),
			MemoryCaps:      strings.Join(memory, ","),
			NumPartitions:   p.Partitions,
			XCCPerPartition: p.XCCsPerPart,
		})
	}
	return out
}

// xgmiPeers lists for each GPU the PCI addresses of the GPUs that an XGMI link
// of one of its nodes leads to. Links between the partitions of one GPU are
// XGMI too, and no peers.
func xgmiPeers(gpus []GPU) map[BDF][]string {
	owner := make(map[int]BDF)
	for i := range gpus {
		for j := range gpus[i].Nodes {
			owner[gpus[i].Nodes[j].ID] = gpus[i].BDF
		}
	}
	out := make(map[BDF][]string)
	for i := range gpus {
		g := &gpus[i]
		peers := make(map[string]bool)
		for j := range g.Nodes {
			for _, l := range g.Nodes[j].Links {
				if to, ok := owner[l.To]; ok && l.Type == LinkXGMI && to != g.BDF {
					peers[string(to)] = true
				}
			}
		}
		if len(peers) > 0 {
			out[g.BDF] = slices.Sorted(maps.Keys(peers))
		}
	}
	return out
}
