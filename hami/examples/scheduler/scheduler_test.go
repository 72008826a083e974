//go:build cgo

package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/scheduler"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/config"
	"github.com/Project-HAMi/HAMi/pkg/util/client"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// running is HAMi's scheduler with this backend in place of its own, on a fake
// API server: one for all tests, because HAMi's parts read unguarded variables
// until some time after they are stopped.
var running = sync.OnceValues(func() (*cluster, error) {
	clients := hamitest.GuardVersions(fake.NewClientset())
	// A fake API server does nothing about bindings.
	clients.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		object, err := clients.Tracker().Get(pods, "default", binding.Name) // HAMi's binding names no namespace
		if err != nil {
			return true, nil, err
		}
		pod := object.(*corev1.Pod).DeepCopy()
		pod.Spec.NodeName = binding.Target.Name
		return true, binding, clients.Tracker().Update(pods, pod, pod.Namespace)
	})
	client.KubeClient = clients
	config.InitDefaultDevices()
	backend, err := hami.New(hami.Config{})
	if err != nil {
		return nil, err
	}
	device.DevicesMap[hami.CommonWord] = backend
	s := scheduler.NewScheduler()
	go s.RegisterFromNodeAnnotations()
	return &cluster{Scheduler: s, clients: clients}, s.Start()
})

type cluster struct {
	*testing.T
	*scheduler.Scheduler
	clients *fake.Clientset
}

// newCluster adds nodes to the running cluster, which are the test's own.
func newCluster(t *testing.T, nodes ...*corev1.Node) *cluster {
	t.Helper()
	shared, err := running()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, Scheduler: shared.Scheduler, clients: shared.clients}
	for _, node := range nodes {
		if _, err := c.clients.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		c.eventually("node "+node.Name+" is registered", func() bool { return c.registered(node.Name) })
		t.Cleanup(func() {
			if err := c.clients.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			c.eventually("node "+node.Name+" is forgotten", func() bool { return !c.registered(node.Name) })
		})
	}
	return c
}

func (c *cluster) registered(node string) bool {
	_, ok := (*c.InspectAllNodesUsage())[node]
	return ok
}

func (c *cluster) eventually(what string, done func() bool) {
	c.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Fatalf("waited 30 s until %s", what)
}

// filter creates the pod and asks the scheduler for a node, "" if it refuses.
func (c *cluster) filter(pod *corev1.Pod, nodes ...string) (node string, failed map[string]string) {
	c.Helper()
	created, err := c.clients.CoreV1().Pods(pod.Namespace).Create(c.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if err := c.clients.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
		c.eventually("pod "+pod.Name+" is forgotten", func() bool {
			_, ok := c.GetPodManager().GetPod(pod)
			return !ok
		})
	})
	result, err := c.Filter(extenderv1.ExtenderArgs{Pod: created, NodeNames: &nodes})
	if err != nil {
		c.Fatal(err)
	}
	if result.NodeNames == nil || len(*result.NodeNames) == 0 {
		return "", result.FailedNodes
	}
	if len(*result.NodeNames) > 1 {
		c.Fatalf("pod %q passed to %v as if it asked for nothing", pod.Name, *result.NodeNames)
	}
	return (*result.NodeNames)[0], nil
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.Helper()
	pod, err := c.clients.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return pod
}

// inUse is what HAMi counts on the node's devices in use: shares, MiB and CUs.
func (c *cluster) inUse(node string) map[string][3]int32 {
	used := map[string][3]int32{}
	for _, info := range c.GetPodManager().ListPodsInfo() {
		if info.NodeID != node {
			continue
		}
		for _, d := range info.Devices[hami.CommonWord] {
			for _, dev := range d {
				u := used[dev.UUID]
				used[dev.UUID] = [3]int32{u[0] + max(dev.Slots, 1), u[1] + dev.Usedmem, u[2] + dev.Usedcores}
			}
		}
	}
	return used
}

func (c *cluster) bind(name, node string) string {
	c.Helper()
	args := extenderv1.ExtenderBindingArgs{PodName: name, PodNamespace: "default", PodUID: c.pod(name).UID, Node: node}
	var result *extenderv1.ExtenderBindingResult
	c.eventually("the scheduler knows pod "+name, func() (ok bool) {
		var err error
		result, err = c.Bind(args)
		return err == nil
	})
	return result.Error
}

