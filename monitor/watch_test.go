package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// granted is a pod on a node with all that a watch must and must not keep.
func granted(name, node string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	resources := corev1.ResourceRequirements{Limits: corev1.ResourceList{"amd.com/gpu": resource.MustParse("1")}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "1", Labels: map[string]string{"l": "x"},
			Annotations:   map[string]string{annotations.AllocatedKey: "d,AMD X,1,8:;", annotations.CUAllocatedKey: `{"d":"0-7"}`, "other": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			NodeName:       node,
			InitContainers: []corev1.Container{{Name: "i", Image: "image", RestartPolicy: &always, Resources: resources}},
			Containers:     []corev1.Container{{Name: "c", Image: "image", Env: []corev1.EnvVar{{Name: "E", Value: "secret"}}, Resources: resources}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, Message: "m",
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", ContainerID: "containerd://1", Image: "image",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
}

func watchedNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, Labels: map[string]string{"l": "x"}, Annotations: map[string]string{annotations.NodeRegisterKey: "[]", "other": "x"},
	}}
}

// startWatch runs a watch for the rest of the test.
func startWatch(t *testing.T, client *fake.Clientset, o WatchOptions) *Watch {
	t.Helper()
	w := NewWatch(client, nodeName, o)
	if _, err := w.Pods(); !errors.Is(err, ErrNotListed) {
		t.Errorf("pods before it runs: %v", err)
	}
	if _, err := w.Node(); !errors.Is(err, ErrNotListed) {
		t.Errorf("node before it runs: %v", err)
	}
	if err := w.Ready(); !errors.Is(err, ErrNotListed) {
		t.Errorf("ready before it runs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// eventually waits for what a watch takes a moment to see.
func eventually(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for range 1000 {
		if seen() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("never seen: " + what)
}

func names(t *testing.T, w *Watch) string {
	t.Helper()
	pods, err := w.Pods()
	if err != nil {
		return "error: " + err.Error()
	}
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return strings.Join(sorted(strings.Join(list, "\n")), "")
}

func TestWatch(t *testing.T) {
	plain := granted("plain", nodeName)
	delete(plain.Annotations, annotations.AllocatedKey)
	client := fake.NewClientset(granted("a", nodeName), granted("elsewhere", "other"), plain, watchedNode())
	w := startWatch(t, client, WatchOptions{})
	eventually(t, "the first list", func() bool { return w.Ready() == nil })
	if got := names(t, w); got != "a" {
		t.Errorf("pods %q, want a", got)
	}

	pods, _ := w.Pods()
	want := granted("a", nodeName)
	want.Labels, want.ManagedFields, want.Status.Message = nil, nil, ""
	delete(want.Annotations, "other")
	want.Spec.InitContainers[0].Image, want.Spec.Containers[0].Image, want.Spec.Containers[0].Env = "", "", nil
	want.Status.ContainerStatuses[0].Image = ""
	want.Status.InitContainerStatuses = []corev1.ContainerStatus{}
	if diff := cmp.Diff(want, pods[0]); diff != "" {
		t.Errorf("what is kept of a pod (-want +got):\n%s", diff)
	}
	node, err := w.Node()
	wantNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Annotations: map[string]string{annotations.NodeRegisterKey: "[]"}}}
	if diff := cmp.Diff(wantNode, node); err != nil || diff != "" {
		t.Errorf("what is kept of the node (-want +got): %v\n%s", err, diff)
	}

	ctx, core := t.Context(), client.CoreV1()
	if _, err := core.Pods("ns").Create(ctx, granted("b", nodeName), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new pod", func() bool { return names(t, w) == "a\nb" })
	// The scheduler's annotation comes after the pod.
	if _, err := core.Pods("ns").Update(ctx, granted("plain", nodeName), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod that was granted GPUs", func() bool { return names(t, w) == "a\nb\nplain" })
	if _, err := core.Pods("ns").Update(ctx, plain, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := core.Pods("ns").Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods that hold nothing any more", func() bool { return names(t, w) == "b" })

	changed := watchedNode()
	changed.Annotations[annotations.NodeRegisterKey] = "null"
	if _, err := core.Nodes().Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another registration", func() bool {
		n, err := w.Node()
		return err == nil && n.Annotations[annotations.NodeRegisterKey] == "null"
	})
	if err := core.Nodes().Delete(ctx, nodeName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node's end", func() bool {
		n, err := w.Node()
		return n == nil && err != nil && strings.Contains(err.Error(), "there is none")
	})
}

// Only this node's objects are asked for.
func TestWatchSelects(t *testing.T) {
	client := fake.NewClientset(watchedNode())
	w := startWatch(t, client, WatchOptions{})
	eventually(t, "the first list", func() bool { return w.Ready() == nil })
	eventually(t, "two watches", func() bool {
		n := 0
		for _, a := range client.Actions() {
			if a.GetVerb() == "watch" {
				n++
			}
		}
		return n >= 2
	})
	want := map[string]string{"pods": "spec.nodeName=" + nodeName, "nodes": "metadata.name=" + nodeName}
	for _, a := range client.Actions() {
		var selector string
		switch a := a.(type) {
		case clienttesting.ListAction:
			selector = a.GetListRestrictions().Fields.String()
		case clienttesting.WatchAction:
			selector = a.GetWatchRestrictions().Fields.String()
		default:
			t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
		}
		if selector != want[a.GetResource().Resource] {
			t.Errorf("%s %s: selector %q", a.GetVerb(), a.GetResource().Resource, selector)
		}
	}
}

// The API server refuses, comes back, and fails again with a watch running.
func TestWatchThroughFailures(t *testing.T) {
	client := fake.NewClientset(granted("a", nodeName), watchedNode())
	var failing atomic.Bool
	failing.Store(true)
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing.Load(), nil, apierrors.NewServiceUnavailable("no api server")
	}
	client.PrependReactor("list", "*", refuse)
	w := startWatch(t, client, WatchOptions{Resync: 2 * time.Second})
	eventually(t, "the failure", func() bool {
		err := w.Ready()
		return errors.Is(err, ErrNotListed) && strings.Contains(fmt.Sprint(err), "no api server")
	})
	failing.Store(false)
	eventually(t, "its end", func() bool { return w.Ready() == nil && names(t, w) == "a" })

	failing.Store(true) // the next resync lists
	eventually(t, "that the pods may be old", func() bool {
		pods, err := w.Pods()
		return len(pods) == 1 && err != nil && strings.Contains(err.Error(), "no api server")
	})
	if err := w.Ready(); err != nil {
		t.Errorf("not ready any more: %v", err)
	}
	failing.Store(false)
	eventually(t, "its end", func() bool { return names(t, w) == "a" })
}

func TestStoreRefusesOtherObjects(t *testing.T) {
	w := NewWatch(fake.NewClientset(), nodeName, WatchOptions{})
	for name, err := range map[string]error{
		"add": w.pods.Add(watchedNode()), "update": w.pods.Update(watchedNode()), "delete": w.pods.Delete(watchedNode()),
		"replace": w.pods.Replace([]any{watchedNode()}, ""),
	} {
		if err == nil || !strings.Contains(err.Error(), "unexpected *v1.Node") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
