package monitor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/dmem"
)

// memory is what a container uses of one device's memory, and how much it may
// use. What nobody counts and what nothing enforces is nil.
type memory struct {
	index       int
	id          string
	granted     uint64
	used, limit *uint64
}

// account is a container's holdings of memory that is counted in one sum. It
// is one holding, except for partitions of one GPU, whose memory the kernel
// counts by the GPU.
type account struct {
	region   string // "" if the kernel does not count it
	holdings []holding
	granted  uint64
}

// accounts groups the holdings of a container by how the kernel counts their
// memory, in the order of the first one of each. An APU's memory is system
// memory, of which dmem counts none.
func accounts(holdings []holding, regions map[string]bool) []account {
	var list []account
	byRegion := make(map[string]int)
	for _, h := range holdings {
		region := ""
		if h.device != nil && h.device.gpu != nil && !h.device.gpu.apu && regions[h.device.gpu.region] {
			region = h.device.gpu.region
		}
		i, shared := byRegion[region]
		if region == "" || !shared {
			i = len(list)
			byRegion[region] = i
			list = append(list, account{region: region})
		}
		list[i].holdings = append(list[i].holdings, h)
		list[i].granted += h.bytes
	}
	return list
}

// memory starts the account's result: named after the device, or after the GPU
// where it stands for several of its partitions.
func (a *account) memory() memory {
	first := a.holdings[0]
	m := memory{index: first.index, id: first.id, granted: a.granted}
	if len(a.holdings) > 1 {
		m.id = first.device.gpu.id
	}
	return m
}

// podReader reads the memory of the containers of one pod.
type podReader struct {
	c       *Collector
	pod     *corev1.Pod
	regions map[string]bool // what the kernel counts
	// granted is what the pod's containers were granted of each region.
	granted map[string]uint64
	buf     *regionBuffer

	read  bool // the pod's own cgroup
	usage []dmem.Usage
}

// memories reads the memory of a container. One that does not run was granted
// it all the same, and uses none. What is used comes from
// the kernel where it counts the container's memory, else from the hook's
// region. The limit is the grant, where the kernel or the hook holds the
// container to it: a whole GPU has none.
func (r *podReader) memories(ctr *container) (list []memory, problems []error) {
	report := func(err error) {
		problems = append(problems, fmt.Errorf("container %q: %w", ctr.name, err))
	}
	accounts := accounts(ctr.holdings, r.regions)
	if ctr.id == "" {
		for i := range accounts {
			list = append(list, accounts[i].memory())
		}
		return list, nil
	}
	var own []dmem.Usage
	for _, a := range accounts {
		if a.region != "" {
			var err error
			if own, err = r.kernel(ctr.id); err != nil {
				report(err)
			}
			break
		}
	}
	open := false
	for i := range accounts {
		a := &accounts[i]
		m := a.memory()
		if bytes, limit, ok := vramOf(own, a.region); ok {
			m.used, m.limit = &bytes, r.enforced(a, limit)
		}
		open = open || m.used == nil || m.limit == nil
		list = append(list, m)
	}
	if open {
		if err := r.fromHook(ctr, accounts, list); err != nil && err != errNoRegion {
			report(err)
		}
	}
	return list, problems
}

// kernel reads the cgroup of a container, and once that of the pod.
func (r *podReader) kernel(id string) (own []dmem.Usage, err error) {
	cgroups := r.c.cgroups
	known, err := cgroups.find(r.pod, id)
	if err != nil {
		return nil, err
	}
	dir := known.containers[id]
	if own, err = cgroups.usage(dir); err != nil {
		return nil, err
	}
	if own == nil {
		cgroups.forget(r.pod.UID, dir)
		return nil, nil
	}
	if !r.read {
		r.read = true
		r.usage, err = cgroups.usage(known.dir)
	}
	return own, err
}

// enforced is the limit of a container whose cgroup has the given one, nil if
// neither that nor its pod's limits it to its grant. The plugin's limits are
// the pod's. One above what the pod was granted does not follow from grants.
func (r *podReader) enforced(a *account, own dmem.Limit) *uint64 {
	_, pods, _ := vramOf(r.usage, a.region)
	if uint64(own) > a.granted && uint64(pods) > r.granted[a.region] {
		return nil
	}
	limit := min(a.granted, uint64(own), uint64(pods))
	return &limit
}

// fromHook fills in what the kernel does not say, from the hook's region. The
// limit there counts only as far as it shows that the hook enforces the grant:
// the container could have written any other number.
func (r *podReader) fromHook(ctr *container, accounts []account, list []memory) error {
	path, err := regionPath(r.c.hookPath, string(r.pod.UID), ctr.name)
	if err != nil {
		return err
	}
	found, err := readRegion(path, min(len(ctr.holdings), regionDevices), r.buf)
	if err != nil {
		return err
	}
	for i := range list {
		m, a := &list[i], &accounts[i]
		if len(a.holdings) > 1 || m.index >= len(found.used) {
			continue // partitions are granted whole, without the hook
		}
		if m.used == nil {
			m.used = &found.used[m.index]
		}
		if limit := found.limits[m.index]; m.limit == nil && limit > 0 && limit <= a.granted {
			m.limit = &a.granted
		}
	}
	return nil
}
