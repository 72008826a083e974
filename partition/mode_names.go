package partition

import (
	"cmp"
	"slices"
	"strings"
)

// computeModes are the compute partition modes and how many partitions each
// makes of a GPU (aqua_vanjaram.c); 0 is one for each XCC.
var computeModes = [...]struct {
	mode  ComputeMode
	parts int
}{{SPX, 1}, {DPX, 2}, {TPX, 3}, {QPX, 4}, {CPX, 0}}

// parseComputeMode reads the name of a mode: the kernel writes "SPX", AMD's
// tools and people also "spx".
func parseComputeMode(s string) (ComputeMode, bool) {
	if m := ComputeMode(strings.ToLower(s)); m.known() {
		return m, true
	}
	return "", false
}

// known reports whether m is one of the modes, SPX included.
func (m ComputeMode) known() bool {
	for _, c := range computeModes {
		if c.mode == m {
			return true
		}
	}
	return false
}

// partitions is how many partitions the mode makes of a GPU with the given
// number of XCCs: 0 where it cannot split these, and where the mode or, for
// CPX, the number of XCCs is not known.
func (m ComputeMode) partitions(xccs int) int {
	for _, c := range computeModes {
		if n := cmp.Or(c.parts, xccs); c.mode == m && n > 0 && xccs%n == 0 {
			return n
		}
	}
	return 0
}

// memoryModes are the memory partition modes the kernel has names for
// (amdgpu_gmc.c, nps_desc).
var memoryModes = [...]MemoryMode{"nps1", "nps2", "nps3", "nps4", "nps6", "nps8"}

// parseMemoryMode reads the name of a mode, "NPS1" as the kernel writes it.
func parseMemoryMode(s string) (MemoryMode, bool) {
	if m := MemoryMode(strings.ToLower(s)); m.known() {
		return m, true
	}
	return "", false
}

// known reports whether m is one of the modes.
func (m MemoryMode) known() bool { return slices.Contains(memoryModes[:], m) }
