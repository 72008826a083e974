package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

// TestFaultAtEachCall breaks each call that an admission makes once, in each way
// a call can break. The pod is served all the same.
func TestFaultAtEachCall(t *testing.T) {
	calls := []point{{kind: getNode, number: 1}, {kind: listPods, number: 1}, {kind: patchPod, number: 1},
		{kind: getNode, number: 2}, {kind: listPods, number: 2}, {kind: patchPod, number: 2}, {kind: patchNode, number: 1}}
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("older", node.Slice("app", 1, 25, 16384)))
	shape := shapes(n)["two slices of one GPU"]
	for i, f := range []struct {
		name  string
		fault proxy.Fault
	}{
		{"request lost", proxy.Fault{CutRequest: true}},
		{"answer lost", proxy.Fault{CutAnswer: true}},
		{"conflict", proxy.Fault{Refuse: http.StatusConflict}},
		{"too many requests", proxy.Fault{Refuse: http.StatusTooManyRequests}},
		{"internal error", proxy.Fault{Refuse: http.StatusInternalServerError}},
		{"unprocessable", proxy.Fault{Refuse: http.StatusUnprocessableEntity}},
		{"forbidden", proxy.Fault{Refuse: http.StatusForbidden}},
	} {
		for k, c := range calls {
			if f.fault.Refuse == http.StatusUnprocessableEntity && c.kind == patchNode {
				continue // says that the lock is another pod's, and the API server does not lie
			}
			run(t, n, fmt.Sprintf("%s/%s %d", f.name, c.kind, c.number), func(t *testing.T) {
				pod := n.Bind(shape(fmt.Sprintf("p-%d-%d", i, k)))
				intercept, hit := once(c, f.fault)
				n.Proxy.Intercept(intercept)
				err := admit(n, pod)
				n.Proxy.Intercept(nil)
				if !hit() {
					t.Error("nothing broke")
				}
				if err != nil {
					t.Error(err)
				}
				check(n, pod, err)
				n.Delete(pod)
			})
		}
	}
}

// TestRefusedForGood has the API server refuse the write that an admission
// depends on each time: the pod is refused and leaves nothing behind.
func TestRefusedForGood(t *testing.T) {
	n := lab.Start(t, node.Options{})
	shape := shapes(n)["two slices of one GPU"]
	for i, status := range []int{http.StatusUnprocessableEntity, http.StatusForbidden} {
		for _, number := range []int{1, 2} {
			run(t, n, fmt.Sprintf("%d to container %d", status, number), func(t *testing.T) {
				pod := n.Bind(shape(fmt.Sprintf("p-%d-%d", i, number)))
				seen := 0
				n.Proxy.Intercept(func(c proxy.Call) proxy.Fault {
					// What marks the pod as failed is no such write.
					if kindOf(c) == patchPod && strings.Contains(string(c.Body), "cu-allocated") {
						if seen++; seen >= number {
							return proxy.Fault{Refuse: status}
						}
					}
					return proxy.Fault{}
				})
				err := admit(n, pod)
				n.Proxy.Intercept(nil)
				if err == nil {
					t.Error("the pod was admitted")
				}
				if phase := n.Notes(pod)[annotations.BindPhaseKey]; phase != string(annotations.BindFailed) {
					t.Errorf("bind phase %q, want failed", phase)
				}
				check(n, pod, err)
				n.Delete(pod)
			})
		}
	}
}

// TestFaultsAtRandom breaks one of four calls of the plugin's, whatever they are
// for, in any way, while pods come and go. A pod may be refused; the node must
// be right after each.
func TestFaultsAtRandom(t *testing.T) {
	r, seed := newChaos(t, 1)
	all := shapes(r.Node)
	names := slices.Sorted(maps.Keys(all))
	broken, calls := 0, 0
	faults := rand.New(rand.NewPCG(seed, 2)) // calls come from several goroutines, one at a time
	statuses := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusForbidden}
	intercept := func(proxy.Call) (f proxy.Fault) {
		if calls++; faults.IntN(4) > 0 {
			return f
		}
		broken++
		switch faults.IntN(4) {
		case 0:
			f.CutRequest = true
		case 1:
			f.CutAnswer = true
		case 2:
			f.Refuse = statuses[faults.IntN(len(statuses))]
		case 3:
			pause := time.Duration(faults.IntN(1500)) * time.Millisecond
			f.After = func() { time.Sleep(pause) }
		}
		return f
	}
	for i := range *randomKills {
		shape := names[r.IntN(len(names))]
		run(t, r.Node, fmt.Sprintf("%d %s", i, shape), func(t *testing.T) {
			pod := r.bind(all[shape](fmt.Sprintf("p-%d", i)))
			r.Proxy.Intercept(intercept)
			err := admit(r.Node, pod)
			r.Proxy.Intercept(nil)
			served := check(r.Node, pod, err)
			if err != nil {
				r.refused++
				r.Delete(pod)
				return
			}
			r.served++
			r.live = append(r.live, served)
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d of %d calls were broken: %d pods were refused, %d served", broken, calls, r.refused, r.served)
}
