package e2e

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
)

// registerGPUs writes the node's register annotation, as the plugin would.
func registerGPUs(t *testing.T, client kubernetes.Interface, node string, devices ...annotations.Device) {
	t.Helper()
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotations.NodeRegisterKey: value}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func mi300x(id string) annotations.Device {
	return annotations.Device{
		ID: id, Count: 4, Devmem: 196592, Devcore: 304, Type: "AMD Instinct MI300X", Health: true,
		CustomInfo: annotations.CustomInfo{NumXCC: 8},
	}
}

// slicePod asks for a slice of each of count GPUs in its one container.
func slicePod(namespace, name string, count, percent, mib int64) *corev1.Pod {
	c := gpuContainer("app", count)
	c.Resources.Limits["amd.com/gpucores"] = *resource.NewQuantity(percent, resource.DecimalSI)
	c.Resources.Limits["amd.com/gpumem"] = *resource.NewQuantity(mib, resource.DecimalSI)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

// The whole way of a pod on real parts, with a plugin that knows nothing of HAMi.
func TestPodIsScheduledBoundAndAllocated(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	ns := newNamespace(t, client)
	k, plugin := startNode(t, client, 8)
	registerGPUs(t, client, k.NodeName(), mi300x("gpu-a"), mi300x("gpu-b"))
	s, err := scheduler.New(client, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}

	wish := slicePod(ns, "train-0", 1, 25, 16384)
	wish.Annotations = map[string]string{annotations.ToAllocateKey: "forged"}
	pod, err := s.Schedule(ctx, wish)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"node": pod.Spec.NodeName, "label": pod.Labels[annotations.VGPUNodeKey]}
	for _, key := range []string{annotations.ToAllocateKey, annotations.AllocatedKey, annotations.VGPUNodeKey, annotations.BindPhaseKey} {
		got[key] = pod.Annotations[key]
	}
	const grant = "gpu-b,AMD Instinct MI300X,16384,76:;"
	want := map[string]string{
		"node": k.NodeName(), "label": k.NodeName(),
		annotations.ToAllocateKey: grant, annotations.AllocatedKey: grant,
		annotations.VGPUNodeKey: k.NodeName(), annotations.BindPhaseKey: "allocating",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bound pod (-want +got):\n%s", diff)
	}
	if lock := nodeLock(t, client, k.NodeName()); !lock.OwnedBy(ns, "train-0") {
		t.Errorf("node lock is %v, want one of train-0", lock)
	}

	if err := k.Admit(ctx, pod); err != nil {
		t.Fatal(err)
	}
	settings, err := k.Run(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	if devices := settings["app"].Env["STANDIN_DEVICES"]; devices != "gpu7" || len(plugin.calls()) != 1 {
		t.Errorf("the container got %q in %d calls, want gpu7 in one", devices, len(plugin.calls()))
	}

	_, err = s.Schedule(ctx, slicePod(ns, "wide", 3, 25, 16384))
	if !errors.Is(err, scheduler.ErrUnfit) {
		t.Errorf("three GPUs on a node with two: %v, want ErrUnfit", err)
	}
	if _, err := s.Schedule(ctx, slicePod(ns, "wrong", 1, 101, 16384)); err == nil {
		t.Error("101 % of the CUs was admitted")
	}
}

func TestNodeLockHasOneOwner(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	ns := newNamespace(t, client)
	k, _ := startNode(t, client, 8)
	registerGPUs(t, client, k.NodeName(), mi300x("gpu-a"), mi300x("gpu-b"))
	s, err := scheduler.New(client, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Four pods want the lock at the same time; nobody serves them.
	names := []string{"lock-0", "lock-1", "lock-2", "lock-3"}
	pods := make([]*corev1.Pod, len(names))
	errs := make([]error, len(names))
	for i, name := range names {
		pod, err := s.Create(ctx, slicePod(ns, name, 1, 25, 16384))
		if err != nil {
			t.Fatal(err)
		}
		decision, err := s.Filter(ctx, pod)
		if err != nil {
			t.Fatal(err)
		}
		pods[i] = decision.Pod
	}
	var all sync.WaitGroup
	for i, pod := range pods {
		all.Go(func() { _, errs[i] = s.Bind(ctx, pod, k.NodeName()) })
	}
	all.Wait()
	owner := -1
	for i, err := range errs {
		switch {
		case err == nil && owner < 0:
			owner = i
		case err == nil:
			t.Errorf("%s and %s both have the lock", names[owner], names[i])
		case !errors.Is(err, scheduler.ErrLocked):
			t.Errorf("%s: %v, want ErrLocked", names[i], err)
		}
	}
	if owner < 0 {
		t.Fatal("nobody got the lock")
	}
	other := (owner + 1) % len(pods)

	if err := s.TakeLock(ctx, k.NodeName(), pods[owner]); err != nil {
		t.Errorf("the owner takes its lock again: %v", err)
	}
	if err := s.ReleaseLock(ctx, k.NodeName(), pods[other]); err != nil {
		t.Errorf("release by another pod: %v, want none", err)
	}
	if lock := nodeLock(t, client, k.NodeName()); !lock.OwnedBy(ns, names[owner]) {
		t.Errorf("lock after a release by another pod is %v", lock)
	}
	// Schedule waits for the lock, and takes it over once its owner is gone.
	p, err := proxy.Start(control.Admin())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	waiting, err := scheduler.New(newClient(t, p.Access(control.Admin())), scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		pod *corev1.Pod
		err error
	}
	scheduled := make(chan result, 1)
	go func() {
		pod, err := waiting.Schedule(ctx, slicePod(ns, "lock-4", 1, 25, 16384))
		scheduled <- result{pod, err}
	}()
	eventually(t, "look at the lock's owner", func() error {
		for _, call := range p.Calls() {
			if call.Path == "/api/v1/namespaces/"+ns+"/pods/"+names[owner] {
				return nil
			}
		}
		return errors.New("not seen")
	})
	if err := k.Delete(ctx, pods[owner]); err != nil {
		t.Fatal(err)
	}
	got := <-scheduled
	if got.err != nil {
		t.Fatal(got.err)
	}
	if lock := nodeLock(t, client, k.NodeName()); got.pod.Spec.NodeName != k.NodeName() || !lock.OwnedBy(ns, "lock-4") {
		t.Errorf("after the owner was deleted lock-4 is on node %q and the lock is %v", got.pod.Spec.NodeName, lock)
	}
	if err := s.ReleaseLock(ctx, k.NodeName(), got.pod); err != nil {
		t.Fatal(err)
	}
	if lock := nodeLock(t, client, k.NodeName()); !lock.Time.IsZero() {
		t.Errorf("lock after its release is %v, want none", lock)
	}
}

// nodeLock returns the node's lock, zero if there is none.
func nodeLock(t *testing.T, client kubernetes.Interface, name string) annotations.NodeLock {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	value, ok := node.Annotations[annotations.NodeLockKey]
	if !ok {
		return annotations.NodeLock{}
	}
	lock, err := annotations.ParseNodeLock(value)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}