// Init containers come first in the list, and each entry is its container's,
// though HAMi leaves out the entries of those that ask for nothing.
func TestC06SchedulerKeepsContainersApart(t *testing.T) {
	const entry = "GPU-0,AMD Instinct MI300X,16384,76:"
	for name, test := range map[string]struct {
		pod    *corev1.Pod // also the name of its node
		value  string
		during map[string][3]int32 // shares, MiB, CUs
		after  map[string][3]int32 // the init containers have ended
	}{
		"an app container behind others": {
			hamitest.Pod("c06-app", []corev1.Container{hamitest.Plain("prep")}, hamitest.Plain("side"), hamitest.Slice("train")), ";;" + entry + ";",
			map[string][3]int32{"GPU-0": {1, 16384, 76}}, map[string][3]int32{"GPU-0": {1, 16384, 76}},
		},
		"only an init container": {
			hamitest.Pod("c06-init", []corev1.Container{hamitest.Slice("prep")}, hamitest.Plain("side"), hamitest.Plain("train")), entry + ";;;",
			map[string][3]int32{"GPU-0": {1, 16384, 76}}, map[string][3]int32{},
		},
		"an init container without, two app containers on one GPU": {
			hamitest.Pod("c06-two", []corev1.Container{hamitest.Plain("prep")}, hamitest.Slice("a"), hamitest.Slice("b")), ";" + entry + ";" + entry + ";",
			map[string][3]int32{"GPU-0": {2, 32768, 152}}, map[string][3]int32{"GPU-0": {2, 32768, 152}},
		},
		"an init container and an app container take turns": {
			hamitest.Pod("c06-turns", []corev1.Container{hamitest.Container("prep", "1", "", "")}, hamitest.Plain("side"), hamitest.Slice("train")),
			"GPU-0,AMD Instinct MI300X,196288,304:;;" + entry + ";",
			map[string][3]int32{"GPU-0": {1, 196288, 304}}, map[string][3]int32{"GPU-0": {1, 16384, 76}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, hamitest.Node(t, test.pod.Name, hamitest.MI300X("GPU-")[:1]))
			if node, failed := c.filter(test.pod, test.pod.Name); node != test.pod.Name {
				t.Fatal(failed)
			}
			pod := c.pod(test.pod.Name)
			for _, key := range []string{annotations.AllocatedKey, annotations.ToAllocateKey} {
				if pod.Annotations[key] != test.value {
					t.Errorf("%s %q, want %q", key, pod.Annotations[key], test.value)
				}
			}
			grants, err := annotations.DecodePod(pod.Annotations[annotations.AllocatedKey])
			if containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers); err != nil || len(grants) != containers {
				t.Errorf("%d entries, %v, want %d", len(grants), err, containers)
			}
			if diff := cmp.Diff(test.during, c.inUse(pod.Name)); diff != "" {
				t.Errorf("in use (-want +got):\n%s", diff)
			}
			for range pod.Spec.InitContainers {
				pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
					State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
				})
			}
			pod.Labels = map[string]string{"seen": "yes"}
			if _, err := c.clients.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			c.eventually("the scheduler saw the init containers end", func() bool {
				info, ok := c.GetPodManager().GetPod(pod)
				return ok && info.Labels["seen"] == "yes" && info.InitContainerResourceReleased
			})
			if diff := cmp.Diff(test.after, c.inUse(pod.Name)); diff != "" {
				t.Errorf("in use after the init containers (-want +got):\n%s", diff)
			}
		})
	}
}

// The node score comes before HAMi's own, which under spread would take the idle
// node.
func TestSchedulerHearsTheScore(t *testing.T) {
	for _, policy := range []string{"binpack", "spread"} {
		t.Run(policy, func(t *testing.T) {
			idle, broken := policy+"-idle", policy+"-broken"
			c := newCluster(t, hamitest.Node(t, idle, hamitest.MI300X("A-")), hamitest.Node(t, broken, hamitest.MI300X("B-")))
			first := hamitest.Annotated(hamitest.Pod(policy+"-first", nil, hamitest.Slice("main")), annotations.UseUUIDKey, "B-0")
			if node, failed := c.filter(first, broken); node != broken {
				t.Fatal(failed)
			}
			pod := hamitest.Annotated(hamitest.Pod(policy+"-second", nil, hamitest.Slice("main")), annotations.NodeSchedulerPolicyKey, policy)
			if node, failed := c.filter(pod, idle, broken); node != broken {
				t.Errorf("node %q, %v, want the one whose XGMI hive is broken already", node, failed)
			}
		})
	}
}

// Two pods for one node: the second waits until the first is served.
func TestC48SchedulerBindsOnePodAtATime(t *testing.T) {
	c := newCluster(t, hamitest.Node(t, "c48", hamitest.MI300X("c48-")))
	for _, name := range []string{"first", "second"} {
		if node, failed := c.filter(hamitest.Pod(name, []corev1.Container{hamitest.Slice("prep")}, hamitest.Plain("main")), "c48"); node != "c48" {
			t.Fatal(failed)
		}
	}
	if fault := c.bind("first", "c48"); fault != "" {
		t.Fatal(fault)
	}
	node := hamitest.GetNode(t, c.clients, "c48")
	if lock, err := annotations.ParseNodeLock(node.Annotations[annotations.NodeLockKey]); err != nil || !lock.OwnedBy("default", "first") {
		t.Fatalf("lock %v, %v", lock, err)
	}
	// However old the lock is.
	lock := annotations.NodeLock{Time: time.Now().Add(-time.Hour), Namespace: "default", Name: "first"}.String()
	node = node.DeepCopy()
	node.Annotations[annotations.NodeLockKey] = lock
	if err := hamitest.WriteNode(c.clients, node); err != nil {
		t.Fatal(err)
	}
	if fault := c.bind("second", "c48"); !strings.Contains(fault, "node lock contention") {
		t.Errorf("%q, want contention", fault)
	}
	if got := hamitest.GetNode(t, c.clients, "c48").Annotations[annotations.NodeLockKey]; got != lock {
		t.Errorf("lock %q, want the first pod's unchanged", got)
	}
	// The device plugin serves the first pod, and dies before it releases the lock.
	pod := c.pod("first")
	pod.Annotations[annotations.ToAllocateKey] = ";;"
	if _, err := c.clients.CoreV1().Pods("default").Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if fault := c.bind("second", "c48"); fault != "" {
		t.Error(fault)
	}
	if phase := c.pod("second").Annotations[annotations.BindPhaseKey]; phase != string(annotations.BindAllocating) {
		t.Errorf("bind phase %q", phase)
	}
	if node := c.pod("second").Spec.NodeName; node != "c48" {
		t.Errorf("the second pod is bound to %q", node)
	}
}
