package cumask

import "fmt"

// An InsufficientError says why a request that an idle GPU could take does not
// fit now. errors.Is(err, ErrInsufficient) holds for it.
type InsufficientError struct {
	Want int // CUs wanted, in all
	Free int // CUs that could be given; half a WGP is not free
	XCC  int // the XCC with too few free CUs for one to each grant, -1 if none
}

func (e *InsufficientError) Error() string {
	if e.XCC >= 0 {
		return fmt.Sprintf("want %d cus, %d free, too few of them on xcc %d: %v", e.Want, e.Free, e.XCC, ErrInsufficient)
	}
	return fmt.Sprintf("want %d cus, %d free: %v", e.Want, e.Free, ErrInsufficient)
}

func (e *InsufficientError) Unwrap() error { return ErrInsufficient }

// Pack chooses n CUs of the GPU that are not in used: whole WGPs, and at least
// one CU on every XCC. Of all such sets it takes one
//
//  1. with the most effective CUs (see [Spread]), which is
//     XCCs * min(n/XCCs, free CUs on the poorest XCC);
//  2. then, that leaves the free CUs balanced over the XCCs: what the first
//     rule leaves open comes from the XCCs with the most free CUs;
//  3. then, whose part on each XCC is balanced over the shader engines, where
//     the geometry knows them;
//  4. then, by a heuristic, of few ranges.
//
// The first three are exact: no CU could be exchanged for a better one. The result depends on the arguments alone. CUs in
// used that the GPU does not have do not matter. Pack does not allocate.
//
// Errors: [ErrGeometry] for an impossible shape; [ErrGranularity] for an n
// that the idle GPU could not take: below Unit, above CUs, not whole WGPs; and
// an *[InsufficientError], of kind [ErrInsufficient], when it does not fit now.
func Pack(g Geometry, used Set, n int) (Set, error) {
	if err := g.Validate(); err != nil {
		return Set{}, err
	}
	if err := g.checkCount(n); err != nil {
		return Set{}, err
	}
	var p packer
	if p.init(g) <= smallClasses {
		var buf [4 * smallClasses]int32
		p.quota, p.open, p.perXCC, p.spare = p.counters(buf[:])
	} else {
		var buf [4 * MaxCUs]int32
		p.quota, p.open, p.perXCC, p.spare = p.counters(buf[:])
	}
	p.setUsed(used)
	if err := p.fits(n, 1); err != nil {
		return Set{}, err
	}
	return p.take(n/p.wgp, min(n/p.wgp/p.xccs, p.least)), nil
}

// whyUnit says why fewer CUs than the unit do not work, where that is more than
// one.
func (g Geometry) whyUnit() string {
	switch {
	case g.xccs() > 1:
		return fmt.Sprintf(", one or more on each of %d xccs", g.xccs())
	case g.wgp() > 1:
		return fmt.Sprintf(", in wgps of %d", g.wgp())
	}
	return ""
}

// checkCount refuses a number of CUs that no mask of the GPU has.
func (g Geometry) checkCount(n int) error {
	if n < g.Unit() || n > g.CUs {
		return fmt.Errorf("packing %d cus: want %d to %d%s: %w", n, g.Unit(), g.CUs, g.whyUnit(), ErrGranularity)
	}
	if n%g.wgp() != 0 {
		return fmt.Errorf("packing %d cus: want whole wgps of %d cus: %w", n, g.wgp(), ErrGranularity)
	}
	return nil
}
