package hami_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/Project-HAMi/HAMi/pkg/util/nodelock"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

const fresh, old = -time.Minute, -time.Hour

// lockOf is a lock taken that long from now.
func lockOf(age time.Duration, name string) string {
	lock := annotations.NodeLock{Time: time.Now().Add(age), Namespace: "default", Name: name}
	if name == "" {
		lock.Namespace = ""
	}
	return lock.String()
}

// holder is the pod q that holds a lock.
func holder(phase corev1.PodPhase, toAllocate, node string) *corev1.Pod {
	pod := hamitest.Pod("q", nil, hamitest.Slice("main"))
	pod.Status.Phase, pod.Spec.NodeName = phase, node
	pod.Annotations[annotations.ToAllocateKey] = toAllocate
	return pod
}

const owed, served = "GPU-a,AMD,1,1:;", ";"

func TestC49LockNode(t *testing.T) {
	const (
		taken = iota
		kept
		contention
		failed
	)
	for name, test := range map[string]struct {
		lock  string // "" for none
		owner *corev1.Pod
		fault error // of a look at the owner
		want  int
	}{
		"no lock":                       {want: taken},
		"the pod's own":                 {lock: lockOf(fresh, "p"), want: kept},
		"the pod's own, old":            {lock: lockOf(old, "p"), want: kept},
		"a live owner that waits":       {lock: lockOf(fresh, "q"), owner: holder(corev1.PodPending, owed, "node"), want: contention},
		"a live owner that waits, old":  {lock: lockOf(old, "q"), owner: holder(corev1.PodPending, owed, "node"), want: contention},
		"an owner about to be bound":    {lock: lockOf(old, "q"), owner: holder(corev1.PodPending, owed, ""), want: contention},
		"a served owner":                {lock: lockOf(fresh, "q"), owner: holder(corev1.PodPending, served, "node"), want: contention},
		"a served owner, old":           {lock: lockOf(old, "q"), owner: holder(corev1.PodRunning, served, "node"), want: taken},
		"an owner bound elsewhere":      {lock: lockOf(fresh, "q"), owner: holder(corev1.PodPending, owed, "other"), want: contention},
		"an owner bound elsewhere, old": {lock: lockOf(old, "q"), owner: holder(corev1.PodPending, owed, "other"), want: taken},
		"an owner that succeeded":       {lock: lockOf(fresh, "q"), owner: holder(corev1.PodSucceeded, owed, "node"), want: taken},
		"an owner that failed":          {lock: lockOf(fresh, "q"), owner: holder(corev1.PodFailed, owed, "node"), want: taken},
		"an owner that is gone":         {lock: lockOf(fresh, "q"), want: taken},
		"an owner nobody can look at":   {lock: lockOf(old, "q"), fault: errors.New("connection refused"), want: failed},
		"no owner":                      {lock: lockOf(fresh, ""), want: contention},
		"no owner, old":                 {lock: lockOf(old, ""), want: taken},
		"a namespace alone":             {lock: "2026-08-21T08:20:39Z,default", want: failed},
		"only commas":                   {lock: ",,", want: failed},
		"a time alone that is none":     {lock: "yesterday", want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
			if test.lock != "" {
				node.Annotations[annotations.NodeLockKey] = test.lock
			}
			clients := hamitest.SetClient(t, fake.NewClientset(node))
			if test.owner != nil {
				if err := clients.Tracker().Add(test.owner); err != nil {
					t.Fatal(err)
				}
			}
			if test.fault != nil {
				clients.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.fault })
			}
			pod := hamitest.Pod("p", nil, hamitest.Slice("main"))
			informers, podBefore := node.DeepCopy(), pod.DeepCopy()

			err := newBackend(t, hami.Config{}).LockNode(informers, pod)

			lock, after := annotations.NodeLock{}, hamitest.GetNode(t, clients, "node").Annotations[annotations.NodeLockKey]
			if test.want == taken {
				if lock, err = annotations.ParseNodeLock(after); err != nil {
					t.Fatal(err)
				}
			}
			switch {
			case (err != nil) != (test.want == contention || test.want == failed):
				t.Errorf("error %v", err)
			case nodelock.IsNodeLockContention(err) != (test.want == contention):
				t.Errorf("contention: %v", err)
			case err != nil && !strings.Contains(err.Error(), `node "node"`):
				t.Errorf("%v: want the node named", err)
			case test.want == taken && (!lock.OwnedBy("default", "p") || time.Since(lock.Time) > time.Minute):
				t.Errorf("lock %q, want the pod's own", after)
			case test.want != taken && after != test.lock:
				t.Errorf("lock %q, want %q unchanged", after, test.lock)
			}
			if diff := cmp.Diff(node, informers); diff != "" {
				t.Errorf("the informers' node was changed:\n%s", diff)
			}
			if diff := cmp.Diff(podBefore, pod); diff != "" {
				t.Errorf("the informers' pod was changed:\n%s", diff)
			}
		})
	}
}

