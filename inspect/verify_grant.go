package inspect

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// verifyGrant looks at one grant and its device.
func (c *Cluster) verifyGrant(p *Pod, t *Tenant) {
	node := c.nodes[p.Node]
	g := node.GPU(t.Device)
	if g == nil {
		if node != nil && node.fault == nil && len(node.GPUs) > 0 && !p.Terminating {
			t.report(UnknownDevice, "node %s registers no such device", short(p.Node))
		}
		return
	}
	device := &g.Device
	t.tooLarge = t.MemoryMiB > device.Devmem || t.CUs > device.Devcore
	raised := g.Geometry.RoundUp(int(t.CUs))
	switch {
	case t.tooLarge:
		t.report(GrantTooLarge, "%d MiB and %d CUs are granted, the device has %d and %d", t.MemoryMiB, t.CUs, device.Devmem, device.Devcore)
	case g.Hard && (t.MemoryMiB != device.Devmem || t.CUs != device.Devcore):
		t.report(PartitionGrantPartly, "%d MiB and %d CUs are granted of a compute partition of %d and %d", t.MemoryMiB, t.CUs, device.Devmem, device.Devcore)
	case t.Whole:
	case t.MemoryMiB == 0:
		t.report(GrantWithoutMemory, "%d CUs are granted and no memory", t.CUs)
	case t.CUs > 0 && g.Geometry.Validate() == nil && raised != int(t.CUs):
		t.report(GrantNotWholeUnits, "%d CUs are granted, the device hands out %d", t.CUs, raised)
	}
	if !g.Hard && !t.tooLarge {
		c.verifyRequest(p, t, g)
	}
}

// verifyRequest compares a grant of a shared device with what the container
// asks for in numbers. What it leaves out is up to the scheduler's
// configuration.
func (c *Cluster) verifyRequest(p *Pod, t *Tenant, g *GPU) {
	ctr := p.container(t.Container)
	r, err := c.read.Devices.Request(ctr)
	if err != nil || r.Count == 0 {
		return
	}
	config := c.read.Devices.Config()
	if asksFor(ctr, config.ResourceMemoryName) && r.MemoryMiB > 0 && r.MemoryMiB != t.MemoryMiB {
		t.report(GrantDiffers, "%d MiB are granted, the container asks for %d", t.MemoryMiB, r.MemoryMiB)
	}
	if !asksFor(ctr, config.ResourceCoreName) || g.Geometry.Validate() != nil {
		return
	}
	want := make([]int, 0, 3)
	for _, rounding := range [...]cumask.Rounding{cumask.RoundPlain, cumask.RoundBalanced} {
		if n, err := rounding.CUs(g.Geometry, int(r.Cores), int(g.Device.Count)); err == nil {
			want = append(want, n)
		}
	}
	// HAMi v2.10 does not know the unit.
	want = append(want, min(max(1, int(r.Cores)*g.Geometry.CUs/100), g.Geometry.CUs))
	for _, n := range want {
		if n == int(t.CUs) {
			return
		}
	}
	t.report(GrantDiffers, "%d CUs are granted, %d %% of the device's %d are %d", t.CUs, r.Cores, g.Geometry.CUs, want[0])
}

func asksFor(ctr *corev1.Container, name string) bool {
	q, ok := ctr.Resources.Limits[corev1.ResourceName(name)]
	if !ok {
		q, ok = ctr.Resources.Requests[corev1.ResourceName(name)]
	}
	return ok && q.Sign() > 0
}

// container finds a container of the pod by name.
func (p *Pod) container(name string) *corev1.Container {
	for _, ctr := range containersOf(p.object) {
		if ctr.Name == name {
			return ctr
		}
	}
	return &corev1.Container{}
}

func containersOf(pod *corev1.Pod) []*corev1.Container {
	list := make([]*corev1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		list = append(list, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	return list
}
