package plugin

import "github.com/Project-HAMi/hami-amd/partition"

// Hop costs for GPUs between which KFD lists no link, in the units of its link
// weights: what kernels report for the same situation (XGMI neighbours 15;
// through one socket 20+20; through two 72, of which 32 between the sockets).
const (
	weightXGMI      = 15
	weightSameNUMA  = 40
	weightOtherNUMA = 72
	// maxWeight bounds what sysfs may claim, so that sums stay far from
	// overflowing.
	maxWeight = 1 << 16
)

// distances are the hop costs between GPUs, 0 between parts of one GPU. They
// are the weights of KFD's link records (topology/nodes/*/io_links and
// p2p_links).
type distances struct {
	n      int
	weight []int // n rows of n
}

func (d distances) at(a, b int) int { return d.weight[a*d.n+b] }

// row is the distances of one GPU to all.
func (d distances) row(a int) []int { return d.weight[a*d.n : (a+1)*d.n] }

// measure finds the distances between GPUs. A pair counts as far as its closest
// two nodes; records exist in both directions, and where they differ, or one is
// missing, the lower weight holds.
func measure(gpus []*partition.GPU) distances {
	d := distances{n: len(gpus), weight: make([]int, len(gpus)*len(gpus))}
	owner := make(map[int]int) // KFD node number -> GPU
	for i, g := range gpus {
		for j := range g.Nodes {
			owner[g.Nodes[j].ID] = i
		}
	}
	for i, g := range gpus {
		for j := range g.Nodes {
			for _, link := range g.Nodes[j].Links {
				to, ok := owner[link.To]
				if !ok || to == i || link.Weight <= 0 {
					continue
				}
				w := min(link.Weight, maxWeight)
				if old := d.at(i, to); old == 0 || w < old {
					d.weight[i*d.n+to], d.weight[to*d.n+i] = w, w
				}
			}
		}
	}
	for a := range gpus {
		for b := range gpus {
			if a != b && d.at(a, b) == 0 {
				d.weight[a*d.n+b] = guess(gpus[a], gpus[b])
			}
		}
	}
	return d
}

// guess is the distance of two GPUs without a link record.
func guess(a, b *partition.GPU) int {
	switch {
	case a.HiveID != 0 && a.HiveID == b.HiveID:
		return weightXGMI
	case a.NUMANode != nil && b.NUMANode != nil && *a.NUMANode == *b.NUMANode:
		return weightSameNUMA
	}
	return weightOtherNUMA
}
