package inspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// quiet fails for every problem of a cluster that has none, besides those that
// are true of it.
func quiet(t *testing.T, c *Cluster, but ...Code) {
	t.Helper()
	for p := range c.All() {
		if !slices.Contains(but, p.Code) {
			t.Errorf("false alarm: %s", p)
		}
	}
}

func TestVerifyIsQuietOnACleanCluster(t *testing.T) {
	c := cleanRig(t).cluster()
	quiet(t, c)
	if len(c.Nodes) != 4 || len(c.Pods) != 14 {
		t.Errorf("%d nodes and %d pods are looked at", len(c.Nodes), len(c.Pods))
	}
}

// What every machine registers is consistent, and so is what the scheduler and
// the plugin make of it.
func TestVerifyIsQuietOnEveryMachine(t *testing.T) {
	for _, machine := range testdata.Machines() {
		for _, mode := range []partition.OperatingMode{partition.ModeCU, partition.ModePartition} {
			t.Run(machine+" "+string(mode), func(t *testing.T) {
				r := newRig(t)
				r.addNode("n1", machine, mode)
				random := rand.New(rand.NewPCG(1, 2))
				placed := 0
				for i := range 30 {
					pod := newPod(fmt.Sprintf("pod-%d", i), ask("main", 1+random.IntN(2), random.IntN(40000), random.IntN(100)))
					if random.IntN(3) == 0 {
						pod.Spec.InitContainers = []corev1.Container{ask("prep", 1, 1+random.IntN(20000), 1+random.IntN(99))}
					}
					if _, err := r.devices.Request(&pod.Spec.Containers[0]); err != nil {
						continue
					}
					if r.schedule(pod) != nil {
						r.run(pod)
						placed++
					}
				}
				// GPUs that were partitioned cannot be shared, and are registered as
				// unhealthy.
				var sick []Code
				if mode == partition.ModeCU && (strings.Contains(machine, "cpx") || strings.Contains(machine, "qpx")) {
					sick = []Code{DeviceUnhealthy}
				}
				quiet(t, r.cluster(), sick...)
				t.Logf("%d pods", placed)
			})
		}
	}
}

