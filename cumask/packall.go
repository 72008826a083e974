package cumask

import "fmt"

// PackAll chooses disjoint sets of the given sizes, none of them touching used,
// for the containers of a pod that run at once on one GPU. The sets come in the
// order of the sizes; each passes [Geometry.Check]. It is all or nothing, and
// depends on the arguments alone.
//
// It finds sets whenever there are any: k grants fit exactly when every XCC has
// k free CUs and the GPU as many as they want together. For, once each grant
// has one CU on every XCC, any of the CUs left serve any of the grants. By the
// same argument each set can have any number of CUs on its poorest XCC up to
// its bound, size/XCCs, as long as these numbers together do not exceed the
// free CUs of the poorest XCC. Of all choices PackAll takes one
//
//  1. with the most effective CUs in total;
//  2. then, that shares a poor XCC fairly: the set that is furthest below its
//     bound, in proportion, is as close to it as can be, then the next;
//  3. then, that leaves the free CUs balanced over the XCCs;
//  4. then, by set in the order of the sizes, rules 3 and 4 of [Pack].
//
// With one size the result is that of Pack. The errors are those of Pack;
// [ErrGranularity] names the size.
func PackAll(g Geometry, used Set, sizes []int) ([]Set, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	sum := 0
	for i, n := range sizes {
		if err := g.checkCount(n); err != nil {
			return nil, fmt.Errorf("grant %d of %d: %w", i+1, len(sizes), err)
		}
		sum += n
	}
	if len(sizes) == 0 {
		return nil, nil
	}
	var p packer
	p.quota, p.open, p.perXCC, p.spare = p.counters(make([]int32, 4*p.init(g)))
	p.setUsed(used)
	if err := p.fits(sum, len(sizes)); err != nil {
		return nil, err
	}
	sets := make([]Set, len(sizes))
	for i, low := range p.lows(sizes) {
		if i > 0 {
			used = used.Union(sets[i-1])
			p.setUsed(used)
		}
		sets[i] = p.take(sizes[i]/p.wgp, low)
	}
	return sets, nil
}

// lows returns how many units each size gets on its poorest XCC: the free units
// of the GPU's poorest XCC, dealt one at a time to the size that has the
// smallest part of its bound.
//
// Taking the sets one after another by these numbers leaves room for the later
// ones: a unit beyond low comes from an XCC with the most left, and while there
// is a unit to take beyond all the lows, that XCC has more than they need.
func (p *packer) lows(sizes []int) []int {
	lows := make([]int, len(sizes))
	bound := func(i int) int { return sizes[i] / p.wgp / p.xccs }
	for left := p.least; left > 0; left-- {
		poorest := -1
		for i, low := range lows {
			if low < bound(i) && (poorest < 0 || low*bound(poorest) < lows[poorest]*bound(i)) {
				poorest = i
			}
		}
		if poorest < 0 {
			break
		}
		lows[poorest]++
	}
	return lows
}
