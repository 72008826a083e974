package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

// startCalls is how many calls a start makes where there is everything to do.
const startCalls = 11

// TestFaultAtStart breaks each call that the plugin makes when it starts on a
// node that somebody has left in a mess: without the register annotation and
// the capacity of memory and CUs, with the lock of a pod that is gone and with
// edited annotations on a pod that runs. All of that is put right in the end.
// It tries one fault with each call, and all of them with -crash.random 100.
func TestFaultAtStart(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-report_node_capacity=true"}})
	running := n.MustPlace(n.Pod("running", node.Slice("app", 1, 25, 16384)))
	n.Eventually("the node has its capacity", func() error { return capacity(n) })
	notes := n.Notes(running.Pod)
	registered := n.Object().Annotations[annotations.NodeRegisterKey]
	faults := []struct {
		name  string
		fault proxy.Fault
		kill  bool
	}{
		{name: "answer lost", fault: proxy.Fault{CutAnswer: true}},
		{name: "killed", fault: proxy.Fault{CutAnswer: true}, kill: true},
		{name: "internal error", fault: proxy.Fault{Refuse: http.StatusInternalServerError}},
		{name: "killed before", fault: proxy.Fault{CutRequest: true}, kill: true},
		{name: "request lost", fault: proxy.Fault{CutRequest: true}},
	}
	for number := 1; number <= startCalls; number++ {
		for k, f := range faults {
			if *randomKills < 100 && k != number%len(faults) {
				continue
			}
			run(t, n, fmt.Sprintf("%s/call %d", f.name, number), func(t *testing.T) {
				n.KillPlugin()
				mess(n, running)
				broken := make(chan struct{})
				fault := f.fault
				switch {
				case f.kill && fault.CutRequest:
					fault.Before = n.KillPlugin
				case f.kill:
					fault.After = n.KillPlugin
				}
				n.Proxy.Reset()
				n.Proxy.Intercept(func(c proxy.Call) proxy.Fault {
					if c.Number != number {
						return proxy.Fault{}
					}
					close(broken)
					return fault
				})
				n.LaunchPlugin()
				select {
				case <-broken:
				case <-time.After(10 * time.Second):
					t.Errorf("the plugin makes fewer than %d calls", number)
				}
				if f.kill {
					<-n.Plugin.Done()
					n.LaunchPlugin()
				}
				n.Eventually("the mess is put right", func() error {
					now := n.Object().Annotations
					if now[annotations.NodeRegisterKey] != registered || now[annotations.NodeLockKey] != "" {
						return fmt.Errorf("register annotation %.60q..., lock %q", now[annotations.NodeRegisterKey], now[annotations.NodeLockKey])
					}
					if found := n.Notes(running.Pod); found[annotations.CUAllocatedKey] != notes[annotations.CUAllocatedKey] {
						return fmt.Errorf("the running pod's annotations are %v", found)
					}
					return capacity(n)
				})
				n.Proxy.Intercept(nil)
				n.WaitReady()
				n.CheckPlaced(n.Place(n.Pod(fmt.Sprintf("p-%d-%d", number, k), node.Slice("app", 1, 5, 1024))))
			})
		}
	}
}

// capacity returns an error unless the node has the capacity of memory and CUs.
func capacity(n *node.Node) error {
	n.Helper()
	status := n.Object().Status
	for _, list := range []corev1.ResourceList{status.Capacity, status.Allocatable} {
		for _, name := range []corev1.ResourceName{"amd.com/gpumem", "amd.com/gpucores"} {
			if _, there := list[name]; !there {
				return fmt.Errorf("the node has no %s", name)
			}
		}
	}
	return nil
}

// mess does to a node what the plugin has to put right.
func mess(n *node.Node, running *node.Served) {
	n.Helper()
	lock := annotations.NodeLock{Time: time.Now(), Namespace: n.Namespace, Name: "gone"}.String()
	n.Annotate(map[string]*string{annotations.NodeRegisterKey: nil, annotations.NodeLockKey: &lock})
	ctx, cancel := n.Timeout()
	defer cancel()
	pod, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotations.CUAllocatedKey: "{}"}}})
	if err != nil {
		n.Fatal(err)
	}
	_, err = n.Lab.Client.CoreV1().Pods(n.Namespace).Patch(ctx, running.Pod.Name, types.MergePatchType, pod, metav1.PatchOptions{})
	if err != nil {
		n.Fatal(err)
	}
	none := map[string]any{"amd.com/gpumem": nil, "amd.com/gpucores": nil}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": none, "allocatable": none}})
	if err != nil {
		n.Fatal(err)
	}
	if _, err := n.Lab.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		n.Fatal(err)
	}
}