// What is on its way, or only just happened, is as it should be.
func TestVerifyIsQuietAboutWhatIsUnderWay(t *testing.T) {
	clean := cleanRig(t)
	for name, change := range map[string]func(r *rig){
		"the lock's owner was deleted a moment ago": func(r *rig) {
			r.node("cu-1").Annotations[annotations.NodeLockKey] = lockOf("team/gone", 30*time.Second)
		},
		"a clock that is a little ahead": func(r *rig) {
			r.node("cu-1").Annotations[annotations.NodeLockKey] = lockOf("team/gone", -30*time.Second)
			r.pod("binding").Annotations[annotations.BindTimeKey] = annotations.FormatTime(noon.Add(20 * time.Second))
		},
		"the lock is another vendor's": func(r *rig) {
			other := newPod("cuda", ask("main", 0, 0, 0))
			other.Annotations = map[string]string{"hami.io/vgpu-devices-to-allocate": "GPU-1,NVIDIA,1,2:;"}
			other.Spec.NodeName = "cu-1"
			r.pods = append(r.pods, other)
			r.node("cu-1").Annotations[annotations.NodeLockKey] = lockOf("team/cuda", 2*time.Minute)
		},
		"a lock on a node without AMD GPUs": func(r *rig) {
			n := &corev1.Node{}
			n.Name = "other"
			n.Annotations = map[string]string{annotations.NodeLockKey: "x", annotations.DeviceCordonKey: "GPU-1"}
			r.nodes = append(r.nodes, n)
		},
		"another vendor's device is cordoned": func(r *rig) {
			n := r.node("cu-1")
			n.Annotations["hami.io/node-nvidia-register"] = `[{"id":"GPU-1"}]`
			n.Annotations[annotations.DeviceCordonKey] = "GPU-1, "
		},
		"the pod was bound half a minute ago": func(r *rig) {
			r.pod("binding").Annotations[annotations.BindTimeKey] = annotations.FormatTime(noon.Add(-30 * time.Second))
		},
		"the first container is served": func(r *rig) {
			p := r.pod("binding")
			served := r.serve(p)
			grants, err := annotations.DecodePod(p.Annotations[annotations.AllocatedKey])
			if err != nil {
				r.t.Fatal(err)
			}
			p.Annotations[annotations.ToAllocateKey], _ = annotations.EncodePod(grants.Serve(0))
			p.Annotations[annotations.CUAllocatedKey] = served.Annotations[annotations.CUAllocatedKey]
			containers, err := annotations.DecodeContainerCUs(served.Annotations[annotations.CUContainersKey])
			if err != nil {
				r.t.Fatal(err)
			}
			delete(containers, "b")
			p.Annotations[annotations.CUContainersKey], _ = annotations.EncodeContainerCUs(containers)
		},
		"the pod is served and its image is being pulled": func(r *rig) {
			p := r.serve(r.pod("binding"))
			p.Status.Phase = corev1.PodPending
			p.Annotations[annotations.BindTimeKey] = annotations.FormatTime(noon.Add(-time.Hour))
			*r.pod("binding") = *p
			r.node("cu-1").Annotations[annotations.NodeLockKey] = lockOf("team/binding", 10*time.Second)
		},
		"refused a moment ago": func(r *rig) { r.pod("binding").Annotations[annotations.BindPhaseKey] = "failed" },
		"a pod that is being deleted and whose GPU is gone": func(r *rig) {
			p := r.pod("slice-a")
			p.DeletionTimestamp = &metav1.Time{Time: noon}
			r.edit("slice-a", "", r.grant("slice-a", 0, 0).UUID, "gone")
		},
		"kubelet has reused the ID of a pod that is being deleted": func(r *rig) {
			id := strings.Split(r.pod("terminating").Annotations[annotations.CUContainersKey], `"`)[5]
			other := strings.Split(r.pod("slice-a").Annotations[annotations.CUContainersKey], `"`)[5]
			r.edit("slice-a", annotations.CUContainersKey, other, id)
		},
		"entries without places for other containers, as HAMi v2.10 leaves them": func(r *rig) {
			p := r.pod("inits")
			for _, key := range []string{annotations.AllocatedKey, annotations.ToAllocateKey} {
				grants, err := annotations.DecodePod(p.Annotations[key])
				if err != nil {
					r.t.Fatal(err)
				}
				grants = slices.DeleteFunc(grants, func(g []annotations.Grant) bool { return len(g) == 0 })
				p.Annotations[key], _ = annotations.EncodePod(grants)
			}
		},
		"a pod of HAMi v2.10, which does not know the unit": func(r *rig) {
			r.pod("slice-a").Spec.Containers[0].Resources.Limits[amd.DefaultCoreName] = resource.MustParse("33")
			r.edit("slice-a", annotations.AllocatedKey, ",76:", ",100:")
			r.edit("slice-a", "", `"0-75"`, `"0-99"`)
		},
		"a plugin that records no containers": func(r *rig) {
			for _, p := range r.pods {
				delete(p.Annotations, annotations.CUContainersKey)
			}
		},
		"a node whose status was written by hand": func(r *rig) { r.node("cu-1").Status = corev1.NodeStatus{} },
		"GPUs of a node without HAMi": func(r *rig) {
			p := newPod("plain", ask("main", 1, 0, 0))
			p.Spec.NodeName = "plain-1"
			running(p)
			r.pods = append(r.pods, p)
			n := &corev1.Node{}
			n.Name = "plain-1"
			r.nodes = append(r.nodes, n)
		},
		"no nodes were given": func(r *rig) { r.nodes = nil },
		"no pods were given":  func(r *rig) { r.pods = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := clean.clone(t)
			change(r)
			quiet(t, r.cluster())
		})
	}
}
