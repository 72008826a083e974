package cumask

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// An Occupancy is who holds which CUs of one GPU. Holders are opaque strings:
// to the caller they are pods or containers. It is not safe for concurrent use.
type Occupancy struct {
	all      Set // the CUs of the GPU
	holdings []holding
	at       map[string]int // index in holdings by holder
	used     Set            // held by at least one
	disputed Set            // held by at least two
}

type holding struct {
	holder string
	cus    Set
}

// NewOccupancy returns the occupancy of an idle GPU.
func NewOccupancy(g Geometry) *Occupancy {
	// Few GPUs are shared by more; growing from nothing costs more than it saves.
	const usual = 32
	return &Occupancy{all: g.All(), at: make(map[string]int, usual), holdings: make([]holding, 0, usual)}
}

// An OverlapError says that two holders claim one CU.
type OverlapError struct {
	CU      int       // the lowest CU that both claim
	Holders [2]string // who held it, and who claims it now
}

func (e *OverlapError) Error() string {
	return fmt.Sprintf("cu %d: held by %q, claimed by %q", e.CU, e.Holders[0], e.Holders[1])
}

// Add records that holder holds s, besides what it holds already: adding again
// what it has changes nothing, and an empty set adds nothing.
//
// CUs that the GPU does not have are an error of kind [ErrGeometry], and
// nothing is recorded. A CU that another holder has is an *[OverlapError] that
// names both, but is recorded all the same: Used is the union of all claims, so
// that no new grant touches what either may be running on, and every other
// holder stays usable.
func (o *Occupancy) Add(holder string, s Set) error {
	if over := s.Minus(o.all); !over.Empty() {
		return fmt.Errorf("holder %q: cu %d: want cus up to %d: %w", holder, over.next(0), o.all.Len()-1, ErrGeometry)
	}
	if s.Empty() {
		return nil
	}
	i, known := o.at[holder]
	if !known {
		i = len(o.holdings)
		o.holdings = append(o.holdings, holding{holder: holder})
		o.at[holder] = i
	}
	var err error
	had := &o.holdings[i].cus
	if clash := s.Intersect(o.used).Minus(*had); !clash.Empty() {
		cu := clash.next(0)
		err = &OverlapError{CU: cu, Holders: [2]string{o.holderOf(cu), holder}}
		o.disputed = o.disputed.Union(clash)
	}
	*had = had.Union(s)
	o.used = o.used.Union(s)
	return err
}

// holderOf returns the first holder of the CU by name: holdings has no order to
// speak of.
func (o *Occupancy) holderOf(cu int) string {
	found, name := false, ""
	for _, h := range o.holdings {
		if h.cus.Has(cu) && (!found || h.holder < name) {
			found, name = true, h.holder
		}
	}
	return name
}

// Remove forgets the holder and returns the CUs that became free: what it held,
// less what others claim too. An unknown holder frees nothing, so removing
// twice is harmless.
func (o *Occupancy) Remove(holder string) (freed Set) {
	i, known := o.at[holder]
	if !known {
		return Set{}
	}
	freed = o.holdings[i].cus
	last := len(o.holdings) - 1
	o.holdings[i] = o.holdings[last]
	o.at[o.holdings[i].holder] = i
	o.holdings[last] = holding{}
	o.holdings = o.holdings[:last]
	delete(o.at, holder)

	if !freed.Intersect(o.disputed).Empty() {
		var once, twice Set
		for _, h := range o.holdings {
			twice = twice.Union(once.Intersect(h.cus))
			once = once.Union(h.cus)
		}
		o.disputed = twice
		freed = freed.Minus(once)
	}
	o.used = o.used.Minus(freed)
	return freed
}

// Held returns what the holder holds; nothing for an unknown one.
func (o *Occupancy) Held(holder string) Set {
	if i, known := o.at[holder]; known {
		return o.holdings[i].cus
	}
	return Set{}
}

// Used returns the CUs that at least one holder claims.
func (o *Occupancy) Used() Set { return o.used }

// Free returns the CUs of the GPU that nobody claims.
func (o *Occupancy) Free() Set { return o.all.Minus(o.used) }

// Disputed returns the CUs that more than one holder claims.
func (o *Occupancy) Disputed() Set { return o.disputed }

// Holders yields the holders and what each holds, in the order of their names.
// It works on what was held when it was called.
func (o *Occupancy) Holders() iter.Seq2[string, Set] {
	sorted := slices.SortedFunc(slices.Values(o.holdings), func(a, b holding) int {
		return cmp.Compare(a.holder, b.holder)
	})
	return func(yield func(string, Set) bool) {
		for _, h := range sorted {
			if !yield(h.holder, h.cus) {
				return
			}
		}
	}
}
