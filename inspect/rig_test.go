package inspect

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
	"github.com/Project-HAMi/hami-amd/partition"
)

var noon = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

// rig is a cluster made by this module's own scheduler and allocation, from
// machines of testdata.
type rig struct {
	t       testing.TB
	devices *amd.Devices
	nodes   []*corev1.Node
	gpus    map[string][]partition.Registered
	pods    []*corev1.Pod
	taken   map[string]bool // kubelet device IDs, by node and ID
	now     time.Time
}

func newRig(t testing.TB) *rig {
	t.Helper()
	devices, err := amd.New(amd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, devices: devices, gpus: map[string][]partition.Registered{}, taken: map[string]bool{}, now: noon}
}

// addNode adds a machine whose plugin has registered it.
func (r *rig) addNode(name, machine string, mode partition.OperatingMode) *corev1.Node {
	r.t.Helper()
	inventory, err := partition.Discover(fixturetest.Machine(r.t, machine))
	if err != nil {
		r.t.Fatal(err)
	}
	registered, err := inventory.Registered(partition.RegisterOptions{NodeName: name, Mode: mode})
	if err != nil {
		r.t.Fatal(err)
	}
	entries := make([]annotations.Device, len(registered))
	shares := 0
	for i := range registered {
		// Machines of one kind have the same serial numbers in testdata.
		registered[i].Device.ID = name + "-" + registered[i].Device.ID
		entries[i] = registered[i].Device
		shares += len(registered[i].KubeletIDs)
	}
	value, err := annotations.EncodeDevices(entries)
	if err != nil {
		r.t.Fatal(err)
	}
	resources := corev1.ResourceList{"cpu": resource.MustParse("64"), amd.DefaultCountName: *resource.NewQuantity(int64(shares), resource.DecimalSI)}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			annotations.NodeRegisterKey:  value,
			annotations.OperatingModeKey: string(mode),
		}},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources.DeepCopy()},
	}
	r.nodes = append(r.nodes, node)
	r.gpus[name] = registered
	return node
}

