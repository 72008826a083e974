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
	// held are IDs that a live pod was given. Kubelet offers one when it has
	// seen the pod's end before the API server, or when it has lost its
	// checkpoint and every pod with it.
	held map[string]bool
	// again are the IDs of the container that kubelet asks for anew; nil if it
	// does not, or nobody can tell for which.
	again []string
}

// learn fills in what is known of the i-th container of a call.
//
// Kubelet does not say which pod it asks for. If nobody waits for devices, it
// must be a pod that was served before: kubelet has lost its checkpoint, or has
// died before it could write the answer there. Where one pod alone can be
// meant, it is given its own IDs again, by which Allocate knows it. Of several
// one would get the answer of another, so then no ID of theirs is advised, and
// Allocate refuses.
func (ask *preference) learn(p pending, i int) {
	if i < len(p.granted) {
		ask.granted = p.granted[i]
	}
	ask.held = make(map[string]bool)
	for _, c := range p.served {
		for _, id := range c.ids {
			ask.held[id] = true
		}
	}
	if p.granted != nil || p.others {
		return
	}
	offered := make(map[string]bool, len(ask.available))
	for _, id := range slices.Concat(ask.available, ask.must) {
		offered[id] = !ask.taken[id]
	}
	var found *servedContainer
	for k := range p.served {
		c := &p.served[k]
		switch {
		case len(c.ids) != ask.size || slices.ContainsFunc(c.ids, func(id string) bool { return !offered[id] }):
		case found == nil:
			found = c
		case found.pod != c.pod:
			return
		}
	}
	if found != nil {
		ask.again = found.ids
	}
}

// prefer picks device IDs: what kubelet must include, then those of a container
// that is asked for again, then a share of each granted device, then what the
// policy picks among the rest. IDs that the node does not know, or of another
// resource, are not picked, those of live pods only for a grant, and if too few
// are left the answer is short: kubelet fills it up.
//
// The answer is in the order of the node's devices and the same for the same
// question.
func prefer(node *snapshot, ask preference) []string {
	if ask.size <= 0 || len(ask.must) > ask.size {
		return nil
	}
	p := newPicker(node, ask)
	for _, id := range slices.Concat(ask.must, ask.again) {
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
	node   *snapshot
	policy AllocatorPolicy
	size   int
	free   [][]string // device IDs left by device, the lowest slot first
	held   [][]string // such that a live pod has, by device
	byMust []int      // shares picked by device that no grant has used yet
	picked []string
}

func newPicker(node *snapshot, ask preference) *picker {
	p := &picker{node: node, policy: ask.policy, size: ask.size,
		free: make([][]string, len(node.Devices)), held: make([][]string, len(node.Devices)), byMust: make([]int, len(node.Devices))}
	insist := func(id string) bool { return slices.Contains(ask.must, id) || slices.Contains(ask.again, id) }
	for _, id := range slices.Concat(ask.available, ask.must) {
		i, ok := node.byKubelet[id]
		switch {
		case !ok || node.Devices[i].Resource != ask.resource || ask.taken[id] && !insist(id):
		case ask.held[id] && !insist(id):
			p.held[i] = append(p.held[i], id)
		default:
			p.free[i] = append(p.free[i], id)
		}
	}
	for _, ids := range [][][]string{p.free, p.held} {
		for i := range ids {
			slices.SortFunc(ids[i], compareIDs)
			ids[i] = slices.Compact(ids[i])
		}
	}
	return p
}

// compareIDs puts "...#2" before "...#10".
func compareIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// take picks a certain ID, if the node knows it.
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
	case len(p.picked) >= p.size:
	case len(p.free[i]) > 0:
		p.takeFirst(i)
	case len(p.held[i]) > 0:
		p.picked = append(p.picked, p.held[i][0])
		p.held[i] = p.held[i][1:]
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
