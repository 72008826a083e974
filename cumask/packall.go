package cumask

import "fmt"

// PackAll chooses disjoint sets of the given sizes, in their order, as Pack
// would choose one: for the containers of a pod that run at once on one GPU.
// It finds sets whenever there are any, or changes nothing and says why not.
func PackAll(g Geometry, used Set, sizes []int) ([]Set, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	sum := 0
	for i, n := range sizes {
		if err := g.checkCount(n); err != nil {
			return nil, fmt.Errorf("size %d of %d: %w", i+1, len(sizes), err)
		}
		sum += n
	}
	if len(sizes) == 0 {
		return nil, nil
	}
	var p packer
	p.init(g, used)
	buf := make([]int16, 3*MaxCUs)
	p.buffers(buf)
	p.count()
	if err := p.fits(g, sum, len(sizes)); err != nil {
		return nil, err
	}
	lows := p.lows(g, sizes)
	sets := make([]Set, len(sizes))
	for i, n := range sizes {
		sets[i] = p.take(n/g.wgp(), lows[i])
		p.init(g, used.Union(sets[i]))
		used = used.Union(sets[i])
		clear(buf)
		p.count()
	}
	return sets, nil
}

// lows decides how many units each size gets on its poorest XCC.
func (p *packer) lows(g Geometry, sizes []int) []int {
	lows := make([]int, len(sizes))
	left := p.least
	for i := range lows {
		lows[i] = 1
		left--
	}
	for left > 0 {
		best := -1
		for i, n := range sizes {
			bound := n / g.wgp() / p.xccs
			if lows[i] < bound && (best < 0 || lows[i]*(sizes[best]/g.wgp()/p.xccs) < lows[best]*bound) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		lows[best]++
		left--
	}
	return lows
}
