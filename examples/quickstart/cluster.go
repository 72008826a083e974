package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/examples/pods"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
	"github.com/Project-HAMi/hami-amd/partition"
)

// cluster is a cluster of one node: what its API server would hold, and what
// its plugin knows of the hardware.
type cluster struct {
	devices    *amd.Devices           // the scheduler's side
	registered []partition.Registered // the node's side
	node       *corev1.Node
	pods       []*corev1.Pod
}

// placement is what became of one pod.
type placement struct {
	pods.Pod
	decision amd.Decision
	plan     *allocate.Allocation // nil if the pod is not placed
}

// newCluster discovers a node's GPUs in its sysfs and registers them, as the
// device plugin does when it starts.
func newCluster(sysfs string) (*cluster, error) {
	inventory, err := partition.Discover(sysfs)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	if c.registered, err = inventory.Registered(partition.RegisterOptions{NodeName: nodeName}); err != nil {
		return nil, err
	}
	entries := make([]annotations.Device, len(c.registered))
	for i, r := range c.registered {
		entries[i] = r.Device
	}
	value, err := annotations.EncodeDevices(entries)
	if err != nil {
		return nil, err
	}
	c.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        nodeName,
		Annotations: map[string]string{annotations.NodeRegisterKey: value},
	}}
	none := int32(0) // gpumem without gpucores is memory alone
	c.devices, err = amd.New(amd.Config{DefaultCores: &none})
	return c, err
}

const nodeName = "mi300x-node"

// addExamples adds the pods of examples/pods one after another.
func (c *cluster) addExamples(now time.Time) ([]placement, error) {
	examples, err := pods.All()
	if err != nil {
		return nil, err
	}
	var placements []placement
	for _, pod := range examples {
		p, err := c.add(pod, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pod.File, err)
		}
		placements = append(placements, p)
	}
	return placements, nil
}

// add schedules a pod and, if it finds a place, allocates it: first what
// HAMi's scheduler does, then what the node's device plugin does.
func (c *cluster) add(pod pods.Pod, now time.Time) (placement, error) {
	pod.Namespace = corev1.NamespaceDefault
	pod.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", len(c.pods)+1))
	decision, err := c.devices.Schedule(pod.Pod, []*corev1.Node{c.node}, c.pods,
		amd.ScheduleOptions{GPUPolicy: annotations.PolicyBinpack, Now: now})
	if err != nil {
		return placement{}, err
	}
	p := placement{Pod: pod, decision: decision}
	if decision.Node == "" {
		return p, nil
	}

	bound := decision.Apply()
	bound.Spec.NodeName = decision.Node
	request, err := podspec.Pod(c.devices, bound)
	if err != nil {
		return placement{}, err
	}
	node := allocate.Node{Devices: c.registered, Held: map[string]cumask.Set{}}
	for id, o := range c.occupancy() {
		node.Held[id] = o.Used()
	}
	if p.plan, err = allocate.Plan(request, node); err != nil {
		return placement{}, err
	}
	if len(p.plan.CUs) > 0 {
		if bound.Annotations[annotations.CUAllocatedKey], err = annotations.EncodeCUs(p.plan.CUs); err != nil {
			return placement{}, err
		}
	}
	c.pods = append(c.pods, bound)
	p.Pod.Pod = bound
	return p, nil
}

// occupancy is who holds which CUs, from the pods' annotations.
func (c *cluster) occupancy() map[string]*cumask.Occupancy {
	all := make([]corev1.Pod, len(c.pods))
	for i, pod := range c.pods {
		all[i] = *pod
	}
	entries := make([]annotations.Device, len(c.registered))
	for i, r := range c.registered {
		entries[i] = r.Device
	}
	held, _ := podspec.Occupancy(c.devices, nodeName, entries, all) // the pods are ours: no problems
	return held
}

// memoryOnly says which pods have memory of a device but no CUs.
func (c *cluster) memoryOnly(id string) []string {
	var all []string
	for _, holding := range c.holdings() {
		for _, h := range holding.Holdings {
			if h.UUID == id && h.CUs == 0 {
				all = append(all, fmt.Sprintf("%s  %d MiB of memory, no CUs", holding.Name, h.MemoryMiB))
			}
		}
	}
	return all
}

// whole is the pod that holds all of a device, "" where none does.
func (c *cluster) whole(id string) string {
	for _, holding := range c.holdings() {
		for _, h := range holding.Holdings {
			for _, d := range c.registered {
				if d.ID == id && h.UUID == id && h.CUs == d.Devcore && h.MemoryMiB == d.Devmem {
					return holding.Name
				}
			}
		}
	}
	return ""
}

// holdings are the scheduler's books.
func (c *cluster) holdings() []amd.PodHolding {
	ledger := amd.NewLedger(c.devices)
	for _, pod := range c.pods {
		_ = ledger.SetPod(pod) // the scheduler made the pod's annotations
	}
	return ledger.Pods(nodeName)
}
