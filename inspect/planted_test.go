package inspect

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// planted is one inconsistency in a cluster that is clean but for it.
type planted struct {
	plant func(r *rig)
	// want are the problems it makes, as "Code place", in any order; place is
	// the pod and container, or the node.
	want []string
}

func lockOf(pod string, ago time.Duration) string {
	namespace, name, _ := strings.Cut(pod, "/")
	return annotations.NodeLock{Time: noon.Add(-ago), Namespace: namespace, Name: name}.String()
}

func annotate(node, key, value string) func(*rig) {
	return func(r *rig) { r.node(node).Annotations[key] = value }
}

var plantedOnNodes = map[string]planted{
	"the register annotation is cut off": {
		func(r *rig) { r.node("rdna-1").Annotations[annotations.NodeRegisterKey] = `[{"id":"A"` },
		[]string{"RegisterUnreadable node rdna-1"},
	},
	"the register annotation has an id twice": {
		annotate("idle-1", annotations.NodeRegisterKey, `[{"id":"A","count":1,"health":true},{"id":"A","count":1,"health":true}]`),
		[]string{"RegisterUnreadable node idle-1"},
	},
	"annotations near the limit": {
		annotate("idle-1", "example.com/big", strings.Repeat("x", 200_000)),
		[]string{"AnnotationsLarge node idle-1"},
	},
	"kubelet offers no GPU": {
		func(r *rig) { r.node("rdna-1").Status.Allocatable[amd.DefaultCountName] = resource.MustParse("0") },
		[]string{"NotOffered node rdna-1"},
	},
	"GPUs without registration": {
		func(r *rig) { r.node("idle-1").Status.Capacity[amd.DefaultCountName] = resource.MustParse("8") },
		[]string{"NotRegistered node idle-1"},
	},
	"fewer shares than registered": {
		func(r *rig) { r.node("cu-1").Status.Capacity[amd.DefaultCountName] = resource.MustParse("64") },
		[]string{"CapacityDiffers node cu-1"},
	},
	"a capacity nobody can write out": {
		func(r *rig) { r.node("cu-1").Status.Capacity[amd.DefaultCountName] = resource.MustParse("1e999999999") },
		[]string{"CapacityDiffers node cu-1"},
	},
	"a mode nobody knows": {
		annotate("cu-1", annotations.OperatingModeKey, "hybrid"),
		[]string{"OperatingModeInvalid node cu-1"},
	},
	"partitions in cu mode": {
		func(r *rig) {
			r.node("qpx-1").Annotations[annotations.OperatingModeKey] = "cu"
		},
		[]string{"OperatingModeDiffers node qpx-1"},
	},
	"shared GPUs in partition mode": {
		annotate("cu-1", annotations.OperatingModeKey, "partition"),
		[]string{"OperatingModeDiffers node cu-1"},
	},
	"a partition type nobody knows": {
		annotate("qpx-1", annotations.ComputePartitionKey, "octo"),
		[]string{"ComputePartitionBad node qpx-1"},
	},
	"GPUs that were not switched": {
		annotate("qpx-1", annotations.ComputePartitionKey, "cpx"),
		[]string{"ComputePartitionUnused node qpx-1"},
	},
	"a partition type in cu mode": {
		annotate("cu-1", annotations.ComputePartitionKey, "cpx"),
		[]string{"ComputePartitionUnused node cu-1"},
	},
	"a cordon that cannot be read": {
		annotate("cu-1", annotations.DeviceCordonKey, strings.Repeat("a", annotations.MaxBytes+1)),
		[]string{"AnnotationsLarge node cu-1", "CordonUnreadable node cu-1"},
	},
	"a cordon with a slip": {
		annotate("cu-1", annotations.DeviceCordonKey, "GPU-mistyped"),
		[]string{"CordonUnknownDevice node cu-1"},
	},
	"the lock is no lock": {
		annotate("idle-1", annotations.NodeLockKey, "locked"),
		[]string{"LockMalformed node idle-1"},
	},
	"an old lock without owner": {
		annotate("idle-1", annotations.NodeLockKey, noon.Add(-time.Hour).Format(time.RFC3339)),
		[]string{"LockWithoutOwner node idle-1"},
	},
	"a lock of a pod that is gone": {
		annotate("cu-1", annotations.NodeLockKey, lockOf("team/gone", 2*time.Minute)),
		[]string{"LockOwnerGone node cu-1"},
	},
	"a lock of a pod that has finished": {
		annotate("cu-1", annotations.NodeLockKey, lockOf("team/finished-0", 2*time.Minute)),
		[]string{"LockOwnerFinished node cu-1"},
	},
	"a lock of a pod of another node": {
		annotate("rdna-1", annotations.NodeLockKey, lockOf("team/slice-a", 2*time.Minute)),
		[]string{"LockOwnerElsewhere node rdna-1"},
	},
	"a lock of a pod that is served": {
		annotate("cu-1", annotations.NodeLockKey, lockOf("team/slice-a", 2*time.Minute)),
		[]string{"LockLeft node cu-1"},
	},
	"a pod that is never served": {
		func(r *rig) {
			r.node("cu-1").Annotations[annotations.NodeLockKey] = lockOf("team/binding", 6*time.Minute)
			r.pod("binding").Annotations[annotations.BindTimeKey] = annotations.FormatTime(noon.Add(-6 * time.Minute))
		},
		[]string{"LockStuck node cu-1", "BindStuck pod team/binding"},
	},
}

