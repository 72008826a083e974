package inspect

import (
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// verifyMasksOf looks at the CUs that the plugin handed to the containers of a
// pod.
func (c *Cluster) verifyMasksOf(p *Pod) {
	for _, err := range [...]error{p.masks.podErr, p.masks.containersErr} {
		if err != nil {
			p.report(CUsUnreadable, "%v", err)
		}
	}
	node := c.nodes[p.Node]
	for _, t := range p.Tenants {
		if g := node.GPU(t.Device); g != nil {
			p.verifyMask(t, g)
		}
	}
	p.verifyConcurrent()
	p.verifyUnion(node)
	p.verifyContainers()
}

// verifyMask looks at the mask of one container on one device.
func (p *Pod) verifyMask(t *Tenant, g *GPU) {
	geometry := g.Geometry
	if geometry.Validate() != nil {
		return // registered otherwise by now, or without its shape
	}
	if t.Mask.Empty() {
		_, of := p.masks.pod[t.Device]
		if p.started() && !t.Whole && t.CUs > 0 && !of && p.masks.podErr == nil && p.masks.containersErr == nil {
			t.report(UnlimitedTenant, "%d CUs are granted, the container runs, and no CUs are recorded for it (%s)", t.CUs, annotations.CUAllocatedKey)
		}
		return
	}
	granted := int(t.CUs)
	if g.Hard {
		granted = geometry.CUs
	}
	n := t.Mask.Len()
	t.maskBroken = true
	switch over := t.Mask.Minus(geometry.All()); {
	case !over.Empty():
		t.report(MaskBeyondDevice, "CUs %s are in its mask, the device has %d", cut(over.String(), 80), geometry.CUs)
	case n != granted && n != raise(geometry, granted):
		t.report(MaskSizeDiffers, "%d CUs are in its mask (%s), %d are granted", n, cut(t.Mask.String(), 80), granted)
		t.maskBroken = n > granted
	default:
		t.maskBroken = false
		spread := geometry.Spread(t.Mask)
		if xcc := slices.Index(spread.PerXCC, 0); xcc >= 0 {
			t.report(MaskStarvesXCC, "its mask %s has no CU on XCC %d: a queue with such a mask hangs", cut(t.Mask.String(), 80), xcc)
		} else if err := geometry.Check(t.Mask); err != nil {
			t.report(MaskHalfWGP, "its mask %s: %v", cut(t.Mask.String(), 80), err)
		}
	}
}

// raise is the fewest whole units that hold n CUs; none for none.
func raise(g cumask.Geometry, n int) int {
	if n <= 0 {
		return 0
	}
	return g.RoundUp(n)
}

// verifyConcurrent finds CUs that two containers of the pod hold at the same
// time. An ordinary init container is done before those after it start.
func (p *Pod) verifyConcurrent() {
	byDevice := map[string][]*Tenant{}
	for _, later := range p.Tenants {
		if later.Whole || later.Mask.Empty() {
			continue
		}
		for _, earlier := range byDevice[later.Device] {
			if earlier.Init || later.Init && !earlier.Sidecar {
				continue
			}
			if both := earlier.Mask.Intersect(later.Mask); !both.Empty() {
				later.report(ContainersOverlap, "it and container %s both hold CUs %s", short(earlier.Container), cut(both.String(), 80))
			}
		}
		byDevice[later.Device] = append(byDevice[later.Device], later)
	}
}

// verifyUnion compares the pod's CUs with its grants and with what its
// containers have.
func (p *Pod) verifyUnion(node *Node) {
	most := p.peakCUs(node)
	for _, device := range slices.Sorted(maps.Keys(p.masks.pod)) {
		set := p.masks.pod[device]
		first := slices.IndexFunc(p.Tenants, func(t *Tenant) bool { return t.Device == device })
		if first < 0 {
			p.report(MaskWithoutGrant, "annotation %s has CUs %s of device %s, which was not granted", annotations.CUAllocatedKey, cut(set.String(), 80), short(device))
			continue
		}
		union, complete := p.containersUnion(device)
		g := node.GPU(device)
		switch {
		case complete && p.Served && union != set:
			p.report(ContainersDisagree, "device %s: annotation %s has CUs %s, %s has %s", short(device), annotations.CUAllocatedKey, cut(set.String(), 80), annotations.CUContainersKey, cut(union.String(), 80))
		case p.masks.holders[device] > 1 && g != nil && g.Geometry.Validate() == nil:
			over := set.Minus(g.Geometry.All())
			switch n := set.Len(); {
			case !over.Empty():
				p.Tenants[first].report(MaskBeyondDevice, "CUs %s are in the pod's masks, the device has %d", cut(over.String(), 80), g.Geometry.CUs)
			case n > most[device] || p.Served && n < most[device]:
				p.Tenants[first].report(MaskSizeDiffers, "%d CUs are in the pod's masks (%s), %d are granted to it at once", n, cut(set.String(), 80), most[device])
			default:
				p.Tenants[first].podMask = set
			}
		}
	}
	p.verifyLeftOut()
}

// verifyLeftOut finds devices that the containers have CUs of and the pod's
// union does not name. Plugins that read the union alone hand those CUs out
// again.
func (p *Pod) verifyLeftOut() {
	if !p.Served || p.masks.podErr != nil {
		return
	}
	var seen []string
	for _, t := range p.Tenants {
		if _, ok := p.masks.pod[t.Device]; ok || slices.Contains(seen, t.Device) {
			continue
		}
		seen = append(seen, t.Device)
		if union, complete := p.containersUnion(t.Device); complete && !union.Empty() {
			p.report(ContainersDisagree, "device %s: annotation %s has CUs %s, %s has none", short(t.Device), annotations.CUContainersKey, cut(union.String(), 80), annotations.CUAllocatedKey)
		}
	}
}

// peakCUs are the CUs of each device that the pod may hold at once, as the node
// counts them: in whole units, and of partitions all.
func (p *Pod) peakCUs(node *Node) map[string]int {
	raised := make(annotations.PodGrants, len(p.grants))
	for i, grants := range p.grants {
		for _, grant := range grants {
			if g := node.GPU(grant.UUID); g != nil && g.Hard {
				grant.CUs = g.Device.Devcore
			} else if g != nil {
				grant.CUs = int32(raise(g.Geometry, int(grant.CUs)))
			}
			raised[i] = append(raised[i], grant)
		}
	}
	most := map[string]int{}
	for _, h := range amd.Peak(p.object, raised) {
		most[h.UUID] = int(h.CUs)
	}
	return most
}

// containersUnion is what the containers hold of a device together. complete:
// all of them are recorded.
func (p *Pod) containersUnion(device string) (union cumask.Set, complete bool) {
	for _, t := range p.Tenants {
		if t.Device != device {
			continue
		}
		recorded, ok := p.masks.containers[t.Container]
		if !ok {
			return cumask.Set{}, false
		}
		union = union.Union(recorded.CUs[device])
	}
	return union, true
}

// verifyContainers finds containers and devices in amd-cu-containers that were
// granted nothing.
func (p *Pod) verifyContainers() {
	for _, name := range slices.Sorted(maps.Keys(p.masks.containers)) {
		var granted []string
		for _, t := range p.Tenants {
			if t.Container == name {
				granted = append(granted, t.Device)
			}
		}
		switch ids := len(p.masks.containers[name].IDs); {
		case len(granted) == 0:
			p.report(ContainersDisagree, "annotation %s names container %s, which was granted nothing", annotations.CUContainersKey, short(name))
			continue
		case ids != len(granted):
			p.reportIn(name, ContainersDisagree, "annotation %s has %s of kubelet's for %s", annotations.CUContainersKey, plural(ids, "device ID"), plural(len(granted), "device"))
		}
		for _, device := range slices.Sorted(maps.Keys(p.masks.containers[name].CUs)) {
			if !slices.Contains(granted, device) {
				p.reportIn(name, ContainersDisagree, "annotation %s has CUs of device %s, which was not granted", annotations.CUContainersKey, short(device))
			}
		}
	}
}
