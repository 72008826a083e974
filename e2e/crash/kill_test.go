package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
)

// killPoints are before and after each call that an admission of two containers
// makes. The reads of the second container are those of the first again.
func killPoints() (points []point) {
	for _, p := range []point{{kind: getNode, number: 1}, {kind: listPods, number: 1}, {kind: patchPod, number: 1}, {kind: patchPod, number: 2}, {kind: patchNode, number: 1}} {
		points = append(points, p, point{kind: p.kind, number: p.number, after: true})
	}
	return points
}

// run runs a subtest on a node that lives longer than it.
func run(t *testing.T, n *node.Node, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		outer := n.TB
		n.TB = t
		defer func() { n.TB = outer }()
		f(t)
	})
}

// admit has kubelet decide on a pod that is bound. Containers start later: see
// check. An error is kubelet's rejection.
func admit(n *node.Node, pod *corev1.Pod) error {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	err := n.Kubelet.Admit(ctx, pod)
	var rejection *kubelet.Rejection
	if err != nil && !errors.As(err, &rejection) {
		n.Fatal(err)
	}
	return err
}

// check starts the containers of a pod that kubelet has admitted, and then looks
// at the pod and its node.
func check(n *node.Node, pod *corev1.Pod, rejection error) *node.Served {
	n.Helper()
	served := &node.Served{Pod: pod}
	if rejection == nil {
		n.Rerun(served)
	}
	n.CheckPlaced(served, rejection)
	return served
}

// TestKillAtEachCall kills the plugin at every point of an admission, with six
// shapes of pods, and starts it again. Another pod runs all the while.
func TestKillAtEachCall(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("older", node.Slice("app", 1, 25, 16384)))
	all := shapes(n)
	for i, shape := range slices.Sorted(maps.Keys(all)) {
		killAtEachCall(t, n, shape, func(k int) *corev1.Pod { return all[shape](fmt.Sprintf("p-%d-%d", i, k)) })
	}
}

// TestKillWithPartitions does the same on a node of compute partitions, which
// are granted whole.
func TestKillWithPartitions(t *testing.T) {
	n := lab.Start(t, node.Options{
		Machine: "mi300x-cpx-8", Env: map[string]string{"OPERATING_MODE": "partition"},
		Want: map[corev1.ResourceName]int64{"amd.com/gpu": 64},
	})
	n.MustPlace(n.Pod("older", node.Whole("app", 5)))
	killAtEachCall(t, n, "partitions", func(k int) *corev1.Pod {
		return n.Pod(fmt.Sprintf("p-%d", k), node.Whole("a", 3), node.Whole("b", 1))
	})
}

func killAtEachCall(t *testing.T, n *node.Node, name string, pod func(k int) *corev1.Pod) {
	t.Helper()
	for k, p := range killPoints() {
		run(t, n, fmt.Sprintf("%s/%s", name, p), func(t *testing.T) {
			pod := n.Bind(pod(k))
			intercept, hit := at(p, n.KillPlugin)
			n.Proxy.Intercept(intercept)
			err := admit(n, pod)
			n.Proxy.Intercept(nil)
			if !hit() {
				t.Fatalf("the plugin was not killed; the pod was admitted with error %v", err)
			}
			n.StartPlugin()
			check(n, pod, err)
			n.Delete(pod)
		})
	}
}