func TestC49ReleaseNodeLock(t *testing.T) {
	for name, test := range map[string]struct {
		lock     string
		released bool
		failed   bool
	}{
		"no lock":       {"", true, false},
		"the pod's own": {lockOf(fresh, "p"), true, false},
		"no owner":      {lockOf(fresh, ""), true, false},
		"another pod's": {lockOf(old, "q"), false, false},
		"malformed":     {"2026-08-21T08:20:39Z,default", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
			if test.lock != "" {
				node.Annotations[annotations.NodeLockKey] = test.lock
			}
			clients := hamitest.SetClient(t, fake.NewClientset(node))
			err := newBackend(t, hami.Config{}).ReleaseNodeLock(node.DeepCopy(), hamitest.Pod("p", nil, hamitest.Slice("main")))
			if (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			after, locked := hamitest.GetNode(t, clients, "node").Annotations[annotations.NodeLockKey]
			if locked == test.released || locked && after != test.lock {
				t.Errorf("lock %q, want released %v", after, test.released)
			}
		})
	}
}

// Init containers need the lock as well, and pods without AMD GPUs do not.
func TestLocksAreOfPodsThatAsk(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"an app container":       {hamitest.Pod("p", nil, hamitest.Plain("side"), hamitest.Slice("main")), true},
		"only an init container": {hamitest.Pod("p", []corev1.Container{hamitest.Plain("i"), hamitest.Slice("j")}, hamitest.Plain("main")), true},
		"no GPU":                 {hamitest.Pod("p", []corev1.Container{hamitest.Plain("i")}, hamitest.Container("main", "0", "", "")), false},
	} {
		t.Run(name, func(t *testing.T) {
			node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
			clients := hamitest.SetClient(t, fake.NewClientset(node))
			d := newBackend(t, hami.Config{})
			if err := d.LockNode(node, test.pod); err != nil {
				t.Fatal(err)
			}
			if _, locked := hamitest.GetNode(t, clients, "node").Annotations[annotations.NodeLockKey]; locked != test.want {
				t.Errorf("locked %v, want %v", locked, test.want)
			}
			if err := d.ReleaseNodeLock(node, test.pod); err != nil {
				t.Fatal(err)
			}
			if len(clients.Actions()) > 0 != test.want {
				t.Errorf("%d calls to the API server", len(clients.Actions()))
			}
			if _, locked := hamitest.GetNode(t, clients, "node").Annotations[annotations.NodeLockKey]; locked {
				t.Error("still locked")
			}
		})
	}
}

// between runs once, between the first read of the node and the write.
func between(clients *fake.Clientset, do func(node *corev1.Node)) {
	done := false
	clients.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if done {
			return false, nil, nil
		}
		done = true
		object, err := clients.Tracker().Get(hamitest.Nodes, "", "node")
		if err == nil {
			node := object.(*corev1.Node).DeepCopy()
			do(node)
			err = hamitest.WriteNode(clients, node)
		}
		return err != nil, nil, err
	})
}

