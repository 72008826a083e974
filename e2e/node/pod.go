package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Plain is a container that asks for nothing.
func Plain(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "registry.example/" + name}
}

// Asks is a container that asks for count of a resource.
func Asks(name string, resource corev1.ResourceName, count int64) corev1.Container {
	c := Plain(name)
	limit(&c, resource, count)
	return c
}

// Whole is a container that asks for count GPUs and nothing less of them.
func Whole(name string, count int64) corev1.Container {
	return Asks(name, partition.ResourceGPU, count)
}

// Slice is a container that asks for a part of each of count GPUs.
func Slice(name string, count, percent, mib int64) corev1.Container {
	c := Whole(name, count)
	limit(&c, "amd.com/gpucores", percent)
	limit(&c, "amd.com/gpumem", mib)
	return c
}

func limit(c *corev1.Container, name corev1.ResourceName, value int64) {
	if c.Resources.Limits == nil {
		c.Resources.Limits = corev1.ResourceList{}
	}
	c.Resources.Limits[name] = *resource.NewQuantity(value, resource.DecimalSI)
}

// Pod is a pod of app containers that nobody has created yet.
func (n *Node) Pod(name string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: containers},
	}
}

// Sidecar makes an init container of a container that runs as long as the pod.
func Sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// Served is a pod whose containers run.
type Served struct {
	// Pod is as it was when it was bound.
	Pod *corev1.Pod
	// Containers is what each container was started with.
	Containers map[string]kubelet.Container
}

// ErrNotStarted is a pod that kubelet has admitted and whose containers do not
// start, because the plugin is away. Kubelet goes on trying; Rerun does that.
var ErrNotStarted = errors.New("containers do not start")

// Place takes a pod all the way: HAMi's scheduler creates, places and binds it,
// kubelet admits it and starts its containers. An error of the scheduler, a
// *kubelet.Rejection or an ErrNotStarted is returned, and then the pod too, as
// far as it got; its Containers are nil.
func (n *Node) Place(pod *corev1.Pod) (*Served, error) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	bound, err := n.Scheduler.Schedule(ctx, pod)
	if err != nil {
		return &Served{Pod: bound}, err
	}
	return n.admit(ctx, bound)
}

// Admit is the second half of Place, for a pod that is bound.
func (n *Node) Admit(bound *corev1.Pod) (*Served, error) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	return n.admit(ctx, bound)
}

func (n *Node) admit(ctx context.Context, bound *corev1.Pod) (*Served, error) {
	n.Helper()
	s := &Served{Pod: bound}
	if err := n.Kubelet.Admit(ctx, bound); err != nil {
		var rejection *kubelet.Rejection
		if !errors.As(err, &rejection) {
			n.Fatal(err)
		}
		return s, err
	}
	if err := n.run(ctx, s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	return s, nil
}

// Rerun starts the containers of a pod that kubelet has admitted, again and
// again until they run, as after a reboot or while the plugin was away.
func (n *Node) Rerun(s *Served) {
	n.Helper()
	n.Eventually("containers start", func() error {
		ctx, cancel := n.Timeout()
		defer cancel()
		return n.run(ctx, s)
	})
}

func (n *Node) run(ctx context.Context, s *Served) error {
	containers, err := n.Kubelet.Run(ctx, s.Pod)
	if err != nil {
		return err
	}
	s.Containers = containers
	n.mu.Lock()
	n.served[s.Pod.UID] = s
	n.mu.Unlock()
	return nil
}

// MustPlace is Place for a pod that must be served.
func (n *Node) MustPlace(pod *corev1.Pod) *Served {
	n.Helper()
	s, err := n.Place(pod)
	if err != nil {
		n.Fatal(err)
	}
	return s
}

// Bind takes a pod as far as the node lock: it is bound and waits for kubelet.
func (n *Node) Bind(pod *corev1.Pod) *corev1.Pod {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	bound, err := n.Scheduler.Schedule(ctx, pod)
	if err != nil {
		n.Fatal(err)
	}
	return bound
}

// BindOutsideHAMi creates a pod that is on the node from the start, as the
// default scheduler leaves it.
func (n *Node) BindOutsideHAMi(pod *corev1.Pod) *corev1.Pod {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	pod = pod.DeepCopy()
	pod.Spec.NodeName = n.Name
	bound, err := n.Lab.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return bound
}

// Finish ends a pod's containers; phase is Succeeded or Failed.
func (n *Node) Finish(s *Served, phase corev1.PodPhase) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	if err := n.Kubelet.Finish(ctx, s.Pod, phase); err != nil {
		n.Fatal(err)
	}
}

// Delete ends a pod's containers and removes the pod.
func (n *Node) Delete(pod *corev1.Pod) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	if err := n.Kubelet.Delete(ctx, pod); err != nil {
		n.Fatal(err)
	}
	n.mu.Lock()
	delete(n.served, pod.UID)
	n.mu.Unlock()
}

// Read returns a pod as it is now.
func (n *Node) Read(pod *corev1.Pod) *corev1.Pod {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	now, err := n.Lab.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return now
}

// Notes returns those of a pod's annotations that the scheduler and the plugin
// write, as they are now, without the times.
func (n *Node) Notes(pod *corev1.Pod) map[string]string {
	n.Helper()
	now := n.Read(pod).Annotations
	notes := make(map[string]string)
	for _, key := range []string{
		annotations.ToAllocateKey, annotations.AllocatedKey, annotations.CUAllocatedKey,
		annotations.CUContainersKey, annotations.BindPhaseKey,
	} {
		if value, ok := now[key]; ok {
			notes[key] = value
		}
	}
	return notes
}

// AnnotatePod sets annotations of a pod; nil deletes.
func (n *Node) AnnotatePod(pod *corev1.Pod, notes map[string]*string) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		n.Fatal(err)
	}
	if _, err := n.Lab.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		n.Fatal(err)
	}
}

// IDs are the kubelet IDs of a container's GPUs, sorted.
func (n *Node) IDs(s *Served, container string) []string {
	return n.Kubelet.DeviceIDs(s.Pod.UID, container)[partition.ResourceGPU]
}

// Lock is the text of the node lock, "" for none.
func (n *Node) Lock() string {
	n.Helper()
	return n.Object().Annotations[annotations.NodeLockKey]
}

// pods are the pods on the node as they are now, and what their containers were
// started with.
func (n *Node) pods() ([]corev1.Pod, map[string]*Served) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	list, err := n.Lab.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		n.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	served := make(map[string]*Served, len(n.served))
	for uid, s := range maps.All(n.served) {
		served[string(uid)] = s
	}
	return list.Items, served
}

// all are the pod's containers in the order in which kubelet asks for them.
func all(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}