// TestKillAtRandom kills the plugin at random moments while pods come and go and
// kubelet restarts now and then. It looks at the node after each.
func TestKillAtRandom(t *testing.T) {
	r, _ := newChaos(t, 0)
	all := shapes(r.Node)
	names := slices.Sorted(maps.Keys(all))
	for i := range *randomKills {
		shape := names[r.IntN(len(names))]
		run(t, r.Node, fmt.Sprintf("%d %s", i, shape), func(t *testing.T) {
			name := fmt.Sprintf("p-%d", i)
			if shape == initContainer {
				name += "-init"
			}
			r.round(all[shape](name))
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills, %d of them during an admission: %d pods were refused, %d served; kubelet restarted %d times, which cost %d pods",
		r.kills, r.during, r.refused, r.served, r.restarts, r.lost)
}

// chaos is a node that a plugin has a hard time on.
type chaos struct {
	*rand.Rand
	*node.Node
	live []*node.Served

	kills, during, refused, served, restarts, lost int
}

// newChaos starts a node and logs how to repeat the run. Tests of different streams
// have different pods with one seed, which it returns for more generators.
func newChaos(t *testing.T, stream uint64) (r *chaos, seed uint64) {
	t.Helper()
	if seed = *randomSeed; seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash.random %d -crash.seed %d", *randomKills, seed)
	return &chaos{Rand: rand.New(rand.NewPCG(seed, stream)), Node: lab.Start(t, node.Options{})}, seed
}

// round takes one pod through an admission in which the plugin is killed.
func (r *chaos) round(pod *corev1.Pod) {
	bound := r.bind(pod)
	var killed atomic.Bool
	kill := func() {
		killed.Store(true)
		r.KillPlugin()
	}
	over := func() {}
	if r.IntN(2) == 0 { // at a call
		kinds := []string{getNode, listPods, patchPod, patchNode}
		p := point{kind: kinds[r.IntN(len(kinds))], number: 1, after: r.IntN(2) == 0}
		if p.kind == patchPod && r.IntN(2) == 0 {
			p.number = 2
		}
		intercept, _ := at(p, kill)
		r.Proxy.Intercept(intercept)
	} else { // at any time: files are being written, kubelet is being answered
		done := make(chan struct{})
		timer := time.AfterFunc(time.Duration(r.IntN(120_000))*time.Microsecond, func() { kill(); close(done) })
		over = func() {
			if !timer.Stop() {
				<-done
			}
		}
	}
	err := admit(r.Node, bound)
	over()
	r.Proxy.Intercept(nil)
	if killed.Load() {
		r.during++
	}
	r.KillPlugin() // late, when all is done, or waits until it is gone
	r.kills++
	var gone map[string]bool
	switch r.IntN(9) {
	case 0: // without the plugin
		gone = r.restartKubelet(kubelet.RestartOptions{})
	case 1: // the whole node, with the plugin there before the pods
		gone = r.restartKubelet(kubelet.RestartOptions{Reboot: true, BeforePods: r.comeBack})
	case 2: // and kubelet knows of nothing
		gone = r.restartKubelet(kubelet.RestartOptions{Reboot: true, Forget: true, BeforePods: r.comeBack})
	case 3: // once more, while it starts
		r.LaunchPlugin()
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		r.KillPlugin()
		r.kills++
	}
	if gone[bound.Name] {
		err = fmt.Errorf("pod %s was rejected by a kubelet that restarted", bound.Name)
	}
	_ = r.comeBack()
	served := check(r.Node, bound, err)
	if err != nil {
		r.refused++
		r.Delete(bound)
		return
	}
	r.Node.Check()
	r.served++
	r.live = append(r.live, served)
	if r.IntN(3) == 0 {
		r.end()
		r.Node.Check()
	}
}

// bind takes a pod to the node lock, and ends other pods until it fits.
func (r *chaos) bind(pod *corev1.Pod) *corev1.Pod {
	ctx, cancel := r.Timeout()
	defer cancel()
	for {
		bound, err := r.Scheduler.Schedule(ctx, pod)
		switch {
		case err == nil:
			return bound
		case !errors.Is(err, scheduler.ErrUnfit) || len(r.live) == 0:
			r.Fatal(err)
		}
		r.Delete(bound)
		r.end()
	}
}

// end ends a random pod that runs, one way or another.
func (r *chaos) end() {
	k := r.IntN(len(r.live))
	s := r.live[k]
	r.live = slices.Delete(r.live, k, k+1)
	if r.IntN(2) == 0 {
		phases := []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}
		r.Finish(s, phases[r.IntN(2)])
		if r.IntN(2) == 0 {
			return // the object stays
		}
	}
	r.Delete(s.Pod)
}

// comeBack starts the plugin unless it runs.
func (r *chaos) comeBack() error {
	select {
	case <-r.Plugin.Done():
		r.StartPlugin()
	default:
	}
	return nil
}

// restartKubelet restarts kubelet and returns the pods it rejects. It asks again
// for every container that does not run, so a pod is rejected whose containers
// have not started yet if there is no plugin, one with an init container that
// has a GPU and has ended, and, by a kubelet that has lost its checkpoint, one
// that the plugin cannot tell from others. All others run on, or again, with
// what they had.
func (r *chaos) restartKubelet(o kubelet.RestartOptions) map[string]bool {
	ctx, cancel := r.Timeout()
	defer cancel()
	r.restarts++
	rejections, err := r.Kubelet.Restart(ctx, o)
	if err != nil {
		r.Fatal(err)
	}
	gone := make(map[string]bool)
	for _, rejection := range rejections {
		gone[rejection.Pod.Name] = true
	}
	r.live = slices.DeleteFunc(r.live, func(s *node.Served) bool {
		if gone[s.Pod.Name] {
			if !o.Forget && !strings.HasSuffix(s.Pod.Name, "-init") {
				r.Errorf("pod %s ran and was rejected by a kubelet that restarted", s.Pod.Name)
			}
			r.lost++
			r.Delete(s.Pod)
			return true
		}
		if o.Reboot {
			before := s.Containers
			r.Rerun(s)
			if diff := cmp.Diff(before, s.Containers); diff != "" {
				r.Errorf("pod %s after kubelet restarted (-want +got):\n%s", s.Pod.Name, diff)
			}
		}
		return false
	})
	return gone
}
