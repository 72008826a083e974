package plugin

import (
	"cmp"
	"slices"

	"github.com/Project-HAMi/hami-amd/partition"
)

// preference is what kubelet wants to know for one container.
type preference struct {
	resource string
	policy   AllocatorPolicy
	size     int
	// available are the device IDs kubelet may hand out, those it must hand
	// out included.
	available, must []string
	// granted are the devices the scheduler chose, by register ID in the order
	// of the grants; nil if that is not known.
	granted []string
	// taken are IDs that another container of the same call gets.
	taken map[string]bool
}

// prefer picks device IDs: what kubelet must include, then a share of each
// granted device, then what the policy picks among the rest. IDs that the node
// does not know, or of another resource, are not picked, and if too few are
// left the answer is short: kubelet fills it up.
//
// The answer is in the order of the node's devices and the same for the same
// question.
func prefer(node *Snapshot, ask preference) []string {
	if ask.size <= 0 || len(ask.must) > ask.size {
		return nil
	}
	p := newPicker(node, ask)
	for _, id := range ask.must {
		p.take(id)
	}
	for _, device := range ask.granted {
		p.takeShare(device)
	}
	p.fill(ask.size - len(p.picked))
	return p.answer()
}

// picker picks IDs from what is available.
type picker struct {
	node   *Snapshot
	policy AllocatorPolicy
	size   int
	free   [][]string // device IDs left by device, the lowest slot first
	byMust []int      // shares picked by device that no grant has used yet
	picked []string
}

func newPicker(node *Snapshot, ask preference) *picker {
	p := &picker{node: node, policy: ask.policy, size: ask.size,
		free: make([][]string, len(node.Devices)), byMust: make([]int, len(node.Devices))}
	for _, id := range slices.Concat(ask.available, ask.must) {
		i, ok := node.byKubelet[id]
		if ok && node.Devices[i].Resource == ask.resource && (!ask.taken[id] || slices.Contains(ask.must, id)) {
			p.free[i] = append(p.free[i], id)
		}
	}
	for i := range p.free {
		slices.SortFunc(p.free[i], compareIDs)
		p.free[i] = slices.Compact(p.free[i])
	}
	return p
}

// compareIDs puts "...#2" before "...#10".
func compareIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// take picks an ID that kubelet insists on, if the node knows it.
func (p *picker) take(id string) {
	i, ok := p.node.byKubelet[id]
	if !ok {
		return
	}
	if at := slices.Index(p.free[i], id); at >= 0 {
		p.free[i] = slices.Delete(p.free[i], at, at+1)
		p.picked = append(p.picked, id)
		p.byMust[i]++
	}
}

// takeShare picks a share of a device, unless one that was picked before serves.
func (p *picker) takeShare(device string) {
	i, ok := p.node.byID[device]
	switch {
	case !ok:
	case p.byMust[i] > 0:
		p.byMust[i]--
	case len(p.free[i]) > 0 && len(p.picked) < p.size:
		p.takeFirst(i)
	}
}

func (p *picker) takeFirst(i int) {
	p.picked = append(p.picked, p.free[i][0])
	p.free[i] = p.free[i][1:]
}

// fill picks n more by the policy. Shares of one GPU are no substitute for
// several GPUs, so each GPU gives one share before any gives a second one.
// Partitions are devices of their own.
func (p *picker) fill(n int) {
	if n <= 0 {
		return
	}
	c := p.choice()
	for gpu, count := range c.choose(n, p.policy) {
		for range count {
			p.takeFirst(c.nextOf(gpu, p))
			n--
		}
	}
	for n > 0 { // more shares than GPUs
		i := p.fewestShares(c.shares)
		if i < 0 {
			return
		}
		p.takeFirst(i)
		c.shares[i]++
		n--
	}
}

// choice lists what is left by GPU.
func (p *picker) choice() *choice {
	c := &choice{distance: p.node.distance, shares: make([]int, len(p.free)), devices: make([][]int, p.node.distance.n)}
	c.held, c.room, c.left = make([]int, c.distance.n), make([]int, c.distance.n), make([]int, c.distance.n)
	for _, id := range p.picked {
		i := p.node.byKubelet[id]
		c.held[p.node.gpuOf[i]]++
		c.shares[i]++
	}
	for i := range p.free {
		gpu, n := p.node.gpuOf[i], len(p.free[i])
		c.left[gpu] += n
		if !p.node.Devices[i].Hard {
			n = min(n, max(0, 1-c.shares[i]))
		}
		c.room[gpu] += n
		c.devices[gpu] = append(c.devices[gpu], i)
	}
	return c
}

// fewestShares is the soft device with a share left that gives the fewest so
// far, -1 if there is none. Among equals the policy decides: binpack takes
// from the fullest GPU, spread from the emptiest.
func (p *picker) fewestShares(shares []int) int {
	best := -1
	for i := range p.free {
		if len(p.free[i]) == 0 {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(shares[i], shares[best]), p.policy.prefers(len(p.free[i]), len(p.free[best]))) < 0 {
			best = i
		}
	}
	return best
}

// prefers orders two GPUs that are equally far by how much of them is free:
// binpack prefers what is nearly full, spread what is nearly empty.
func (policy AllocatorPolicy) prefers(freeA, freeB int) int {
	if policy == PolicySpread {
		return cmp.Compare(freeB, freeA)
	}
	return cmp.Compare(freeA, freeB)
}

// answer is what was picked, in the order of the node's devices.
func (p *picker) answer() []string {
	slices.SortFunc(p.picked, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.node.byKubelet[a], p.node.byKubelet[b]), compareIDs(a, b))
	})
	return p.picked
}

// gpuIndexes numbers the GPUs behind a list of devices, from 0 in the list's
// order.
func gpuIndexes(devices []partition.Registered) (gpuOf []int, gpus []*partition.GPU) {
	numbers := make(map[partition.BDF]int)
	gpuOf = make([]int, len(devices))
	for i := range devices {
		g := devices[i].GPU
		n, ok := numbers[g.BDF]
		if !ok {
			n = len(gpus)
			numbers[g.BDF] = n
			gpus = append(gpus, g)
		}
		gpuOf[i] = n
	}
	return gpuOf, gpus
}
