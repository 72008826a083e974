package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

var createOptions = metav1.CreateOptions{}

// The plugin stops and starts; what runs keeps what it has, whatever remembers
// it: the state file, the annotations, or both.
func TestPluginRestart(t *testing.T) {
	for name, lose := range map[string]func(n *node.Node, s *node.Served){
		"nothing is lost": func(*node.Node, *node.Served) {},
		"the state file is lost": func(n *node.Node, _ *node.Served) {
			if err := os.Remove(filepath.Join(n.HookPath(), "vgpu", "allocations.json")); err != nil {
				n.Fatal(err)
			}
		},
		"the state file is broken": func(n *node.Node, _ *node.Served) {
			n.Write(filepath.Join(n.HookPath(), "vgpu", "allocations.json"), "{")
		},
		"the annotations are lost": func(n *node.Node, s *node.Served) {
			n.AnnotatePod(s.Pod, map[string]*string{"hami.io/amd-cu-allocated": nil, "hami.io/amd-cu-containers": nil})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, node.Options{})
			s := n.MustPlace(onOneGPU(n.Pod("before", node.Slice("app", 1, 25, 16384))))
			notes := n.Notes(s.Pod)
			n.StopPlugin()
			lose(n, s)
			n.StartPlugin()
			n.Eventually("the pod's annotations", func() error {
				if diff := cmp.Diff(notes, n.Notes(s.Pod)); diff != "" {
					return fmt.Errorf("(-want +got):\n%s", diff)
				}
				return nil
			})
			n.CheckPlaced(n.Place(onOneGPU(n.Pod("after", node.Slice("app", 1, 75, 16384)))))
		})
	}
}

// After a reboot, or when its checkpoint is lost, kubelet asks again for every
// pod it finds, and each must get what it had: nothing is booked twice.
func TestC52Reboot(t *testing.T) {
	for name, tt := range map[string]struct {
		o    kubelet.RestartOptions
		lose bool // the plugin's state file
	}{
		"a reboot, the checkpoint is lost":      {o: kubelet.RestartOptions{Forget: true, Reboot: true}},
		"a reboot":                              {o: kubelet.RestartOptions{Reboot: true}},
		"a reboot, and nobody remembers a file": {o: kubelet.RestartOptions{Forget: true, Reboot: true}, lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, node.Options{})
			staged := onOneGPU(n.Pod("staged", node.Slice("a", 1, 25, 16384), node.Plain("plain"), node.Slice("b", 1, 25, 8192)))
			staged.Spec.InitContainers = []corev1.Container{node.Slice("init", 1, 20, 1024)}
			whole := n.Pod("whole", node.Whole("app", 2))
			pods := []*node.Served{n.MustPlace(staged), n.MustPlace(whole)}
			n.Finish(n.MustPlace(onOneGPU(n.Pod("done", node.Slice("app", 1, 10, 1024)))), corev1.PodSucceeded)
			before := make([]map[string]string, len(pods))
			for i, s := range pods {
				before[i] = n.Notes(s.Pod)
			}

			n.KillPlugin()
			if tt.lose {
				if err := os.Remove(filepath.Join(n.HookPath(), "vgpu", "allocations.json")); err != nil {
					t.Fatal(err)
				}
			}
			tt.o.BeforePods = func() error { n.StartPlugin(); return nil }
			restartKubelet(n, tt.o)
			for i, s := range pods {
				containers := s.Containers
				n.Rerun(s)
				if diff := cmp.Diff(containers, s.Containers); diff != "" {
					t.Errorf("pod %s (-before +after):\n%s", s.Pod.Name, diff)
				}
				if diff := cmp.Diff(before[i], n.Notes(s.Pod)); diff != "" {
					t.Errorf("annotations of pod %s (-before +after):\n%s", s.Pod.Name, diff)
				}
			}
			n.Check()
			n.CheckPlaced(n.Place(onOneGPU(n.Pod("after", node.Slice("app", 1, 30, 16384)))))
		})
	}
}

