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
	if slices.IsSortedFunc(f.hards, bySize) {
		return
	}
	slices.SortStableFunc(f.hards, bySize)
	next := 0
	for i := range f.cands {
		if f.cands[i].hard {
			f.cands[i] = f.hards[next]
			next++
		}
	}
}

func bySize(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.MemoryMiB, b.MemoryMiB), cmp.Compare(a.CUs, b.CUs))
}

// cheapest takes the count candidates with the least memory, so that a quota
// refuses only what no choice could bring below it. With a NUMA node to keep to
// it is the node with the cheapest set.
func (f *fitter) cheapest(count int) []candidate {
	slices.SortFunc(f.cands, func(a, b candidate) int { return cmp.Or(bySize(a, b), cmp.Compare(a.rank, b.rank)) })
	if !f.pol.NUMABind {
		return f.cands[:count]
	}
	var best []candidate
	for i := range f.cands {
		var set []candidate
		for j := i; j < len(f.cands) && len(set) < count; j++ {
			if f.cands[j].numa == f.cands[i].numa {
				set = append(set, f.cands[j])
			}
		}
		if len(set) == count && (best == nil || total(set) < total(best)) {
			best = set
		}
	}
	return best
}

// dropLarger leaves out the hard candidates that are larger than those the order
// alone would take, so that good links do not cost a larger partition.
func (f *fitter) dropLarger(count int) {
	if len(f.hards) == 0 {
		return
	}
	mem, cus := f.hards[0].MemoryMiB, f.hards[0].CUs
	for i := range f.cands[:count] {
		if c := &f.cands[i]; c.hard {
			mem, cus = c.MemoryMiB, c.CUs // ascending among the hard ones
		}
	}
	kept := f.cands[:0]
	for _, c := range f.cands {
		if larger := c.hard && cmp.Or(cmp.Compare(c.MemoryMiB, mem), cmp.Compare(c.CUs, cus)) > 0; !larger {
			kept = append(kept, c)
		}
	}
	f.cands = kept
}
