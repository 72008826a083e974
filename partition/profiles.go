package partition

import (
	"slices"
	"strings"
)

// boardOf finds the row of a device id.
func boardOf(device uint16) (b board, vf, ok bool) {
	for _, b := range boards {
		if slices.Contains(b.vfs, device) {
			return b, true, true
		}
		if slices.Contains(b.devices, device) {
			return b, false, true
		}
	}
	return board{}, slices.Contains(otherVFs[:], device), false
}

// modesOf are the modes the driver offers for a number of XCCs, in the order
// it prints them.
func modesOf(xccs int) []ComputeMode {
	switch xccs {
	case 1, 2:
		return []ComputeMode{SPX, CPX}
	case 4:
		return []ComputeMode{SPX, DPX, CPX}
	case 6:
		return []ComputeMode{SPX, TPX, CPX}
	case 8:
		return []ComputeMode{SPX, DPX, QPX, CPX}
	}
	return nil
}

// memoryFor are the NPS modes a compute mode runs in, before the board's own
// are taken into account (aqua_vanjaram.c; virtual functions add NPS2 to CPX).
func memoryFor(m ComputeMode, vf bool) []MemoryMode {
	switch {
	case m == SPX:
		return []MemoryMode{"nps1"}
	case m == DPX:
		return []MemoryMode{"nps1", "nps2"}
	case m == CPX && vf:
		return []MemoryMode{"nps1", "nps2", "nps4"}
	}
	return []MemoryMode{"nps1", "nps4"}
}

// profileSource is what sysfs says about profiles; all of it may be missing.
type profileSource struct {
	supported []ComputeMode // compute_partition_config/supported_xcp_configs
	// selected is the config that memory describes (xcp_config and
	// supported_nps_configs): one of them, not the current mode.
	selected ComputeMode
	memory   []MemoryMode
}

// profilesOf lists the profiles of a GPU: the modes of sysfs, else of the
// product table; nil for a product without compute partitions.
func profilesOf(g *GPU, src profileSource) []Profile {
	b, vf, known := boardOf(g.DeviceID)
	modes := src.supported
	if len(modes) == 0 {
		modes = g.ComputeModes
	}
	if len(modes) == 0 && known {
		modes = modesOf(b.xccs)
	}
	xccs := b.xccs
	if !known {
		for _, n := range g.Nodes {
			xccs += n.Geometry.XCCs
		}
	}
	memory := g.MemoryModes
	if len(memory) == 0 {
		memory = b.memory
	}
	var out []Profile
	for _, m := range modes {
		n := m.partitions(xccs)
		if n == 0 {
			continue // no such split of these XCCs
		}
		p := Profile{Index: len(out), Compute: m, Partitions: n, XCCsPerPart: xccs / n, Current: m == g.Compute}
		for _, nps := range memoryFor(m, vf) {
			if len(memory) == 0 && nps == "nps1" || slices.Contains(memory, nps) {
				p.Memory = append(p.Memory, nps)
			}
		}
		if m == src.selected && len(src.memory) > 0 {
			p.Memory = slices.Clone(src.memory)
		}
		out = append(out, p)
	}
	return out
}

// parseModes reads the kernel's lists of modes, "SPX, DPX, CPX" or "Not
// supported". Words that are no mode are left out, and so are repeats.
func parseModes[M ComputeMode | MemoryMode](s string, parse func(string) (M, bool)) []M {
	var out []M
	for word := range strings.SplitSeq(s, ",") {
		m, ok := parse(strings.TrimSpace(word))
		if ok && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}