// Kubelet does not say which pod it asks for. Where several may be meant, none
// gets another's: kubelet rejects them, and nothing is booked.
func TestC52RebootWithTwoPodsAlike(t *testing.T) {
	n := lab.Start(t, node.Options{})
	var pods []*node.Served
	for _, name := range []string{"p", "q"} {
		pods = append(pods, n.MustPlace(onOneGPU(n.Pod(name, node.Slice("app", 1, 25, 16384)))))
	}
	before := []map[string]string{n.Notes(pods[0].Pod), n.Notes(pods[1].Pod)}
	ctx, cancel := n.Timeout()
	defer cancel()
	rejections, err := n.Kubelet.Restart(ctx, kubelet.RestartOptions{
		Forget: true, Reboot: true, BeforePods: func() error { n.WaitDevices("amd.com/gpu", 80); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	rejected := make(map[string]bool)
	for _, r := range rejections {
		if rejected[r.Pod.Name] = true; r.Reason != "UnexpectedAdmissionError" || r.Message == "" {
			t.Errorf("pod %s: %v", r.Pod, r)
		}
	}
	for i, s := range pods {
		if diff := cmp.Diff(before[i], n.Notes(s.Pod)); diff != "" {
			t.Errorf("annotations of pod %s (-before +after):\n%s", s.Pod.Name, diff)
		}
		if rejected[s.Pod.Name] {
			continue
		}
		containers := s.Containers
		n.Rerun(s)
		if diff := cmp.Diff(containers, s.Containers); diff != "" {
			t.Errorf("pod %s (-before +after):\n%s", s.Pod.Name, diff)
		}
	}
	n.Check()
	free := 50 + 25*int64(len(rejected)) // percent
	n.CheckPlaced(n.Place(onOneGPU(n.Pod("after", node.Slice("app", 1, free, 16384)))))
}

// A kubelet that lost its checkpoint does not ask again for containers that run,
// and takes their devices for free: new pods get others' IDs and CUs of their own.
func TestCheckpointLostWhilePodsRun(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-split_count=2"}})
	n.MustPlace(onOneGPU(n.Pod("p", node.Slice("app", 1, 25, 16384))))
	n.MustPlace(n.Pod("whole", node.Whole("app", 7)))
	restartKubelet(n, kubelet.RestartOptions{Forget: true})
	n.WaitDevices("amd.com/gpu", 16)
	n.CheckPlaced(n.Place(onOneGPU(n.Pod("q", node.Slice("app", 1, 75, 16384)))))
	if _, err := n.Place(n.Pod("r", node.Slice("app", 1, 1, 100))); err == nil {
		t.Error("a pod was placed on a full node")
	}
}

// The plugin is asked to stop while a pod waits for its answer, which it gets.
func TestStopWhileAPodIsServed(t *testing.T) {
	for name, where := range map[string]string{"at the pod": "/pods/", "at the lock": "/nodes/"} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, node.Options{})
			pod := n.Bind(n.Pod("p", node.Slice("app", 1, 25, 16384)))
			stopped := make(chan error, 1)
			asked := false
			n.Proxy.Intercept(func(c proxy.Call) proxy.Fault {
				if asked || c.Method != "PATCH" || !strings.Contains(c.Path, where) {
					return proxy.Fault{}
				}
				asked = true
				return proxy.Fault{Before: func() { stopped <- n.Plugin.Signal(syscall.SIGTERM) }}
			})
			s, err := n.Admit(pod)
			if err := <-stopped; err != nil {
				t.Fatal(err)
			}
			<-n.Plugin.Done()
			if err := n.Plugin.Err(); err != nil {
				t.Errorf("the plugin was asked to stop: %v", err)
			}
			if left := n.Sockets(); len(left) > 0 {
				t.Errorf("sockets %q are left", left)
			}
			if err != nil && !errors.Is(err, node.ErrNotStarted) {
				t.Errorf("the pod that was being served: %v", err)
			}
			if lock := n.Lock(); lock != "" {
				t.Errorf("lock %q is left", lock)
			}
			n.StartPlugin()
			n.CheckPlaced(s, err)
			n.CheckPlaced(n.Place(n.Pod("next", node.Slice("app", 1, 25, 16384))))
		})
	}
}

// An API server that hangs does not keep the plugin from stopping, at work or
// while it starts: kubelet gives it half a minute.
func TestStopWhileTheAPIServerHangs(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("p", node.Slice("app", 1, 25, 16384)))
	frozen := func(do func()) {
		t.Helper()
		thaw, err := n.Lab.Cluster.FreezeAPIServer()
		if err != nil {
			t.Fatal(err)
		}
		do()
		if err := thaw(); err != nil {
			t.Fatal(err)
		}
	}
	frozen(n.TerminatePlugin)
	frozen(func() {
		n.LaunchPlugin()
		n.Eventually("the plugin asks for its node", func() error {
			calls := n.Proxy.Calls()
			if last := calls[len(calls)-1]; last.Method != "GET" || last.Status != 0 {
				return errNotYet
			}
			return nil
		})
		n.TerminatePlugin()
	})
	n.StartPlugin()
	n.CheckPlaced(n.Place(n.Pod("q", node.Slice("app", 1, 25, 16384))))
}
