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

// maxSteps bounds the search. Eight GPUs have at most 70 ways to take some of
// them, and 64 partitions on eight GPUs have 6,435 to take eight, most of which
// are cut off early. Beyond the bound the best set seen is taken.
const maxSteps = 4096

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

// cost of a set of devices. Less is better, first things first.
type cost struct {
	noXGMI, crossNUMA, apart int32 // pairs
	kept                     int32 // worth of the links inside the set
	broken                   int32 // worth of those to the candidates left behind
}

// network is the candidates' GPUs, the links between them and the state of the
// search.
type network struct {
	sites  []site
	siteOf []int32  // of each candidate
	xgmi   []uint64 // a row of bits for each site
	row    int      // words in a row

	numaFirst bool
	pick      []int32 // the sites to choose from
	left      []int32 // devices on those from here on
	taken     []int32 // from each of those
	steps     int

	best     []int32 // from each site
	bestCost cost
	found    bool
}

// connected takes count candidates, best connected first. ok is false when a
// NUMA node has to be kept to and none has enough of them.
func (f *fitter) connected(count int) (chosen []candidate, ok bool) {
	f.dropLarger(count)
	n := &f.net
	n.numaFirst = f.pol.NUMA && !f.pol.TopologyAware
	n.build(f.cands)
	n.search(int32(count), f.pol.NUMABind)
	if !n.found {
		return nil, false
	}
	// The chosen move to the front and keep their order.
	next := 0
	for i, s := range n.siteOf {
		if n.best[s] == 0 {
			continue
		}
		n.best[s]--
		f.cands[next], f.cands[i] = f.cands[i], f.cands[next]
		next++
	}
	return f.cands[:next], true
}

// build sorts the candidates by GPU and looks up the links between the GPUs.
func (n *network) build(cands []candidate) {
	n.sites, n.siteOf = n.sites[:0], n.siteOf[:0]
	for i := range cands {
		s := n.site(&cands[i])
		if s < 0 {
			s = len(n.sites)
			n.sites = append(n.sites, site{bdf: cands[i].bdf, numa: cands[i].numa, peers: cands[i].peers})
		}
		n.sites[s].size++
		n.siteOf = append(n.siteOf, int32(s))
	}
	n.link()
	for i := range n.sites {
		s := &n.sites[i]
		s.degree = sameGPU * (s.size - 1)
		for j := range n.sites {
			if i != j {
				s.degree += n.sites[j].size * n.worth(i, j)
			}
		}
	}
}

// site finds the GPU of a candidate among those seen, -1 when it is new or has
// no PCI address to tell.
func (n *network) site(c *candidate) int {
	if c.bdf != "" {
		for s := len(n.sites) - 1; s >= 0; s-- {
			if n.sites[s].bdf == c.bdf {
				return s
			}
		}
	}
	return -1
}

// link marks the pairs of which either names the other as an XGMI peer.
func (n *network) link() {
	n.row = (len(n.sites) + 63) / 64
	words := n.row * len(n.sites)
	n.xgmi = slices.Grow(n.xgmi[:0], words)[:words]
	clear(n.xgmi)
	for i := range n.sites {
		for _, peer := range n.sites[i].peers {
			for j := range n.sites {
				if i != j && n.sites[j].bdf == peer {
					n.xgmi[i*n.row+j/64] |= 1 << (j % 64)
					n.xgmi[j*n.row+i/64] |= 1 << (i % 64)
				}
			}
		}
	}
}

func (n *network) linked(i, j int) bool { return n.xgmi[i*n.row+j/64]>>(j%64)&1 != 0 }

// worth of the link between a device of site i and one of site j.
func (n *network) worth(i, j int) int32 {
	switch {
	case n.linked(i, j):
		return xgmiLink
	case n.sites[i].numa == n.sites[j].numa:
		return sameNUMA
	}
	return 0
}

// search finds the best way to take count devices, with bind on one NUMA node.
func (n *network) search(count int32, bind bool) {
	n.best = slices.Grow(n.best[:0], len(n.sites))[:len(n.sites)]
	n.found, n.bestCost = false, cost{}
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
			n.descend(0, count, cost{})
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
func (n *network) descend(p int, count int32, c cost) {
	if n.found && n.compare(c, n.bestCost) > 0 {
		return
	}
	if count == 0 {
		n.offer(c)
		return
	}
	if n.steps >= maxSteps {
		return
	}
	n.steps++
	size := n.sites[n.pick[p]].size
	for k := min(count, size); k >= max(0, count-(n.left[p]-size)); k-- {
		n.taken[p] = 0
		joined := c
		if k > 0 {
			joined = n.join(c, p, k)
		}
		n.taken[p] = k
		n.descend(p+1, count-k, joined)
	}
	n.taken[p] = 0
}

// join is the cost after k devices of the p-th site join those taken.
func (n *network) join(c cost, p int, k int32) cost {
	i := int(n.pick[p])
	for q, t := range n.taken {
		if t == 0 {
			continue
		}
		j, pairs := int(n.pick[q]), t*k
		c.apart += pairs
		c.kept += pairs * n.worth(i, j)
		if !n.linked(i, j) {
			c.noXGMI += pairs
		}
		if n.sites[i].numa != n.sites[j].numa {
			c.crossNUMA += pairs
		}
	}
	c.kept += sameGPU * k * (k - 1) / 2
	c.broken += k * n.sites[i].degree
	return c
}

// compare judges what is inside two sets.
func (n *network) compare(a, b cost) int {
	first, second := cmp.Compare(a.noXGMI, b.noXGMI), cmp.Compare(a.crossNUMA, b.crossNUMA)
	if n.numaFirst {
		first, second = second, first
	}
	return cmp.Or(first, second, cmp.Compare(a.apart, b.apart))
}

// offer keeps the devices taken if they are better than the best so far.
func (n *network) offer(c cost) {
	c.broken -= 2 * c.kept // a link inside was counted from both its ends
	if n.found && cmp.Or(n.compare(c, n.bestCost), cmp.Compare(c.broken, n.bestCost.broken)) >= 0 {
		return
	}
	n.found, n.bestCost = true, c
	clear(n.best)
	for p, k := range n.taken {
		n.best[n.pick[p]] = k
	}
}

// maxStarts bounds how often approximate starts.
const maxStarts = 16

// approximate offers a few sets grown from one GPU, each time by the GPU that
// costs least. It is for nodes with more ways to choose than maxSteps.
func (n *network) approximate(count int32) {
	for start := range min(len(n.pick), maxStarts) {
		clear(n.taken)
		var c cost
		for more, p := count, start; more > 0; {
			k := min(more, n.sites[n.pick[p]].size)
			c = n.join(c, p, k)
			n.taken[p], more = k, more-k
			next := -1
			var least cost
			for q := range n.pick {
				if n.taken[q] > 0 || more == 0 {
					continue
				}
				if grown := n.join(c, q, min(more, n.sites[n.pick[q]].size)); next < 0 || n.compare(grown, least) < 0 {
					next, least = q, grown
				}
			}
			p = next
		}
		n.offer(c)
	}
	clear(n.taken)
}