var plantedOnGPUs = map[string]planted{
	"a product type without AMD": {
		func(r *rig) { r.register("rdna-1", func(d []annotations.Device) { d[0].Type = "Radeon" }) },
		[]string{"DeviceUnusable node rdna-1"},
	},
	"memory nobody knows": {
		func(r *rig) { r.register("qpx-1", func(d []annotations.Device) { d[len(d)-1].Devmem = 0 }) },
		[]string{"DeviceUnusable node qpx-1"},
	},
	"CUs that no GPU has": {
		func(r *rig) { r.register("qpx-1", func(d []annotations.Device) { d[len(d)-1].Devcore = 2048 }) },
		[]string{"DeviceUnusable node qpx-1"},
	},
	"one id on two nodes": {
		func(r *rig) {
			r.register("rdna-1", func(d []annotations.Device) {
				r.node("idle-1").Annotations[annotations.NodeRegisterKey], _ = annotations.EncodeDevices(d)
			})
			shares := resource.MustParse("10")
			r.node("idle-1").Status.Capacity[amd.DefaultCountName] = shares
			r.node("idle-1").Status.Allocatable[amd.DefaultCountName] = shares
		},
		[]string{"DuplicateDevice node rdna-1"},
	},
	"an unhealthy GPU in use": {
		func(r *rig) {
			id := r.grant("slice-a", 0, 0).UUID
			r.register("cu-1", func(d []annotations.Device) { device(r.t, d, id).Health = false })
		},
		[]string{"UnhealthyInUse node cu-1"},
	},
	"an unhealthy GPU that nobody holds": {
		func(r *rig) {
			n := r.node("idle-1")
			n.Annotations[annotations.NodeRegisterKey] = `[{"id":"A","count":2,"devmem":100,"devcore":8,"type":"AMD X","health":false}]`
			n.Status.Capacity[amd.DefaultCountName] = resource.MustParse("2")
			n.Status.Allocatable[amd.DefaultCountName] = resource.MustParse("0")
		},
		[]string{"DeviceUnhealthy node idle-1"},
	},
	"a GPU in another mode than operating mode cu can share": {
		func(r *rig) {
			n := r.node("idle-1")
			n.Annotations[annotations.NodeRegisterKey] = `[{"id":"A","count":2,"devmem":100,"devcore":8,"type":"AMD X","health":false,"custominfo":{"partitionProfile":"cpx_nps4"}}]`
		},
		[]string{"DeviceUnhealthy node idle-1"},
	},
	"a whole GPU and a slice of it": {
		func(r *rig) { r.edit("slice-a", "", r.grant("slice-a", 0, 0).UUID, r.grant("whole", 0, 0).UUID) },
		[]string{"WholeShared node cu-1"},
	},
	"a partition of two pods": {
		func(r *rig) {
			other := r.run(newPod("other", ask("main", 1, 0, 0)))
			if other.Spec.NodeName != "qpx-1" {
				r.t.Fatalf("placed on %s", other.Spec.NodeName)
			}
			r.edit("other", "", r.grant("other", 0, 0).UUID, r.grant("partition", 0, 0).UUID)
			r.edit("other", annotations.CUContainersKey, `"ids":["`, `"ids":["other-`)
		},
		[]string{"WholeShared node qpx-1"},
	},
	"more containers than shares": {
		func(r *rig) {
			id := r.grant("rdna", 0, 0).UUID
			r.register("rdna-1", func(d []annotations.Device) { device(r.t, d, id).Count = 0 })
		},
		[]string{"CapacityDiffers node rdna-1", "DeviceUnusable node rdna-1", "SharesExceeded node rdna-1"},
	},
	"more memory than there is": {
		func(r *rig) {
			// Two pods that fit alone.
			r.edit("slice-b", "", r.grant("slice-b", 0, 0).UUID, r.grant("slice-a", 0, 0).UUID)
			r.edit("slice-b", "", `"0-75"`, `"76-151"`)
			r.register("cu-1", func(d []annotations.Device) {
				device(r.t, d, r.grant("slice-a", 0, 0).UUID).Devmem = 65536
			})
		},
		[]string{"MemoryExceeded node cu-1"},
	},
	"more CUs than there are": {
		func(r *rig) {
			for _, pod := range []string{"slice-a", "slice-b"} {
				p := r.pod(pod)
				p.Spec.Containers[0].Resources.Limits[amd.DefaultCoreName] = resource.MustParse("60")
				r.edit(pod, annotations.AllocatedKey, ",76:", ",182:")
				r.edit(pod, "", `"0-75"`, `"0-181"`)
			}
			r.edit("slice-b", "", r.grant("slice-b", 0, 0).UUID, r.grant("slice-a", 0, 0).UUID)
		},
		[]string{"CUsExceeded node cu-1", "MaskOverlap node cu-1"},
	},
	"two pods on the same CUs": {
		func(r *rig) { r.edit("slice-b", "", r.grant("slice-b", 0, 0).UUID, r.grant("slice-a", 0, 0).UUID) },
		[]string{"MaskOverlap node cu-1"},
	},
}

