package drawtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Options say which cluster to make. The zero value is one node of the first
// kind.
type Options struct {
	// Nodes of eight GPUs each; 0 means 1. Their kinds alternate: MI300X and
	// MI355X shared by CUs, MI300X in CPX, MI355X in QPX.
	Nodes int
	// Seed of the mix of pods.
	Seed uint64
	// Planted breaks a few things, each in another way: an overlap, a starved
	// mask, a missing mask, a GPU that is gone, a lock left behind, an unhealthy and
	// a cordoned GPU.
	Planted bool
}

// Now is when the clusters are looked at. Their pods have run for an hour.
func Now() time.Time { return time.Unix(1787300000, 0).UTC() }

// Cluster makes a cluster, as kubectl would print it.
func Cluster(o Options) (nodes []*corev1.Node, pods []*corev1.Pod, err error) {
	random := rand.New(rand.NewPCG(o.Seed, 42))
	scheduler, err := amd.New(amd.Config{})
	if err != nil {
		return nil, nil, err
	}
	for n := range max(o.Nodes, 1) {
		object, devices, err := node(n)
		if err != nil {
			return nil, nil, err
		}
		nodes = append(nodes, object)
		placed, err := fill(random, scheduler, object, devices, len(pods))
		if err != nil {
			return nil, nil, fmt.Errorf("node %q: %w", object.Name, err)
		}
		pods = append(pods, placed...)
	}
	if o.Planted {
		if err := plant(nodes, pods); err != nil {
			return nil, nil, err
		}
	}
	return nodes, pods, nil
}

// fill lets pods come to a node until many have been refused.
func fill(random *rand.Rand, scheduler *amd.Devices, object *corev1.Node, devices []annotations.Device, first int) ([]*corev1.Pod, error) {
	const patience = 4 // refused pods; the node is then rather full, with gaps
	ledger := amd.NewLedger(scheduler)
	if err := ledger.SetNode(object); err != nil {
		return nil, err
	}
	workloads := shared
	if devices[0].Mode != "" {
		workloads = parted
	}
	on := newPlugin(devices)
	var pods []*corev1.Pod
	for refused, most := 0, 20+random.IntN(30); refused < patience && len(pods) < most; {
		pod := pick(random, workloads).pod(random, first+len(pods), Now().Add(-time.Hour))
		if _, err := scheduler.Admit(pod); err != nil {
			return nil, err
		}
		decision, err := ledger.Schedule(pod, amd.ScheduleOptions{Now: Now().Add(-time.Hour)})
		if err != nil {
			return nil, err
		}
		if decision.Node == "" {
			refused++
			continue
		}
		bound := decision.Apply()
		bound.Spec.NodeName = decision.Node
		bound.Status.Phase = corev1.PodRunning
		if err := on.allocate(bound, decision.Grants); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if err := ledger.SetPod(bound); err != nil {
			return nil, err
		}
		pods = append(pods, bound)
	}
	return pods, nil
}

// plugin is what a node's device plugin keeps in mind.
type plugin struct {
	devices map[string]*annotations.Device
	held    map[string]cumask.Set
	slots   map[string]int // kubelet device IDs given out, by device
}

func newPlugin(devices []annotations.Device) *plugin {
	p := &plugin{devices: map[string]*annotations.Device{}, held: map[string]cumask.Set{}, slots: map[string]int{}}
	for i := range devices {
		p.devices[devices[i].ID] = &devices[i]
	}
	return p
}

// allocate serves a pod: it packs the CUs and writes them down.
func (p *plugin) allocate(pod *corev1.Pod, grants annotations.PodGrants) error {
	union := map[string]cumask.Set{}
	containers := map[string]annotations.ContainerCUs{}
	served := grants
	for i, granted := range grants {
		if len(granted) == 0 {
			continue
		}
		init := i < len(pod.Spec.InitContainers)
		name := ""
		if init {
			name = pod.Spec.InitContainers[i].Name
		} else {
			name = pod.Spec.Containers[i-len(pod.Spec.InitContainers)].Name
		}
		ctr := annotations.ContainerCUs{CUs: map[string]cumask.Set{}}
		for _, g := range granted {
			set, err := p.pack(g)
			if err != nil {
				return err
			}
			ctr.IDs = append(ctr.IDs, p.kubeletID(g.UUID))
			ctr.CUs[g.UUID] = set
			union[g.UUID] = union[g.UUID].Union(set)
			if !init { // what an init container has, the others may have after it
				p.held[g.UUID] = p.held[g.UUID].Union(set)
			}
		}
		containers[name] = ctr
		served = served.Serve(i)
	}
	return write(pod, union, containers, served)
}

func (p *plugin) pack(g annotations.Grant) (cumask.Set, error) {
	device := p.devices[g.UUID]
	geometry := device.Geometry()
	if g.CUs == device.Devcore {
		return geometry.All(), nil
	}
	return cumask.Pack(geometry, p.held[g.UUID], int(g.CUs))
}

func (p *plugin) kubeletID(id string) string {
	device := p.devices[id]
	address := device.CustomInfo.PCIBDF
	if device.Mode != "" {
		return fmt.Sprintf("%s-p%d", address, int(device.Index)/gpusPerNode)
	}
	p.slots[id]++
	return fmt.Sprintf("%s#%d", address, p.slots[id]-1)
}

// write puts on the pod what the plugin writes there.
func write(pod *corev1.Pod, union map[string]cumask.Set, containers map[string]annotations.ContainerCUs, served annotations.PodGrants) (err error) {
	a := pod.Annotations
	if a[annotations.CUAllocatedKey], err = annotations.EncodeCUs(union); err != nil {
		return err
	}
	if a[annotations.CUContainersKey], err = annotations.EncodeContainerCUs(containers); err != nil {
		return err
	}
	if a[annotations.ToAllocateKey], err = annotations.EncodePod(served); err != nil {
		return err
	}
	a[annotations.BindPhaseKey] = string(annotations.BindSuccess)
	return nil
}
