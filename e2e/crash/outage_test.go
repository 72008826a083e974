package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

// TestAPIServerStops stops the API server in the middle of an admission and
// starts it again.
func TestAPIServerStops(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("older", node.Slice("app", 1, 25, 16384)))
	shape := shapes(n)["two slices of one GPU"]
	for i, p := range []point{{kind: listPods, number: 1}, {kind: patchPod, number: 1}, {kind: patchPod, number: 2, after: true}, {kind: patchNode, number: 1}} {
		run(t, n, p.String(), func(t *testing.T) {
			pod := n.Bind(shape(fmt.Sprintf("p-%d", i)))
			back := make(chan error, 1)
			intercept, hit := at(p, func() {
				lab.Cluster.StopAPIServer()
				go func() {
					time.Sleep(time.Second)
					back <- lab.Cluster.StartAPIServer(context.Background())
				}()
			})
			n.Proxy.Intercept(intercept)
			err := admit(n, pod)
			n.Proxy.Intercept(nil)
			if !hit() {
				t.Fatalf("the API server did not stop; the pod was admitted with error %v", err)
			}
			if err := <-back; err != nil {
				t.Fatal(err)
			}
			check(n, pod, err)
			n.Delete(pod)
		})
	}
}

// TestAPIServerHangs has the API server take calls and answer none. Kubelet
// admits no other pod until Allocate has answered and sets no deadline, so the
// plugin does: 20 s, and 5 s for the advice before it.
func TestAPIServerHangs(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("older", node.Slice("app", 1, 25, 16384)))
	for i, test := range []struct {
		point
		most time.Duration
	}{
		{point{kind: getNode, number: 1}, 25 * time.Second},
		{point{kind: patchPod, number: 1}, 20 * time.Second},
		{point{kind: patchNode, number: 1}, 20 * time.Second},
	} {
		run(t, n, test.String(), func(t *testing.T) {
			pod := n.Bind(n.Pod(fmt.Sprintf("p-%d", i), node.Slice("app", 1, 25, 16384)))
			logged := len(n.PluginLog())
			type freeze struct {
				since time.Time
				thaw  func() error
				err   error
			}
			frozen := make(chan freeze, 1)
			intercept, _ := once(test.point, proxy.Fault{Before: func() {
				thaw, err := lab.Cluster.FreezeAPIServer()
				frozen <- freeze{time.Now(), thaw, err}
			}})
			n.Proxy.Intercept(intercept)
			admitted := make(chan error, 1)
			go func() { admitted <- n.Kubelet.Admit(n.Context(), pod) }() // which then wants to write the pod's status
			n.Eventually("Allocate ends", func() error {
				text := n.PluginLog()[logged:]
				if !strings.Contains(text, "Allocate failed") && !strings.Contains(text, "Allocated") {
					return fmt.Errorf("it does not")
				}
				return nil
			})
			ended := time.Now()
			n.Proxy.Intercept(nil)
			var f freeze
			select {
			case f = <-frozen:
			default:
				t.Fatal("the API server was not frozen")
			}
			if f.err != nil {
				t.Fatal(f.err)
			}
			if err := f.thaw(); err != nil {
				t.Fatal(err)
			}
			took := ended.Sub(f.since)
			if took > test.most {
				t.Errorf("Allocate ended after %v, want at most %v", took, test.most)
			}
			err := <-admitted
			t.Logf("Allocate ended after %v with error %v", took.Round(time.Millisecond), err)
			check(n, pod, err)
			n.Delete(pod)
		})
	}
}
