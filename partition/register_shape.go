package partition

import "fmt"

// shape is how one GPU registers.
type shape struct {
	hard bool
	// perNode registers each KFD node as a device; otherwise the GPU is one.
	perNode bool
	// compute is the compute partition mode the GPU counts as, "" where it has
	// none. It is the Mode of a hard device.
	compute   ComputeMode
	unhealthy string
	notes     []string
}

// shapeOf decides how a GPU registers. See Inventory.Register for the rules.
func shapeOf(g *GPU, mode OperatingMode) shape {
	s := shape{compute: g.Compute}
	if g.RawCompute != "" {
		s.notes = append(s.notes, fmt.Sprintf("current_compute_partition holds %s, which is no mode known here", quoted(g.RawCompute)))
	}
	if len(g.Nodes) > 1 && (g.Compute == "" || g.Compute == SPX) {
		s.compute = modeFromNodes(g)
		if g.Compute == SPX {
			s.notes = append(s.notes, fmt.Sprintf("current_compute_partition says %s while KFD lists %d nodes: taken as %s", SPX, len(g.Nodes), s.compute))
		}
	}
	partitioned := s.compute != "" && s.compute != SPX
	if mode != ModePartition {
		if partitioned {
			s.unhealthy = remedy(g, s.compute)
		}
		return s
	}
	switch {
	case len(g.Nodes) > 1:
		s.hard, s.perNode = true, ownMinors(g)
		if !s.perNode {
			s.notes = append(s.notes, fmt.Sprintf("its %d KFD nodes share a render minor: registered as one device", len(g.Nodes)))
		}
	case s.compute != "" && canSwitch(g):
		s.hard = true
	}
	return s
}

// remedy says why a partitioned GPU cannot be shared by CUs, and what helps.
func remedy(g *GPU, compute ComputeMode) string {
	why := fmt.Sprintf("in compute partition mode %s one render node reaches only part of the GPU", compute)
	if !canSwitch(g) {
		return fmt.Sprintf("%s: set it to spx on the host that owns the physical function, or use operating mode %q on this node", why, ModePartition)
	}
	return fmt.Sprintf("%s: run amd-smi set -g %s --compute-partition SPX on the drained node, or use operating mode %q", why, g.BDF, ModePartition)
}

// canSwitch reports whether the GPU offers a compute partition mode other than
// the one it is in.
func canSwitch(g *GPU) bool {
	for _, m := range g.ComputeModes {
		if m != g.Compute {
			return true
		}
	}
	return false
}

// ownMinors reports whether every node of the GPU has a render minor to
// itself, which is what a container can be given.
func ownMinors(g *GPU) bool {
	seen := make(map[int]bool, len(g.Nodes))
	for i := range g.Nodes {
		m := g.Nodes[i].RenderMinor
		if m <= 0 || seen[m] {
			return false
		}
		seen[m] = true
	}
	return true
}

// modeFromNodes is the mode of a GPU that KFD lists several nodes of while the
// file with its mode is missing or wrong.
func modeFromNodes(g *GPU) ComputeMode {
	single := true
	for i := range g.Nodes {
		single = single && g.Nodes[i].Geometry.XCCs <= 1
	}
	switch n := len(g.Nodes); {
	case single:
		return CPX
	case n == 2:
		return DPX
	case n == 3:
		return TPX
	case n == 4:
		return QPX
	}
	return CPX // no other mode has more than four partitions
}
