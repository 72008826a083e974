package cumask

import (
	"fmt"
)

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
//  3. then, that is balanced over the shader engines of each XCC, where the
//     geometry knows them;
//  4. then, by a heuristic, of few ranges.
//
// The first three are exact. The result depends on the arguments alone. CUs in
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
	if classes := p.init(g, used); classes <= smallClasses {
		var buf [3 * smallClasses]int16
		p.buffers(buf[:])
	} else {
		var buf [3 * MaxCUs]int16
		p.buffers(buf[:])
	}
	p.count()
	if err := p.fits(g, n, 1); err != nil {
		return Set{}, err
	}
	units := n / g.wgp()
	return p.take(units, min(units/p.xccs, p.least)), nil
}

// checkCount refuses a number of CUs that no mask of the GPU has.
func (g Geometry) checkCount(n int) error {
	if n < g.Unit() || n > g.CUs {
		return fmt.Errorf("packing %d cus: want %d to %d: %w", n, g.Unit(), g.CUs, ErrGranularity)
	}
	if n%g.wgp() != 0 {
		return fmt.Errorf("packing %d cus: want whole wgps of %d cus: %w", n, g.wgp(), ErrGranularity)
	}
	return nil
}

// smallClasses is how many (XCC, SE) pairs the quick buffers hold: MI300X has
// 32.
const smallClasses = 64

// A packer works in units, single CUs or whole WGPs. A unit's class is the
// (XCC, SE) pair it lies on: unit u has class u mod classes, and a class c lies
// on XCC c mod xccs, because the kernel deals units over the XCCs first and
// over the shader engines next.
type packer struct {
	wgp, xccs, classes int

	free  Set // the first CU of each free unit
	least int // free units on the poorest XCC
	total int // free units

	perClass []int16 // free units of each class; in a selection, the quota left
	perXCC   []int16 // free units of each XCC
	spare    []int16 // in a selection, what an XCC may take beyond its quotas
}

func (p *packer) init(g Geometry, used Set) (classes int) {
	p.wgp, p.xccs = g.wgp(), g.xccs()
	p.classes = p.xccs * min(max(g.SEsPerXCC, 1), (g.CUs/p.wgp+p.xccs-1)/p.xccs)
	p.free = g.wholeWGPs(g.All().Minus(used))
	if p.wgp == 2 {
		for i := range p.free.w {
			p.free.w[i] &= 0x5555555555555555
		}
	}
	return p.classes
}

func (p *packer) buffers(buf []int16) {
	n := len(buf) / 3
	p.perClass, p.perXCC, p.spare = buf[:p.classes], buf[n:n+p.xccs], buf[2*n:2*n+p.xccs]
}

// count fills the counts of free units.
func (p *packer) count() {
	for cu := range p.free.All() {
		p.perClass[cu/p.wgp%p.classes]++
	}
	clear(p.perXCC)
	for c, n := range p.perClass {
		p.perXCC[c%p.xccs] += n
	}
	p.least, p.total = int(p.perXCC[0]), 0
	for _, n := range p.perXCC {
		p.least = min(p.least, int(n))
		p.total += int(n)
	}
}

// fits refuses n CUs for so many grants, each with a unit on every XCC.
func (p *packer) fits(g Geometry, n, grants int) error {
	if n/g.wgp() <= p.total && grants <= p.least {
		return nil
	}
	short := -1
	for x, free := range p.perXCC {
		if int(free) < grants && p.xccs > 1 {
			short = x
			break
		}
	}
	return &InsufficientError{Want: n, Free: p.total * g.wgp(), XCC: short}
}

// take selects n free units, at least low on each XCC, and removes them from
// the free ones. The caller has made sure that they are there.
func (p *packer) take(n, low int) Set {
	more, moreXCCs := p.quotaXCCs(n, low)
	var open Set // classes that may give one unit beyond their quota
	for x := range p.perXCC {
		p.quotaClasses(x, &open)
	}
	var out Set
	for cu := range p.free.All() {
		c := cu / p.wgp % p.classes
		x := c % p.xccs
		switch {
		case p.perClass[c] > 0:
			p.perClass[c]--
		case !open.Has(c):
			continue
		case p.spare[x] > 0:
			p.spare[x]--
			open.w[c/wordBits] &^= 1 << (c % wordBits)
		case more > 0 && moreXCCs.Has(x):
			more--
			moreXCCs.w[x/wordBits] &^= 1 << (x % wordBits)
			open.w[c/wordBits] &^= 1 << (c % wordBits)
		default:
			continue
		}
		out.w[cu/wordBits] |= (1<<p.wgp - 1) << (cu % wordBits)
	}
	return out
}

// quotaXCCs leaves in spare how many units each XCC gives for sure, and returns
// how many more there are to take, at most one from each of the XCCs returned.
// All XCCs give low; the rest comes, one at a time, from an XCC with the most
// left, which keeps what is left as even as can be.
func (p *packer) quotaXCCs(n, low int) (more int, from Set) {
	rest := n - low*p.xccs
	above := func(level int) int { // units above the level, once all gave low
		sum := 0
		for _, free := range p.perXCC {
			sum += max(int(free)-low-level, 0)
		}
		return sum
	}
	lo, hi := 0, MaxCUs // the smallest level with above(level) <= rest
	for lo < hi {
		mid := (lo + hi) / 2
		if above(mid) <= rest {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	level := lo
	for x, free := range p.perXCC {
		over := int(free) - low - level
		p.spare[x] = int16(low + max(over, 0))
		if over >= 0 && level > 0 {
			from.w[x/wordBits] |= 1 << (x % wordBits)
		}
	}
	return rest - above(level), from
}

// quotaClasses spreads what XCC x gives over its shader engines as evenly as
// their free units allow: it turns their free units into quotas, leaves in
// spare what comes on top, and adds the classes it may come from to open, at
// most one unit from each.
func (p *packer) quotaClasses(x int, open *Set) {
	give := int(p.spare[x])
	under := func(level int) int {
		sum := 0
		for c := x; c < p.classes; c += p.xccs {
			sum += min(int(p.perClass[c]), level)
		}
		return sum
	}
	lo, hi := 0, MaxCUs // the largest level with under(level) <= give
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if under(mid) <= give {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	p.spare[x] = int16(give - under(lo))
	for c := x; c < p.classes; c += p.xccs {
		if int(p.perClass[c]) > lo {
			p.perClass[c] = int16(lo)
			open.w[c/wordBits] |= 1 << (c % wordBits)
		}
	}
}
