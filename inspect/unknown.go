package inspect

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
)

// resourceNames are the extended resources that HAMi's side knows.
func (r *reader) resourceNames() []string {
	c := r.Devices.Config()
	return []string{c.ResourceCountName, c.ResourceMemoryName, c.ResourceMemoryPercentageName, c.ResourceCoreName, c.ResourcePriorityName}
}

// unknownResources are the resources that a container asks for in the domains of
// HAMi's own, and that are none of them and offered by no node: a slip of the
// pen. kube-scheduler places no pod with one. Names such as amd.com/cpx_nps4,
// which a node offers beside HAMi, are no slip.
func (c *Cluster) unknownResources(ctr *corev1.Container) []string {
	if len(ctr.Resources.Limits)+len(ctr.Resources.Requests) == 0 {
		return nil
	}
	known := c.read.resourceNames()
	domains := map[string]bool{domain(amd.DefaultCountName): true}
	for _, name := range known {
		domains[domain(name)] = true
	}
	found := map[string]bool{}
	for _, list := range [...]corev1.ResourceList{ctr.Resources.Limits, ctr.Resources.Requests} {
		for resource, quantity := range list {
			name := string(resource)
			if domains[domain(name)] && !slices.Contains(known, name) && quantity.Sign() > 0 && !c.offered[resource] {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// domain is what stands before the slash of a resource's name.
func domain(name string) string {
	d, _, _ := strings.Cut(name, "/")
	return d
}

// offers are the resources that some node has.
func offers(nodes []*corev1.Node) map[corev1.ResourceName]bool {
	all := map[corev1.ResourceName]bool{}
	for _, n := range nodes {
		if n != nil {
			for name := range n.Status.Capacity {
				all[name] = true
			}
		}
	}
	return all
}

// UnknownResources says of each container of a pod which resources it asks for
// that no node offers and HAMi does not know, a line for each of the first few.
// kube-scheduler places no pod with one, so HAMi is never asked about it.
func (c *Cluster) UnknownResources(pod *corev1.Pod) (lines []string) {
	for _, ctr := range containersOf(pod) {
		for _, name := range c.unknownResources(ctr) {
			if len(lines) == maxProblems {
				return lines
			}
			lines = append(lines, "container "+short(ctr.Name)+" "+c.unknownWords(name)+": Kubernetes places the pod nowhere")
		}
	}
	return lines
}

// unknownWords say what is wrong with such a resource.
func (c *Cluster) unknownWords(name string) string {
	return "asks for " + short(name) + ", which no node offers and HAMi does not know (it knows " + strings.Join(c.read.resourceNames(), ", ") + ")"
}
