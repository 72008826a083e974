package partition

import (
	"fmt"
	"math"
)

// partitionVRAM is the VRAM of one partition: its node's memory banks, else an
// even share of what the whole GPU has.
func partitionVRAM(g *GPU, n *Node, compute ComputeMode) *uint64 {
	if n.VRAMBytes != nil || g.VRAMBytes == nil {
		return n.VRAMBytes
	}
	share := *g.VRAMBytes / uint64(partitionCount(g, compute))
	return &share
}

// partitionCount is how many partitions the mode makes of the GPU. It may have
// fewer KFD nodes: a host can run out of DRM minors.
func partitionCount(g *GPU, compute ComputeMode) int {
	n := len(g.Nodes)
	for i := range g.Nodes {
		n = max(n, g.Nodes[i].Partition+1)
	}
	for _, p := range g.Profiles {
		if p.Compute == compute {
			n = max(n, p.Partitions)
		}
	}
	return max(n, compute.partitions(0))
}

// mebibytes converts a size to MiB. An unknown size and one that the
// annotation has no room for, 2 PiB and more, are 0 and false.
func mebibytes(bytes *uint64) (int32, bool) {
	if bytes == nil || *bytes>>20 == 0 || *bytes>>20 > math.MaxInt32 {
		return 0, false
	}
	return int32(*bytes >> 20), true
}

// scale multiplies a size in MiB.
func scale(mib int32, factor float64) (int32, error) {
	if factor == 0 || factor == 1 || mib == 0 {
		return mib, nil
	}
	scaled := math.Floor(float64(mib) * factor)
	if scaled < 1 || scaled > math.MaxInt32 {
		return 0, fmt.Errorf("memory scaling %v makes %.0f MiB of %d: want 1 to %d", factor, scaled, mib, math.MaxInt32)
	}
	return int32(scaled), nil
}
