package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// podKeys are the annotations of the AMD protocol on a pod.
var podKeys = [...]string{
	annotations.ToAllocateKey, annotations.AllocatedKey, annotations.CUAllocatedKey, annotations.CUContainersKey,
}

// addPod takes in a pod that concerns AMD GPUs. Of two with one uid, or of one
// name where there is none, the first counts: it was listed twice.
func (c *Cluster) addPod(object *corev1.Pod) {
	uid := object.UID
	if uid == "" {
		uid = types.UID(podspec.Holder(object))
	}
	if c.pods[uid] {
		return
	}
	c.pods[uid] = true
	asks := c.read.Devices.Asks(object)
	ours := slices.Contains(asks, true) || c.read.misasks(object)
	for _, key := range podKeys {
		if _, ok := object.Annotations[key]; ok {
			ours = true
		}
	}
	if !ours {
		return
	}
	c.Pods = append(c.Pods, &Pod{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		Node: podspec.On(object), Phase: object.Status.Phase,
		Bound: object.Spec.NodeName != "", Terminating: object.DeletionTimestamp != nil,
		Finished: object.Status.Phase == corev1.PodSucceeded || object.Status.Phase == corev1.PodFailed,
		object:   object, asks: asks,
	})
}

// misasks reports whether a container names resources that cannot be granted:
// memory without a number of GPUs, for one.
func (r *reader) misasks(pod *corev1.Pod) bool {
	for _, ctr := range containersOf(pod) {
		if len(ctr.Resources.Limits)+len(ctr.Resources.Requests) == 0 {
			continue
		}
		if _, err := r.Devices.Request(ctr); err != nil {
			return true
		}
	}
	return false
}

// place reads what a pod holds and enters it in the books of its node.
func (c *Cluster) place(p *Pod) {
	if p.Finished {
		return
	}
	value, ok := p.object.Annotations[annotations.AllocatedKey]
	if !ok {
		return
	}
	grants, err := annotations.DecodePod(value)
	if err != nil {
		p.grantsErr = fmt.Errorf("annotation %s: %w", annotations.AllocatedKey, err)
		return
	}
	if grants, p.alignErr = grants.Align(p.asks); p.alignErr != nil {
		return
	}
	p.grants = grants
	p.masks = readMasks(p.object, grants)
	p.waiting, p.waitingErr = annotations.DecodePod(p.object.Annotations[annotations.ToAllocateKey])
	p.Served = p.Bound && p.waitingErr == nil && p.waiting.Served()
	node := c.nodes[p.Node]
	if node != nil && len(amd.Peak(p.object, grants)) > 0 {
		node.pods = append(node.pods, p)
	}
	for i, name := range containerNames(p.object) {
		for _, g := range grants[i] {
			t := p.tenant(i, name, g, node.GPU(g.UUID))
			p.Tenants = append(p.Tenants, t)
			if gpu := node.GPU(g.UUID); gpu != nil {
				gpu.Tenants = append(gpu.Tenants, t)
			}
		}
	}
	for _, h := range amd.Peak(p.object, grants) {
		if gpu := node.GPU(h.UUID); gpu != nil {
			gpu.Shares += int(h.Shares)
			gpu.GrantedMiB += int64(h.MemoryMiB)
			gpu.GrantedCUs += int(h.CUs)
		}
	}
}

// tenant is the holding of the i-th container.
func (p *Pod) tenant(i int, container string, g annotations.Grant, gpu *GPU) *Tenant {
	t := &Tenant{
		Namespace: p.Namespace, Pod: p.Name, Container: container, UID: p.UID,
		Node: p.Node, Device: g.UUID, Phase: p.Phase, Terminating: p.Terminating,
		Type: g.Type, MemoryMiB: g.MemoryMiB, CUs: g.CUs,
		Mask: p.masks.of(container, g.UUID),
	}
	if i < len(p.object.Spec.InitContainers) {
		t.Sidecar = amd.Sidecar(&p.object.Spec.InitContainers[i])
		t.Init = !t.Sidecar
	}
	if gpu == nil {
		return t
	}
	t.Whole = gpu.Hard || g.MemoryMiB == gpu.Device.Devmem && g.CUs == gpu.Device.Devcore
	switch {
	case !t.Mask.Empty():
		t.Effective = gpu.Geometry.Effective(t.Mask)
	case t.Whole:
		t.Effective = gpu.Geometry.Effective(gpu.Geometry.All())
	}
	return t
}

// containerNames are the pod's containers in the order of its grants.
func containerNames(pod *corev1.Pod) []string {
	names := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	return names
}

// masks are the CUs that the device plugin handed to the containers of a pod.
type masks struct {
	containers map[string]annotations.ContainerCUs
	// pod is what they hold together, by device. Plugins that do not write the
	// containers' own CUs write this alone.
	pod           map[string]cumask.Set
	containersErr error
	podErr        error
	holders       map[string]int // how many containers hold a device
}

func readMasks(pod *corev1.Pod, grants annotations.PodGrants) (m masks) {
	if value, ok := pod.Annotations[annotations.CUContainersKey]; ok {
		m.containers, m.containersErr = annotations.DecodeContainerCUs(value)
	}
	if value, ok := pod.Annotations[annotations.CUAllocatedKey]; ok {
		m.pod, m.podErr = annotations.DecodeCUs(value)
	}
	m.holders = map[string]int{}
	for _, container := range grants {
		for _, g := range container {
			m.holders[g.UUID]++
		}
	}
	return m
}

// of are the CUs of one container on one device: its own, or those of the pod
// when nobody else in it has the device.
func (m masks) of(container, device string) cumask.Set {
	if set, ok := m.containers[container].CUs[device]; ok {
		return set
	}
	if m.holders[device] == 1 {
		return m.pod[device]
	}
	return cumask.Set{}
}
