package plugin

import "cmp"

// choice is the question of which GPUs to take how many units of. A unit is a
// partition, a whole GPU, or the one share of a GPU that counts. GPUs are
// numbered as in distance.
type choice struct {
	distance distances
	held     []int   // units taken already
	room     []int   // units that may be taken
	left     []int   // what is free of the GPU: for ties
	devices  [][]int // the devices of each GPU, in ascending order
	shares   []int   // shares taken by device
}

// nextOf is the first device of a GPU that may give one.
func (c *choice) nextOf(gpu int, p *picker) int {
	for _, i := range c.devices[gpu] {
		if len(p.free[i]) > 0 && (p.node.Devices[i].Hard || c.shares[i] == 0) {
			c.shares[i]++
			return i
		}
	}
	return -1
}

// choose picks up to n units, as many as there is room for, and returns how
// many of each GPU. The sum of the distances between all pairs of units, the
// held ones included, is as small as it finds for binpack, as large for spread.
//
// The exact answer is a clique problem. This grows two sets from each GPU in
// turn, one by the unit that is best for the sum, one by what is nearest to
// (farthest from) that GPU, improves each by moving single units, and keeps the
// best. For the topologies that exist, groups of equally near GPUs, the tests
// find none better.
func (c *choice) choose(n int, policy AllocatorPolicy) []int {
	room := 0
	for _, r := range c.room {
		room += r
	}
	n = min(n, room)
	if n <= 0 {
		return make([]int, len(c.room))
	}
	sign := 1
	if policy == PolicySpread {
		sign = -1
	}
	var best *growth
	for seed := range c.room {
		if c.room[seed] == 0 {
			continue
		}
		for _, around := range []bool{false, true} {
			if g := c.grow(n, seed, sign, around); best == nil || g.better(best) {
				best = g
			}
		}
	}
	return best.taken
}

// growth is one set that grows. What it looks for is small: costs for binpack,
// with sign 1, and negative costs for spread, with sign -1.
type growth struct {
	*choice
	sign  int
	taken []int
	cost  []int // what one more unit of each GPU adds to the sum
	total int   // the sum of distances
}

// grow makes a set of n units that begins with one of the seed. It goes on with
// the unit that changes the sum best, or with one that is best placed around
// the seed.
func (c *choice) grow(n, seed, sign int, around bool) *growth {
	g := &growth{choice: c, sign: sign, taken: make([]int, len(c.room)), cost: make([]int, len(c.room))}
	for gpu, held := range c.held {
		for range held {
			g.count(gpu, 1)
		}
	}
	g.add(seed)
	for missing := n - 1; missing > 0; missing-- {
		best := -1
		for gpu := range c.room {
			if g.taken[gpu] == c.room[gpu] {
				continue
			}
			if best < 0 || g.compare(gpu, best, seed, missing, around) < 0 {
				best = gpu
			}
		}
		g.add(best)
	}
	for range n * len(c.room) { // a bound only: each move improves the sum
		if !g.move() {
			break
		}
	}
	return g
}

func (g *growth) add(gpu int) {
	g.count(gpu, 1)
	g.taken[gpu]++
}

// count keeps the sums when a unit of a GPU comes (1) or goes (-1).
func (g *growth) count(gpu, by int) {
	g.total += by * g.cost[gpu] // a unit has no distance to others of its GPU
	row := g.distance.row(gpu)
	for other := range g.cost {
		g.cost[other] += by * row[other]
	}
}

// compare orders two GPUs as the source of the next unit of those missing.
func (g *growth) compare(a, b, seed, missing int, around bool) int {
	by := g.cost[a] - g.cost[b]
	if around {
		row := g.distance.row(seed)
		by = row[a] - row[b]
	}
	if by != 0 {
		return g.sign * by
	}
	if g.sign > 0 {
		// Units of one GPU are nearest to each other: the more of the missing
		// ones it can give, the better.
		if by := min(g.room[b]-g.taken[b], missing) - min(g.room[a]-g.taken[a], missing); by != 0 {
			return by
		}
	}
	return g.sign * (g.left[a] - g.taken[a] - (g.left[b] - g.taken[b]))
}

// move makes the best move of one unit from a GPU to another, and reports
// whether there was one that improves the sum.
func (g *growth) move() bool {
	from, to, best := -1, -1, 0
	for a := range g.taken {
		if g.taken[a] == 0 {
			continue
		}
		row := g.distance.row(a)
		for b := range g.taken {
			if b == a || g.taken[b] >= g.room[b] {
				continue
			}
			if change := g.sign * (g.cost[b] - row[b] - g.cost[a]); change < best {
				from, to, best = a, b, change
			}
		}
	}
	if from < 0 {
		return false
	}
	g.count(from, -1)
	g.taken[from]--
	g.add(to)
	return true
}

// better reports whether g is to be preferred to another set of the same size:
// by the sum, then by what is left of the GPUs it touches.
func (g *growth) better(other *growth) bool {
	return cmp.Or(g.sign*(g.total-other.total), g.sign*(g.leftover()-other.leftover())) < 0
}

func (g *growth) leftover() int {
	sum := 0
	for gpu, n := range g.taken {
		if n > 0 {
			sum += g.left[gpu] - n
		}
	}
	return sum
}
