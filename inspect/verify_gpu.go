package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

func (c *Cluster) verifyGPU(g *GPU) {
	if why := g.unusable(); why != "" {
		g.report(DeviceUnusable, "%s", why)
	}
	if !g.Device.Health {
		if t := g.firstTenant(func(t *Tenant) bool { return !t.Terminating }); t != nil {
			g.report(UnhealthyInUse, "the node registers it as unhealthy%s, and %s holds it%s", g.notSPX(), t.name(), others(len(g.Tenants)))
		} else {
			g.report(DeviceUnhealthy, "the node registers it as unhealthy%s: no pod gets it", g.notSPX())
		}
	}
	g.verifyBooks()
	g.verifyMasks(c.claims(g))
}

// unusable says why the scheduler gives the device to nobody, "" if it can.
func (g *GPU) unusable() string {
	d := &g.Device
	switch {
	case !strings.Contains(strings.ToUpper(d.Type), amd.Vendor):
		return fmt.Sprintf("type %s: HAMi gives AMD pods only devices whose type has %q in it", short(d.Type), amd.Vendor)
	case d.Count <= 0:
		return fmt.Sprintf("count %d: nobody can share it", d.Count)
	case d.Devmem <= 0:
		return "its memory is registered as 0 MiB, unknown: nothing is granted"
	case g.Geometry.Validate() != nil:
		return fmt.Sprintf("%v", g.Geometry.Validate())
	case g.Hard && d.Count != 1:
		return fmt.Sprintf("count %d: a compute partition (%s) is one container's, want 1", d.Count, d.Mode)
	}
	return ""
}

// notSPX is the reason why a device is unhealthy as far as it is registered: in
// operating mode cu a GPU that is partitioned cannot be shared, since its first
// render node reaches only one partition.
func (g *GPU) notSPX() string {
	profile, _, _ := strings.Cut(g.Device.CustomInfo.PartitionProfile, "_")
	if g.Hard || profile == "" || strings.EqualFold(profile, string(partition.SPX)) {
		return ""
	}
	return fmt.Sprintf(" (it is in compute partition mode %s, and operating mode %s can share only GPUs in mode spx)", cut(profile, 16), modeCU)
}

// verifyBooks compares what is granted with what there is. What one grant alone
// gets wrong is that grant's problem.
func (g *GPU) verifyBooks() {
	whole := g.firstTenant(func(t *Tenant) bool { return t.Whole })
	if whole != nil && g.Shares > 1 {
		g.report(WholeShared, "%s holds it whole, and it is held by %s at once (%s)", whole.name(), plural(g.Shares, "container"), g.holders())
		return
	}
	if g.firstTenant(func(t *Tenant) bool { return t.tooLarge }) != nil {
		return
	}
	if g.Shares > int(g.Device.Count) {
		g.report(SharesExceeded, "it is held by %s at once, want at most %d (%s)", plural(g.Shares, "container"), g.Device.Count, g.holders())
	}
	if g.GrantedMiB > int64(g.Device.Devmem) {
		g.report(MemoryExceeded, "%d MiB are granted, it has %d (%s)", g.GrantedMiB, g.Device.Devmem, g.holders())
	}
	if g.GrantedCUs > int(g.Device.Devcore) {
		g.report(CUsExceeded, "%d CUs are granted, it has %d (%s)", g.GrantedCUs, g.Device.Devcore, g.holders())
	}
}

// claim is what one pod holds of a device's CUs.
type claim struct {
	holder string
	cus    cumask.Set
}

// claims are the believable ones: those that no problem was found with. What
// is larger than the grant is a problem of that pod alone, as for the device
// plugin.
func (c *Cluster) claims(g *GPU) []claim {
	var list []claim
	var last *Tenant
	for _, t := range g.Tenants {
		if last != nil && last.UID == t.UID && last.Namespace == t.Namespace && last.Pod == t.Pod {
			list[len(list)-1].cus = list[len(list)-1].cus.Union(t.claimed())
			continue
		}
		last = t
		list = append(list, claim{joinName(t.Namespace, t.Pod), t.claimed().Union(t.podMask)})
	}
	return list
}

// claimed is the mask as far as it counts.
func (t *Tenant) claimed() cumask.Set {
	if t.maskBroken {
		return cumask.Set{}
	}
	return t.Mask
}

// verifyMasks finds CUs that two pods hold.
func (g *GPU) verifyMasks(claims []claim) {
	occupancy := cumask.NewOccupancy(g.Geometry)
	for _, claim := range claims {
		if claim.cus.Empty() {
			continue
		}
		err := occupancy.Add(claim.holder, claim.cus)
		if overlap := new(cumask.OverlapError); errors.As(err, &overlap) && !g.sharedWhole() {
			both := claim.cus.Intersect(occupancy.Held(overlap.Holders[0]))
			g.report(MaskOverlap, "pods %s and %s both hold CUs %s", short(overlap.Holders[0]), short(overlap.Holders[1]), cut(both.String(), 80))
		}
	}
	g.Used = occupancy.Used()
}

// verifyKubeletIDs finds device IDs of kubelet that are recorded for two pods.
// Kubelet gives an ID to one pod only until that has ended. It may know of an
// end before the API server does, so pods that are being deleted, and those
// bound a moment ago, do not count.
func (c *Cluster) verifyKubeletIDs(n *Node) {
	users := map[string]*Pod{}
	for _, p := range n.pods {
		if age, known := p.age(c.read.Now); p.Terminating || !p.Served || known && age <= c.read.Grace {
			continue
		}
		for _, name := range containerNames(p.object) {
			for _, id := range p.masks.containers[name].IDs {
				switch other := users[id]; other {
				case p:
				case nil:
					users[id] = p
				default:
					p.reportIn(name, KubeletIDsShared, "kubelet device ID %s is recorded for pod %s too", short(id), short(joinName(other.Namespace, other.Name)))
				}
			}
		}
	}
}

func (g *GPU) firstTenant(is func(*Tenant) bool) *Tenant {
	if i := slices.IndexFunc(g.Tenants, is); i >= 0 {
		return g.Tenants[i]
	}
	return nil
}

// sharedWhole reports whether a whole device is granted twice: then its CUs are
// of course too.
func (g *GPU) sharedWhole() bool {
	return slices.ContainsFunc(g.Problems, func(p Problem) bool { return p.Code == WholeShared })
}

// holders names the first few.
func (g *GPU) holders() string {
	const most = 4
	var names []string
	for _, t := range g.Tenants {
		if len(names) == most {
			names = append(names, fmt.Sprintf("%d more", len(g.Tenants)-most))
			break
		}
		names = append(names, t.name())
	}
	return strings.Join(names, ", ")
}

// name is "namespace/pod container", without quotation marks where it is a name
// that Kubernetes allows.
func (t *Tenant) name() string {
	return cut(joinName(t.Namespace, t.Pod), 128) + "[" + cut(t.Container, 64) + "]"
}

func others(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n-1)
}