// schedule is the pod with the scheduler's annotations, nil if it fits nowhere.
func (r *rig) schedule(pod *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	decision, err := r.devices.Schedule(pod, r.nodes, r.pods, amd.ScheduleOptions{Now: r.now.Add(-time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	if decision.Node == "" {
		return nil
	}
	return decision.Apply()
}

// bind is the pod as the scheduler leaves it to kubelet.
func (r *rig) bind(pod *corev1.Pod, ago time.Duration) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = pod.Annotations[annotations.VGPUNodeKey]
	pod.Annotations[annotations.BindTimeKey] = annotations.FormatTime(r.now.Add(-ago))
	pod.Annotations[annotations.BindPhaseKey] = string(annotations.BindAllocating)
	pod.Status.Phase = corev1.PodPending
	return pod
}

// serve is the pod as the device plugin leaves it.
func (r *rig) serve(pod *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	pod = pod.DeepCopy()
	request, err := podspec.Pod(r.devices, pod)
	if err != nil {
		r.t.Fatal(err)
	}
	node := allocate.Node{Devices: r.gpus[pod.Spec.NodeName], Held: map[string]cumask.Set{}}
	entries := make([]annotations.Device, len(node.Devices))
	for i := range node.Devices {
		entries[i] = node.Devices[i].Device
	}
	var pods []corev1.Pod
	for _, p := range r.pods {
		pods = append(pods, *p)
	}
	held, problems := podspec.Occupancy(r.devices, pod.Spec.NodeName, entries, pods)
	if len(problems) > 0 {
		r.t.Fatal(problems)
	}
	for id, o := range held {
		node.Held[id] = o.Used()
	}
	plan, err := allocate.Plan(request, node)
	if err != nil {
		r.t.Fatal(err)
	}
	ids := map[string][]string{}
	reuse := map[string][]string{} // kubelet gives an init container's IDs to those after it
	for i, c := range plan.Containers {
		for _, d := range c.Devices {
			id := ""
			if n := len(reuse[d.ID]); n > 0 {
				id, reuse[d.ID] = reuse[d.ID][n-1], reuse[d.ID][:n-1]
			} else {
				id = r.kubeletID(pod.Spec.NodeName, d.ID)
			}
			ids[c.Name] = append(ids[c.Name], id)
		}
		if i < len(pod.Spec.InitContainers) && !amd.Sidecar(&pod.Spec.InitContainers[i]) {
			for k, d := range c.Devices {
				reuse[d.ID] = append(reuse[d.ID], ids[c.Name][k])
			}
		}
	}
	r.set(pod, plan, ids)
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func (r *rig) set(pod *corev1.Pod, plan *allocate.Allocation, ids map[string][]string) {
	r.t.Helper()
	cus, err := annotations.EncodeCUs(plan.CUs)
	if err != nil {
		r.t.Fatal(err)
	}
	containers, err := annotations.EncodeContainerCUs(plan.ContainerCUs(ids))
	if err != nil {
		r.t.Fatal(err)
	}
	waiting, err := annotations.EncodePod(make(annotations.PodGrants, len(plan.Containers)))
	if err != nil {
		r.t.Fatal(err)
	}
	pod.Annotations[annotations.CUAllocatedKey] = cus
	pod.Annotations[annotations.CUContainersKey] = containers
	pod.Annotations[annotations.ToAllocateKey] = waiting
	pod.Annotations[annotations.BindPhaseKey] = string(annotations.BindSuccess)
}

func (r *rig) kubeletID(node, device string) string {
	for _, d := range r.gpus[node] {
		if d.Device.ID != device {
			continue
		}
		for _, id := range d.KubeletIDs {
			if !r.taken[node+id] {
				r.taken[node+id] = true
				return id
			}
		}
	}
	r.t.Fatalf("node %s: no free kubelet ID of device %s", node, device)
	return ""
}

// run adds a pod that has gone all the way.
func (r *rig) run(pod *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	scheduled := r.schedule(pod)
	if scheduled == nil {
		r.t.Fatalf("pod %s fits nowhere", pod.Name)
	}
	running := r.serve(r.bind(scheduled, time.Hour))
	r.pods = append(r.pods, running)
	return running
}

func (r *rig) cluster() *Cluster {
	return New(r.nodes, r.pods, Options{Devices: r.devices, Now: r.now})
}

// newPod is a pod as its author writes it.
func newPod(name string, containers ...corev1.Container) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Time{Time: noon.Add(-time.Hour)},
	}}
	for _, c := range containers {
		if c.Image == "init" {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// ask is an app container. 0 leaves a resource out.
func ask(name string, gpus, mib, cores int) corev1.Container {
	limits := corev1.ResourceList{}
	for name, n := range map[corev1.ResourceName]int{amd.DefaultCountName: gpus, amd.DefaultMemoryName: mib, amd.DefaultCoreName: cores} {
		if n > 0 {
			limits[name] = resource.MustParse(strconv.Itoa(n))
		}
	}
	return corev1.Container{Name: name, Image: "app", Resources: corev1.ResourceRequirements{Limits: limits}}
}

func initially(c corev1.Container) corev1.Container {
	c.Image = "init"
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.Image, c.RestartPolicy = "init", &always
	return c
}

// cleanRig is a cluster in which nothing is wrong, with pods in every state a
// pod can be in.
func cleanRig(t testing.TB) *rig {
	t.Helper()
	r := newRig(t)
	r.addNode("cu-1", "mi300x-spx-8", partition.ModeCU)
	r.addNode("rdna-1", "rx7900xtx", partition.ModeCU)
	qpx := r.addNode("qpx-1", "mi355x-qpx-8", partition.ModePartition)
	qpx.Annotations[annotations.ComputePartitionKey] = "QPX"
	r.addNode("idle-1", "empty", partition.ModeCU)

	mi300x := map[string]string{annotations.UseTypeKey: "MI300X"}
	on := func(pod *corev1.Pod, a map[string]string) *corev1.Pod {
		pod.Annotations = a
		return pod
	}
	r.run(on(newPod("slice-a", ask("main", 1, 49152, 25)), mi300x))
	r.run(on(newPod("slice-b", ask("main", 1, 49152, 25)), mi300x))
	r.run(on(newPod("two-gpus", ask("main", 2, 98304, 50)), mi300x))
	r.run(on(newPod("whole", ask("main", 1, 0, 0)), mi300x))
	r.run(on(newPod("rdna", ask("main", 1, 1024, 50)), map[string]string{annotations.UseTypeKey: "7900"}))
	r.run(on(newPod("partition", ask("main", 2, 0, 0)), map[string]string{annotations.UseTypeKey: "MI355X"}))
	r.run(on(newPod("inits",
		initially(ask("none", 0, 0, 0)), initially(ask("prep", 1, 30000, 50)), sidecar(ask("log", 0, 0, 0)),
		ask("web", 0, 0, 0), ask("train", 1, 20000, 25), ask("serve", 1, 10000, 10)), mi300x))

	terminating := r.run(on(newPod("terminating", ask("main", 1, 1000, 10)), mi300x))
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	for i, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		finished := r.run(on(newPod(fmt.Sprintf("finished-%d", i), ask("main", 1, 1000, 10)), mi300x))
		finished.Status.Phase = phase
		finished.Annotations[annotations.CUAllocatedKey] = "{}" // what it says does not matter any more
	}
	r.pods = append(r.pods,
		newPod("pending", ask("main", 1, 1000, 10)),
		newPod("never", ask("main", 64, 0, 0)),
		newPod("no-gpu", ask("main", 0, 0, 0)),
	)
	chosen := r.schedule(on(newPod("chosen", ask("main", 1, 1000, 10)), mi300x))
	chosen.Annotations[annotations.VGPUTimeKey] = annotations.FormatTime(noon.Add(-2 * time.Second))
	r.pods = append(r.pods, chosen)

	// One pod is on its way and has the lock.
	binding := r.bind(r.schedule(on(newPod("binding", ask("a", 1, 1000, 10), ask("b", 1, 1000, 10)), mi300x)), 5*time.Second)
	r.pods = append(r.pods, binding)
	r.nodes[0].Annotations[annotations.NodeLockKey] = annotations.NodeLock{
		Time: noon.Add(-6 * time.Second), Namespace: "team", Name: "binding",
	}.String()
	return r
}

// clone is a copy that may be broken.
func (r *rig) clone(t testing.TB) *rig {
	c := *r
	c.t = t
	c.nodes, c.pods, c.taken = nil, nil, maps.Clone(r.taken)
	for _, n := range r.nodes {
		c.nodes = append(c.nodes, n.DeepCopy())
	}
	for _, p := range r.pods {
		c.pods = append(c.pods, p.DeepCopy())
	}
	return &c
}

func (r *rig) pod(name string) *corev1.Pod {
	r.t.Helper()
	for _, p := range r.pods {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("no pod %s", name)
	return nil
}

func (r *rig) node(name string) *corev1.Node {
	r.t.Helper()
	for _, n := range r.nodes {
		if n.Name == name {
			return n
		}
	}
	r.t.Fatalf("no node %s", name)
	return nil
}

// grant is the n-th grant of a pod's k-th container that has any.
func (r *rig) grant(pod string, k, n int) annotations.Grant {
	r.t.Helper()
	grants, err := annotations.DecodePod(r.pod(pod).Annotations[annotations.AllocatedKey])
	if err != nil {
		r.t.Fatal(err)
	}
	for _, g := range grants {
		if len(g) > 0 {
			if k == 0 {
				return g[n]
			}
			k--
		}
	}
	r.t.Fatalf("pod %s has no such container", pod)
	return annotations.Grant{}
}

// edit replaces text in an annotation of a pod, or of all that hold devices
// where key is "", and fails where it is not there.
func (r *rig) edit(pod, key, old, text string) {
	r.t.Helper()
	p, found := r.pod(pod), false
	for _, k := range podKeys {
		if v := p.Annotations[k]; (key == "" || key == k) && strings.Contains(v, old) {
			p.Annotations[k], found = strings.ReplaceAll(v, old, text), true
		}
	}
	if !found {
		r.t.Fatalf("pod %s: annotation %q does not hold %q", pod, key, old)
	}
}

// register replaces text in the register annotation of a node.
func (r *rig) register(node string, change func([]annotations.Device)) {
	r.t.Helper()
	n := r.node(node)
	devices, err := annotations.DecodeDevices(n.Annotations[annotations.NodeRegisterKey])
	if err != nil {
		r.t.Fatal(err)
	}
	change(devices)
	if n.Annotations[annotations.NodeRegisterKey], err = annotations.EncodeDevices(devices); err != nil {
		r.t.Fatal(err)
	}
}

// device finds one among those that register changes.
func device(t testing.TB, devices []annotations.Device, id string) *annotations.Device {
	t.Helper()
	for i := range devices {
		if devices[i].ID == id {
			return &devices[i]
		}
	}
	t.Fatalf("no device %s", id)
	return nil
}
