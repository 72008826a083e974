package cumask

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// An Occupancy is who holds which CUs of one GPU. Holders are opaque strings, a
// pod's or a container's name to the caller. It is not safe for concurrent use.
type Occupancy struct {
	g     Geometry
	held  map[string]Set
	used  Set // held by at least one
	twice Set // held by at least two
}

// NewOccupancy returns the occupancy of an idle GPU.
func NewOccupancy(g Geometry) *Occupancy {
	return &Occupancy{g: g, held: map[string]Set{}}
}

// An OverlapError says that two holders claim one CU.
type OverlapError struct {
	CU      int       // the lowest CU that both claim
	Holders [2]string // who held it first, and who claims it now
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("cu %d: held by %q, claimed by %q", e.CU, clip(e.Holders[0]), clip(e.Holders[1]))
}

// Add records that holder holds s, besides what it holds already: adding twice
// what it has changes nothing, and an empty set adds nothing.
//
// CUs beyond the GPU are an error of kind [ErrGeometry], and nothing is
// recorded. A CU that another holder has is an *[OverlapError], but recorded
// all the same: Used is the union of all claims, so that no new grant touches
// what either may be running on, and every other holder stays usable.
func (o *Occupancy) Add(holder string, s Set) error {
	if over := s.Minus(o.g.All()); !over.Empty() {
		return fmt.Errorf("holder %q: cu %d: want cus up to %d: %w", clip(holder), over.next(0), o.g.CUs-1, ErrGeometry)
	}
	if s.Empty() {
		return nil
	}
	had := o.held[holder]
	clash := s.Minus(had).Intersect(o.used)
	var err error
	if !clash.Empty() {
		cu := clash.next(0)
		err = &OverlapError{CU: cu, Holders: [2]string{o.holderOf(cu), holder}}
	}
	o.twice = o.twice.Union(clash)
	o.used = o.used.Union(s)
	o.held[holder] = had.Union(s)
	return err
}

// holderOf returns the first holder of the CU in the order of their names.
func (o *Occupancy) holderOf(cu int) string {
	found, name := false, ""
	for holder, s := range o.held {
		if s.Has(cu) && (!found || holder < name) {
			found, name = true, holder
		}
	}
	return name
}

// Remove forgets the holder and returns the CUs that are free by that: what it
// held less what others claim too. An unknown holder frees nothing, so that
// removing twice is harmless.
func (o *Occupancy) Remove(holder string) Set {
	s := o.held[holder]
	delete(o.held, holder)
	disputed := s.Intersect(o.twice)
	freed := s.Minus(disputed)
	if !disputed.Empty() {
		var once, twice Set
		for _, other := range o.held {
			twice = twice.Union(once.Intersect(other))
			once = once.Union(other)
		}
		freed = s.Minus(once)
		o.twice = twice
	}
	o.used = o.used.Minus(freed)
	return freed
}

// Held returns what the holder holds; the empty set for an unknown one.
func (o *Occupancy) Held(holder string) Set { return o.held[holder] }

// Used returns the CUs that at least one holder claims.
func (o *Occupancy) Used() Set { return o.used }

// Free returns the CUs of the GPU that nobody claims.
func (o *Occupancy) Free() Set { return o.g.All().Minus(o.used) }

// Disputed returns the CUs that more than one holder claims.
func (o *Occupancy) Disputed() Set { return o.twice }

// Holders yields the holders and what each holds, in the order of their names.
func (o *Occupancy) Holders() iter.Seq2[string, Set] {
	return func(yield func(string, Set) bool) {
		for _, holder := range slices.Sorted(maps.Keys(o.held)) {
			if !yield(holder, o.held[holder]) {
				return
			}
		}
	}
}
