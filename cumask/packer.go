package cumask

// smallClasses is how many (XCC, SE) pairs fit the small buffer of Pack, which
// is quicker to clear. MI300X has 32.
const smallClasses = 64

// A packer chooses masks on one GPU. It works in units: single CUs, or whole
// WGPs where CUs come in pairs. A unit's class is the (XCC, SE) pair it lies
// on. The kernel deals units over the XCCs first and over the shader engines of
// each next, so unit u is of class u mod classes, and class c lies on XCC
// c mod xccs.
//
// Choosing has two steps. The quotas say how many units each class gives; they
// hold all that the rules of Pack decide. The selection then takes free units
// run by run as the quotas allow. Where the rules leave several answers open,
// the quotas do too, so that the selection can decide by what lies together.
type packer struct {
	wgp, xccs, classes int
	units              int     // of the whole GPU
	byClass            divider // by classes

	free  Set // free units
	runs  runs
	least int // free units on the poorest XCC
	total int // free units

	quota  []int32 // by class: free units, and in a selection the units to take
	open   []int32 // by class: -1 if it may give one unit more than its quota
	perXCC []int32 // by XCC: free units
	spare  []int32 // by XCC: what it gives on top of its quotas, from open classes
	extra  int     // what is given on top of all that, one each from openX
	openX  Set     // XCCs that may give one of extra
}

// init sets the shape and returns the number of classes, for counters.
func (p *packer) init(g Geometry) int {
	p.wgp, p.xccs = g.wgp(), g.xccs()
	p.units = g.CUs / p.wgp
	p.classes = p.xccs * min(max(g.SEsPerXCC, 1), p.units/p.xccs)
	p.byClass = newDivider(p.classes)
	return p.classes
}

// counters cuts quota, open, perXCC and spare from b, which is four times as
// long as there are classes. (Setting them here would move b to the heap.)
func (p *packer) counters(b []int32) (quota, open, perXCC, spare []int32) {
	n := len(b) / 4
	return b[:p.classes], b[n : n+p.classes], b[2*n : 2*n+p.xccs], b[3*n : 3*n+p.xccs]
}

// setUsed sets the free units and counts them.
func (p *packer) setUsed(used Set) {
	p.free = Range(0, p.units*p.wgp-1).Minus(used)
	if p.wgp == 2 {
		p.free = pairsToUnits(p.free)
	}
	p.count()
}

// count counts the free units by class and XCC.
func (p *packer) count() {
	quota, xccs := p.quota, p.perXCC
	clear(quota)
	clear(xccs)
	p.runs.collect(&p.free, p.units)
	all := int32(0) // units that every class has
	for r := range p.runs.n {
		turns, rest := p.byClass.divide(int(p.runs.len[r]))
		all += int32(turns)
		_, c := p.byClass.divide(int(p.runs.lo[r]))
		for ; rest > 0; rest-- {
			if c >= len(quota) {
				c = 0
			}
			quota[c]++
			c++
		}
	}
	x := 0
	for c := range quota {
		if x >= len(xccs) {
			x = 0
		}
		quota[c] += all
		xccs[x] += quota[c]
		x++
	}
	p.least, p.total = int(xccs[0]), 0
	for _, n := range xccs {
		p.least = min(p.least, int(n))
		p.total += int(n)
	}
}

// fits refuses so many CUs for so many grants, each with a unit on every XCC.
func (p *packer) fits(cus, grants int) error {
	if cus <= p.total*p.wgp && grants <= p.least {
		return nil
	}
	err := &InsufficientError{Want: cus, Free: p.total * p.wgp, XCC: -1}
	if p.xccs > 1 {
		for x, free := range p.perXCC {
			if int(free) < grants {
				err.XCC = x
				break
			}
		}
	}
	return err
}

// setQuotas turns the counts into quotas for n units with at least low on each
// XCC. The caller has made sure that they are there.
func (p *packer) setQuotas(n, low int) {
	p.setXCCQuotas(n, low)
	for x := range p.xccs {
		p.setSEQuotas(x)
	}
}

// setXCCQuotas leaves in spare what each XCC gives, and in extra and openX
// what may come from several. Every XCC gives low; each further unit comes from
// an XCC with the most left then, which keeps what is left as even as can be.
// So all that is above some level goes, and the rest comes from those that are
// just at it.
func (p *packer) setXCCQuotas(n, low int) {
	rest := n - low*p.xccs
	above := func(level int) int {
		sum := 0
		for _, free := range p.perXCC {
			sum += max(int(free)-low-level, 0)
		}
		return sum
	}
	// The level cannot be below the average of what stays.
	level := lowest((p.total-n+p.xccs-1)/p.xccs, p.units/p.xccs, func(level int) bool {
		return above(level) <= rest
	})
	p.extra, p.openX = rest-above(level), Set{}
	for x, free := range p.perXCC {
		over := int(free) - low - level
		p.spare[x] = int32(low + max(over, 0))
		if over >= 0 && level > 0 {
			p.openX.put(x)
		}
	}
}

// setSEQuotas deals what XCC x gives over its shader engines, always to one
// that has given the least and has more: all give up to some level, and the
// rest, left in spare, comes from open ones.
func (p *packer) setSEQuotas(x int) {
	give, quota, open, xccs := int(p.spare[x]), p.quota, p.open[:len(p.quota)], p.xccs
	// upTo is what all classes give up to a level, and how many have more.
	upTo := func(level int) (sum, above int) {
		for c := x; c < len(quota); c += xccs {
			free := int(quota[c])
			sum += min(free, level)
			if free > level {
				above++
			}
		}
		return sum, above
	}
	// The level cannot be below the average of what is given.
	level := lowest(give*xccs/p.classes, p.units/xccs, func(level int) bool {
		sum, above := upTo(level)
		return sum+above > give
	})
	for c := x; c < len(quota); c += xccs {
		open[c] = 0
		if int(quota[c]) > level {
			quota[c], open[c] = int32(level), -1
		}
		give -= int(quota[c])
	}
	p.spare[x] = int32(give)
}

// lowest returns the lowest number from lo to hi that is ok, or hi. Above a
// number that is ok all others are; mostly lo is.
func lowest(lo, hi int, ok func(int) bool) int {
	if ok(lo) {
		return lo
	}
	for lo < hi {
		if mid := (lo + hi) / 2; ok(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
