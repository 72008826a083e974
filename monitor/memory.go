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
	m := memory{index: first.index, id: first.id}
	if len(a.holdings) > 1 {
		m.id = first.device.gpu.id
	}
	return m
}

// memories reads the memory of a container that runs. What is used comes from
// the kernel where it counts the container's memory, else from the hook's
// region. The limit is the grant, where the kernel or the hook holds the
// container to it: a whole GPU has none.
//
// podGranted is what the containers of the pod were granted of each region:
// the plugin's limits are those of the pod's cgroup.
func (c *Collector) memories(pod *corev1.Pod, ctr *container, regions map[string]bool, podGranted map[string]uint64, buf *regionBuffer) (list []memory, problems []error) {
	report := func(err error) {
		problems = append(problems, fmt.Errorf("container %q: %w", ctr.name, err))
	}
	accounts := accounts(ctr.holdings, regions)
	var inPod, inContainer map[string]vram
	for _, a := range accounts {
		if a.region == "" {
			continue
		}
		var err error
		if inPod, inContainer, err = c.vramOf(pod, ctr.id); err != nil {
			report(err)
		}
		break
	}
	open := false
	for i := range accounts {
		a := &accounts[i]
		m := a.memory()
		if v, ok := inContainer[a.region]; ok {
			m.used = &v.bytes
			m.limit = enforced(a.granted, v.limit, inPod, a.region, podGranted[a.region])
		}
		open = open || m.used == nil || m.limit == nil
		list = append(list, m)
	}
	if open {
		if err := c.fromHook(pod, ctr, accounts, list, buf); err != nil && err != errNoRegion {
			report(err)
		}
	}
	return list, problems
}

// enforced is the limit of a container that was granted that many bytes, nil
// if its own cgroup and its pod's limit it to no less. A limit above what the
// pod was granted is not one that follows from grants.
func enforced(granted uint64, own dmem.Limit, inPod map[string]vram, region string, podGranted uint64) *uint64 {
	pods := dmem.Max
	if v, ok := inPod[region]; ok {
		pods = v.limit
	}
	if uint64(own) > granted && uint64(pods) > podGranted {
		return nil
	}
	limit := min(granted, uint64(own), uint64(pods))
	return &limit
}

// vramOf reads the cgroups of a pod and of one of its containers.
func (c *Collector) vramOf(pod *corev1.Pod, id string) (inPod, inContainer map[string]vram, err error) {
	podDir, dir, err := c.cgroups.find(pod, id)
	if err != nil {
		return nil, nil, err
	}
	if inContainer, err = c.cgroups.usage(dir); err != nil {
		return nil, nil, err
	}
	if inContainer == nil {
		c.cgroups.forget(pod.UID, dir)
		return nil, nil, nil
	}
	if inPod, err = c.cgroups.usage(podDir); err != nil {
		return nil, inContainer, err
	}
	return inPod, inContainer, nil
}

// fromHook fills in what the kernel does not say, from the hook's region. The
// limit there counts only as far as it shows that the hook enforces the grant:
// the container could have written any other number.
func (c *Collector) fromHook(pod *corev1.Pod, ctr *container, accounts []account, list []memory, buf *regionBuffer) error {
	path, err := regionPath(c.hookPath, string(pod.UID), ctr.name)
	if err != nil {
		return err
	}
	r, err := readRegion(path, min(len(ctr.holdings), regionDevices), buf)
	if err != nil {
		return err
	}
	for i := range list {
		m, a := &list[i], &accounts[i]
		if len(a.holdings) > 1 || m.index >= len(r.used) {
			continue // partitions are granted whole, without the hook
		}
		if m.used == nil {
			m.used = &r.used[m.index]
		}
		if limit := r.limits[m.index]; m.limit == nil && limit > 0 && limit <= a.granted {
			m.limit = &a.granted
		}
	}
	return nil
}
