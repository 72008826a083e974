package amd

import (
	"cmp"
	"slices"
)

// This file picks the best connected set of candidates.
//
// Candidates on one PCI function are partitions of one GPU and change places
// freely, so what is searched is how many to take from each GPU. A pair of
// devices is on one GPU, or joined by XGMI, or neither, which leaves PCIe; and
// on one NUMA node or not. A set is judged by its pairs, worst kind first: under
// topology-aware those without XGMI, then those across NUMA nodes, then those on
// different GPUs; under numa the second comes first.
//
// Sets that are equal there are told apart by the links between them and the
// candidates left behind: fewer are better, because the group that stays is then
// better connected. The last word has the order of the candidates.

const (
	// maxSteps bounds the search for a set, in places tried. Eight GPUs have at
	// most 70 ways to take some of them, and 64 partitions on eight GPUs 6,435
	// to take eight, most of which are cut off early. Beyond the bound the best
	// of the sets seen and of a few grown greedily is taken.
	maxSteps = 4096
	// maxStarts bounds how many are grown.
	maxStarts = 16
	// maxSites is more GPUs than any machine has. A node that registers more is
	// taken in order, without a look at links.
	maxSites = 128
)

// The kinds of pairs that make a set worse are counted in one number, the worst
// kind in the highest bits. 21 bits hold all pairs of 2,048 devices.
const (
	apart     = 1 // on different GPUs
	secondary = 1 << 21
	primary   = 1 << 42
)

// How much a link is worth to the candidates left behind.
const (
	sameGPU  = 4
	xgmiLink = 2
	sameNUMA = 1
)

// site is the candidates on one GPU.
type site struct {
	bdf    string
	numa   int
	peers  []string
	size   int32 // how many candidates
	degree int32 // worth of one member's links to all other candidates
}

// pair is what one device on each of two sites are to each other.
type pair struct {
	cost  uint64
	worth int32
}

// set is what a set of devices amounts to.
type set struct {
	cost uint64
	// kept is the worth of the links between its GPUs, broken of those to the
	// candidates left behind and, until the set is complete, twice of those
	// inside. Pairs on one GPU are left out of both: sets of one cost have as
	// many of them.
	kept, broken int32
}

// network is the candidates' GPUs, what they are to each other, and the state of
// the search.
type network struct {
	sites  []site
	siteOf []int32 // of each candidate
	pairs  []pair  // row by row, symmetric

	pick  []int32 // the sites to choose from
	left  []int32 // devices on those from here on
	taken []int32 // from each of those
	total int32   // devices to take
	steps int

	best    []int32 // from each site
	bestSet set
	found   bool
}

// connected takes the best connected count candidates, in their order. It
// returns nil when a NUMA node has to be kept to and none has enough of them.
func (f *fitter) connected(count int) []candidate {
	kept := f.largerLast(count)
	if chosen := f.bestOf(kept, count); chosen != nil || kept == len(f.cands) {
		return chosen
	}
	return f.bestOf(len(f.cands), count)
}

// bestOf takes the best connected count of the first candidates.
func (f *fitter) bestOf(first, count int) []candidate {
	n := &f.net
	if !n.gather(f.cands[:first]) {
		return f.inOrder(first, count)
	}
	n.compare(f.pol.NUMA && !f.pol.TopologyAware)
	n.search(int32(count), f.pol.NUMABind)
	if !n.found {
		return nil
	}
	return f.front(first, func(i int) bool {
		s := n.siteOf[i]
		n.best[s]--
		return n.best[s] >= 0
	})
}

// front moves those of the first candidates that are taken to the front, in their
// order.
func (f *fitter) front(first int, taken func(i int) bool) []candidate {
	next := 0
	for i := range first {
		if taken(i) {
			f.cands[next], f.cands[i] = f.cands[i], f.cands[next]
			next++
		}
	}
	return f.cands[:next]
}

// inOrder takes count of the first candidates in order, of one NUMA node where
// that is asked for.
func (f *fitter) inOrder(first, count int) []candidate {
	if !f.pol.NUMABind {
		return f.cands[:count]
	}
	perNode := map[int]int{}
	for i := range first {
		numa := f.cands[i].numa
		if perNode[numa]++; perNode[numa] == count {
			return f.front(i+1, func(j int) bool { return f.cands[j].numa == numa })
		}
	}
	return nil
}

// gather sorts the candidates by GPU. A candidate without a PCI address is a GPU
// of its own. It reports false for more GPUs than are looked at.
func (n *network) gather(cands []candidate) bool {
	n.sites, n.siteOf = n.sites[:0], n.siteOf[:0]
	for i := range cands {
		c := &cands[i]
		s := len(n.sites) - 1
		for s >= 0 && (c.bdf == "" || n.sites[s].bdf != c.bdf || n.sites[s].numa != c.numa) {
			s--
		}
		if s < 0 {
			if s = len(n.sites); s == maxSites {
				return false
			}
			n.sites = append(n.sites, site{bdf: c.bdf, numa: c.numa, peers: c.peers})
		}
		n.sites[s].size++
		n.siteOf = append(n.siteOf, int32(s))
	}
	return true
}