func TestLockNodeWhenTheNodeChangesMeanwhile(t *testing.T) {
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	clients := hamitest.SetClient(t, fake.NewClientset(node, holder(corev1.PodPending, owed, "node")))
	between(clients, func(n *corev1.Node) { n.Annotations[annotations.NodeLockKey] = lockOf(fresh, "q") })
	d := newBackend(t, hami.Config{})
	if err := d.LockNode(node, hamitest.Pod("p", nil, hamitest.Slice("main"))); !nodelock.IsNodeLockContention(err) {
		t.Errorf("%v when another pod was faster, want contention", err)
	}

	clients = hamitest.SetClient(t, fake.NewClientset(node))
	between(clients, func(n *corev1.Node) { n.Labels = map[string]string{"heartbeat": "1"} })
	if err := d.LockNode(node, hamitest.Pod("p", nil, hamitest.Slice("main"))); err != nil {
		t.Errorf("%v when the node changed in another way, want a second try", err)
	}
	after := hamitest.GetNode(t, clients, "node")
	if lock, err := annotations.ParseNodeLock(after.Annotations[annotations.NodeLockKey]); err != nil || !lock.OwnedBy("default", "p") || after.Labels["heartbeat"] != "1" {
		t.Errorf("%v, %v, %v", lock, err, after.Labels)
	}
}

// A release that comes late does not unlock whoever came next.
func TestReleaseNodeLockWhenTheLockMovesOn(t *testing.T) {
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	node.Annotations[annotations.NodeLockKey] = lockOf(old, "p")
	clients := hamitest.SetClient(t, fake.NewClientset(node))
	next := lockOf(fresh, "q")
	between(clients, func(n *corev1.Node) { n.Annotations[annotations.NodeLockKey] = next })
	if err := newBackend(t, hami.Config{}).ReleaseNodeLock(node, hamitest.Pod("p", nil, hamitest.Slice("main"))); err != nil {
		t.Fatal(err)
	}
	if after := hamitest.GetNode(t, clients, "node").Annotations[annotations.NodeLockKey]; after != next {
		t.Errorf("lock %q, want %q", after, next)
	}
}

func TestLocksUponFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the tries wait for one another
		node, pod := hamitest.Node(t, "node", hamitest.MI300X("GPU-")), hamitest.Pod("p", nil, hamitest.Slice("main"))
		d := newBackend(t, hami.Config{})
		faults := 0
		flaky := func(n int) *fake.Clientset {
			clients := hamitest.SetClient(t, fake.NewClientset(node))
			faults = 0
			clients.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				if faults++; faults > n {
					return false, nil, nil
				}
				return true, nil, apierrors.NewServerTimeout(hamitest.Nodes.GroupResource(), "get", 1)
			})
			return clients
		}
		flaky(2)
		if err := d.LockNode(node, pod); err != nil || faults != 3 {
			t.Errorf("%v after %d tries, want the third to do", err, faults)
		}
		flaky(1000)
		if err := d.LockNode(node, pod); !apierrors.IsServerTimeout(err) || nodelock.IsNodeLockContention(err) {
			t.Errorf("%v, want the API server's error", err)
		}
		clients := hamitest.SetClient(t, fake.NewClientset())
		if err := d.LockNode(node, pod); !apierrors.IsNotFound(err) {
			t.Errorf("%v for a node that is gone", err)
		}
		if n := len(clients.Actions()); n != 1 {
			t.Errorf("%d calls for a node that is gone, want 1", n)
		}
		if err := d.ReleaseNodeLock(node, pod); err != nil {
			t.Errorf("%v: a node that is gone has no lock to release", err)
		}
	})
}

// One pod after the other gets the lock, however many try at once.
func TestLockNodeConcurrently(t *testing.T) {
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	clients := hamitest.SetClient(t, fake.NewClientset(node))
	d := newBackend(t, hami.Config{})
	const pods = 8
	errs := make(chan error, pods)
	for i := range pods {
		pod := hamitest.Pod(string(rune('a'+i)), nil, hamitest.Slice("main"))
		pod.Annotations[annotations.ToAllocateKey] = owed
		if _, err := clients.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		go func() { errs <- d.LockNode(node, pod) }()
	}
	winners := 0
	for range pods {
		switch err := <-errs; {
		case err == nil:
			winners++
		case !nodelock.IsNodeLockContention(err):
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d pods have the lock, want 1", winners)
	}
}
