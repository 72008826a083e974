package amd

import (
	"cmp"
	"slices"
)

// smallestHardFirst reorders the hard candidates among the places they hold:
// the smallest comes first, those of one size stay in the order given. Soft
// candidates keep their places.
func (f *fitter) smallestHardFirst() {
	for i := range f.cands {
		if f.cands[i].hard {
			f.hards = append(f.hards, f.cands[i])
		}
	}
	if f.oneSize() {
		return
	}
	f.sizes()
	next := 0
	for i := range f.cands {
		if f.cands[i].hard {
			f.cands[i] = f.hards[next]
			next++
		}
	}
}

// alike reports whether two partitions with so much memory are of one size. What
// does not divide evenly leaves partitions of one GPU some MiB apart: the last of
// an MI300X in CPX has 16 MiB less than the seven before it, which must not tear
// apart what is well connected. Sizes of different modes are a third apart or more.
func alike(small, large int32) bool { return large-small <= small>>7 }

// oneSize reports whether all hard candidates are of one size, as on a node whose
// GPUs are alike.
func (f *fitter) oneSize() bool {
	if len(f.hards) == 0 {
		return true
	}
	least, most := f.hards[0].MemoryMiB, f.hards[0].MemoryMiB
	for i := range f.hards {
		if f.hards[i].CUs != f.hards[0].CUs {
			return false
		}
		least, most = min(least, f.hards[i].MemoryMiB), max(most, f.hards[i].MemoryMiB)
	}
	return alike(least, most)
}

// sizes numbers the sizes of the hard candidates and sorts them by it.
func (f *fitter) sizes() {
	slices.SortFunc(f.hards, func(a, b candidate) int { return cmp.Compare(a.MemoryMiB, b.MemoryMiB) })
	var size int32
	least := f.hards[0].MemoryMiB
	for i := range f.hards {
		if mem := f.hards[i].MemoryMiB; !alike(least, mem) {
			size, least = size+1, mem
		}
		f.hards[i].size = size
	}
	slices.SortFunc(f.hards, func(a, b candidate) int { return cmp.Or(compareSize(a, b), cmp.Compare(a.rank, b.rank)) })
}

func compareSize(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.CUs, b.CUs))
}

// cheapest takes the count candidates with the least memory, so that a quota
// refuses only what no choice could bring below it. With a NUMA node to keep to
// it is the node with the cheapest set, and nil when none has enough.
func (f *fitter) cheapest(count int) []candidate {
	slices.SortFunc(f.cands, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.CUs, b.CUs), cmp.Compare(a.rank, b.rank))
	})
	if !f.pol.NUMABind {
		return f.cands[:count]
	}
	var best []candidate
	seen := map[int]bool{}
	for i := range f.cands {
		numa := f.cands[i].numa
		if seen[numa] {
			continue
		}
		seen[numa] = true
		var set []candidate
		for j := i; j < len(f.cands) && len(set) < count; j++ {
			if f.cands[j].numa == numa {
				set = append(set, f.cands[j])
			}
		}
		if len(set) == count && (best == nil || total(set) < total(best)) {
			best = set
		}
	}
	return best
}

// largerLast moves the hard candidates that are larger than those the order alone
// would take behind all others and returns how many are before them, so that good
// links do not cost a larger partition.
func (f *fitter) largerLast(count int) int {
	if len(f.hards) == 0 {
		return len(f.cands)
	}
	largest := f.hards[0]
	for i := range f.cands[:count] {
		if f.cands[i].hard {
			largest = f.cands[i] // they ascend
		}
	}
	larger := func(c candidate) bool { return c.hard && compareSize(c, largest) > 0 }
	f.hards = f.hards[:0]
	kept := 0
	for _, c := range f.cands {
		if larger(c) {
			f.hards = append(f.hards, c)
		} else {
			f.cands[kept] = c
			kept++
		}
	}
	copy(f.cands[kept:], f.hards)
	return kept
}