// compare works out what the GPUs are to each other. Two are linked by XGMI when
// either names the other.
func (n *network) compare(numaFirst bool) {
	noXGMI, crossNUMA := uint64(primary), uint64(secondary)
	if numaFirst {
		noXGMI, crossNUMA = crossNUMA, noXGMI
	}
	size := len(n.sites)
	n.pairs = slices.Grow(n.pairs[:0], size*size)[:size*size]
	for i := range n.sites {
		a := &n.sites[i]
		a.degree = sameGPU * (a.size - 1)
		for j := range i {
			b := &n.sites[j]
			p := pair{cost: apart}
			linked := slices.Contains(a.peers, b.bdf) || slices.Contains(b.peers, a.bdf)
			switch {
			case linked:
				p.worth = xgmiLink
			case a.numa == b.numa:
				p.worth = sameNUMA
			}
			if !linked {
				p.cost += noXGMI
			}
			if a.numa != b.numa {
				p.cost += crossNUMA
			}
			n.pairs[i*size+j], n.pairs[j*size+i] = p, p
			a.degree += b.size * p.worth
			b.degree += a.size * p.worth
		}
	}
}

// search finds the best way to take count devices, with bind on one NUMA node.
func (n *network) search(count int32, bind bool) {
	n.best = slices.Grow(n.best[:0], len(n.sites))[:len(n.sites)]
	n.found, n.total = false, count
	for i := range n.sites {
		n.pick, n.left = n.pick[:0], n.left[:0]
		left := int32(0)
		for j := len(n.sites) - 1; j >= 0; j-- {
			if !bind || n.sites[j].numa == n.sites[i].numa {
				left += n.sites[j].size
				n.pick = append(n.pick, int32(j))
				n.left = append(n.left, left)
			}
		}
		slices.Reverse(n.pick)
		slices.Reverse(n.left)
		// Once for each NUMA node, at its first site.
		if left >= count && int(n.pick[0]) == i {
			n.taken = slices.Grow(n.taken[:0], len(n.pick))[:len(n.pick)]
			clear(n.taken)
			n.steps = 0
			n.descend(0, count, set{})
			if n.steps >= maxSteps {
				n.approximate(count)
			}
		}
		if !bind {
			return
		}
	}
}

// descend decides how many to take from the p-th site to choose from, most
// first, with count still to be taken.
func (n *network) descend(p int, count int32, s set) {
	if count == 0 {
		n.offer(s)
		return
	}
	// Those still to come will be on other GPUs than those taken.
	if least := s.cost + apart*uint64(count*(n.total-count)); n.found && least > n.bestSet.cost {
		return
	}
	size := n.sites[n.pick[p]].size
	to := n.towards(p)
	for k := min(count, size); k >= max(0, count-(n.left[p]-size)) && n.steps < maxSteps; k-- {
		n.steps++
		n.taken[p] = k
		n.descend(p+1, count-k, n.join(s, p, k, to))
	}
	n.taken[p] = 0
}

// towards is what one device of the p-th site is to all those taken.
func (n *network) towards(p int) (to pair) {
	row := n.pairs[int(n.pick[p])*len(n.sites):]
	for q, k := range n.taken {
		if k > 0 {
			pair := &row[n.pick[q]]
			to.cost += uint64(k) * pair.cost
			to.worth += k * pair.worth
		}
	}
	return to
}

// join is the set after k devices of the p-th site joined it.
func (n *network) join(s set, p int, k int32, to pair) set {
	s.cost += uint64(k) * to.cost
	s.kept += k * to.worth
	s.broken += k * n.sites[n.pick[p]].degree
	return s
}

// offer keeps the devices taken if they are better than the best so far.
func (n *network) offer(s set) {
	s.broken -= 2 * s.kept // counted from both ends
	if n.found && cmp.Or(cmp.Compare(s.cost, n.bestSet.cost), cmp.Compare(s.broken, n.bestSet.broken)) >= 0 {
		return
	}
	n.found, n.bestSet = true, s
	clear(n.best)
	for p, k := range n.taken {
		n.best[n.pick[p]] = k
	}
}

// approximate offers a few sets grown from one GPU, each time by the GPU that
// costs least.
func (n *network) approximate(count int32) {
	for start := range min(len(n.pick), maxStarts) {
		clear(n.taken)
		var s set
		for more, p := count, start; more > 0; {
			k := min(more, n.sites[n.pick[p]].size)
			s = n.join(s, p, k, n.towards(p))
			n.taken[p], more = k, more-k
			p = n.cheapest(more)
		}
		n.offer(s)
	}
	clear(n.taken)
}

// cheapest is the site not taken from yet that costs least per device, the
// larger of equals, as far as count devices are wanted.
func (n *network) cheapest(count int32) int {
	best := -1
	var bestCost uint64
	var bestSize int32
	for p := range n.pick {
		if n.taken[p] > 0 {
			continue
		}
		cost, size := n.towards(p).cost, min(count, n.sites[n.pick[p]].size)
		if best < 0 || cost < bestCost || cost == bestCost && size > bestSize {
			best, bestCost, bestSize = p, cost, size
		}
	}
	return best
}
