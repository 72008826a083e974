package plugin

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
)

var (
	lifeSteps = flag.Int("life.steps", 40, "steps in the life of a node")
	lifeSeed  = flag.Uint64("life.seed", 1, "which life")
)

// life is a node to which things happen at random.
type life struct {
	*node.Node
	random  *rand.Rand
	gpus    int64          // of the machine
	pods    []*node.Served // that run
	pending []*node.Served // that are being deleted and run on
	placed  int
	refused int
}

// Pods of all kinds come and go while the plugin and kubelet restart; after each
// step everything that must be true of a node is.
func TestLife(t *testing.T) {
	for machine, o := range map[string]node.Options{
		"mi300x-spx-8": {}, "rx9060xt": {Machine: "rx9060xt"}, "mi300x-cpx-8": partitionMode("mi300x-cpx-8", 64),
	} {
		t.Run(machine, func(t *testing.T) {
			l := &life{Node: lab.Start(t, o), random: rand.New(rand.NewPCG(*lifeSeed, 0))}
			l.gpus = int64(len(l.Inventory().GPUs))
			for i := range *lifeSteps {
				what := l.step(i)
				l.Settle()
				l.Check()
				if t.Failed() {
					t.Fatalf("seed %d, step %d: %s", *lifeSeed, i, what)
				}
			}
			t.Logf("%d pods were placed, %d did not fit, %d run", l.placed, l.refused, len(l.pods)+len(l.pending))
			if l.placed < *lifeSteps/10 {
				t.Errorf("only %d pods were placed in %d steps", l.placed, *lifeSteps)
			}
		})
	}
}

// step does one thing, and says what.
func (l *life) step(i int) string {
	l.Helper()
	switch n := l.random.IntN(100); {
	case n < 60 || len(l.pods)+len(l.pending) == 0:
		return l.place(fmt.Sprintf("pod-%d", i))
	case n < 72:
		return l.end("delete", func(s *node.Served) { l.Delete(s.Pod) })
	case n < 80:
		return l.end("finish", func(s *node.Served) {
			l.Finish(s, []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}[l.random.IntN(2)])
		})
	case n < 86:
		return l.end("terminate", func(s *node.Served) {
			ctx, cancel := l.Timeout()
			defer cancel()
			if err := l.Kubelet.Terminate(ctx, s.Pod); err != nil {
				l.Fatal(err)
			}
			l.pending = append(l.pending, s)
		})
	case n < 90:
		if len(l.pending) > 0 {
			l.Delete(l.pending[0].Pod)
			l.pending = l.pending[1:]
		}
		return "delete a pod that was being deleted"
	case n < 93:
		l.StopPlugin()
		l.StartPlugin()
		return "restart the plugin"
	case n < 96:
		l.KillPlugin()
		l.StartPlugin()
		return "kill the plugin"
	default:
		return l.restartKubelet(kubelet.RestartOptions{Reboot: n >= 98, Forget: n == 99})
	}
}

// end takes a pod out of those that run.
func (l *life) end(what string, how func(*node.Served)) string {
	l.Helper()
	if len(l.pods) == 0 {
		return "nothing"
	}
	i := l.random.IntN(len(l.pods))
	s := l.pods[i]
	l.pods = append(l.pods[:i:i], l.pods[i+1:]...)
	how(s)
	return what + " pod " + s.Pod.Name
}

func (l *life) place(name string) string {
	l.Helper()
	pod := l.Pod(name, l.container("app"))
	if l.random.IntN(4) == 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, l.container("second"))
	}
	if l.random.IntN(4) == 0 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, l.container("init"))
	}
	if l.random.IntN(6) == 0 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, node.Sidecar(l.container("sidecar")))
	}
	if policy := []string{"", "", annotations.PolicyBinpack, annotations.PolicyTopology, annotations.PolicyMutex}[l.random.IntN(5)]; policy != "" {
		pod.Annotations = map[string]string{annotations.GPUSchedulerPolicyKey: policy}
	}
	what := fmt.Sprintf("place pod %s %v %v", name, pod.Spec.InitContainers, pod.Spec.Containers)
	s, err := l.Place(pod)
	switch {
	case err == nil:
		l.pods = append(l.pods, s)
		l.placed++
	case errors.Is(err, scheduler.ErrUnfit):
		l.refused++
		l.Delete(s.Pod)
	default:
		l.Error(err)
	}
	return what
}

// container asks for something at random, for nothing too.
func (l *life) container(name string) corev1.Container {
	count := min(l.gpus, 1+l.random.Int64N(1+l.random.Int64N(4)))
	switch l.random.IntN(8) {
	case 0:
		return node.Plain(name)
	case 1:
		return node.Whole(name, count)
	case 2:
		return node.Asks(name, "amd.com/gpucores", 1+l.random.Int64N(100))
	}
	return node.Slice(name, count, 1+l.random.Int64N(50), 256+l.random.Int64N(8192))
}

// restartKubelet has kubelet admit all pods again. Those that are not rejected
// get what they had. It rejects pods whose init containers had GPUs, by itself:
// it takes such a container for one it has not allocated yet. Without its
// checkpoint it rejects those that the plugin cannot tell from others.
func (l *life) restartKubelet(o kubelet.RestartOptions) string {
	l.Helper()
	ctx, cancel := l.Timeout()
	defer cancel()
	o.BeforePods = func() error { l.WaitReady(); return nil }
	rejections, err := l.Kubelet.Restart(ctx, o)
	if err != nil {
		l.Fatal(err)
	}
	rejected := make(map[string]error)
	for _, r := range rejections {
		rejected[r.Pod.Name] = r
	}
	settle := func(list []*node.Served) (left []*node.Served) {
		for _, s := range list {
			if err := rejected[s.Pod.Name]; err != nil {
				if len(s.Pod.Spec.InitContainers) == 0 && !o.Forget {
					l.Error(err)
				}
				continue
			}
			left = append(left, s)
			if o.Reboot {
				before := s.Containers
				l.Rerun(s)
				if diff := cmp.Diff(before, s.Containers); diff != "" {
					l.Errorf("pod %s (-before +after):\n%s", s.Pod.Name, diff)
				}
			}
		}
		return left
	}
	l.pods, l.pending = settle(l.pods), settle(l.pending)
	return fmt.Sprintf("restart kubelet, reboot %v, checkpoint lost %v: %d rejections", o.Reboot, o.Forget, len(rejections))
}