func TestVerifyFindsEachPlanted(t *testing.T) {
	clean := cleanRig(t)
	covered := map[Code]bool{TooMany: true} // see TestProblemsOfOneObjectAreBounded
	said := map[string]string{}
	for _, table := range []map[string]planted{plantedOnNodes, plantedOnGPUs, plantedOnPods, plantedInSpecs, plantedInGrants, plantedInMasks} {
		for name, tc := range table {
			t.Run(name, func(t *testing.T) {
				r := clean.clone(t)
				tc.plant(r)
				var got []string
				for p := range r.cluster().All() {
					place := "node " + p.Node
					if p.Pod != "" {
						place = strings.TrimSpace("pod " + joinName(p.Namespace, p.Pod) + " " + p.Container)
					}
					got = append(got, string(p.Code)+" "+place)
					covered[p.Code] = true
					if p.Detail == "" || p.Remedy == "" || strings.ContainsAny(p.Detail+p.Remedy, "\n{") || len(p.Detail) > 600 {
						t.Errorf("want one line each: %q, %q", p.Detail, p.Remedy)
					}
					said[name] += p.String() + "\n  remedy: " + p.Remedy + "\n"
				}
				slices.Sort(got)
				want := slices.Sorted(slices.Values(tc.want))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("problems (-want +got):\n%s", diff)
				}
			})
		}
	}
	golden(t, "problems", said)
	for _, code := range Codes() {
		if !covered[code] {
			t.Errorf("no test plants a %s", code)
		}
		if code.Severity() == "" || code.Meaning() == "" || code.Remedy() == "" {
			t.Errorf("%s has no severity, no meaning or no remedy", code)
		}
	}
}

// golden compares texts with testdata/<name>.golden.
func golden(t *testing.T, name string, texts map[string]string) {
	t.Helper()
	var got strings.Builder
	for _, what := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&got, "# %s\n%s\n", what, texts[what])
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func running(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }
