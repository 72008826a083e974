package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// A whole GPU comes without mask, limit and hook, and is shared with nobody.
func TestC43WholeGPU(t *testing.T) {
	n := lab.Start(t, node.Options{})
	s := n.MustPlace(n.Pod("whole", node.Whole("app", 1)))
	want := kubelet.Container{
		Env:         map[string]string{"ROCR_VISIBLE_DEVICES": lastROCr, "HIP_VISIBLE_DEVICES": "0"},
		Devices:     nodes(lastCard, lastRender, "/dev/kfd"),
		Annotations: map[string]string{},
	}
	if diff := cmp.Diff(want, s.Containers["app"]); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if got, want := n.Notes(s.Pod)[annotations.CUAllocatedKey], `{"`+lastGPU+`":"0-303"}`; got != want {
		t.Errorf("recorded CUs %s, want %s", got, want)
	}
	n.Check()
	if _, err := n.Place(onOneGPU(n.Pod("slice", node.Slice("app", 1, 1, 100)))); err == nil {
		t.Error("a slice was placed on a GPU that is held whole")
	}
}

// partitionMode is a node in partition mode.
func partitionMode(machine string, devices int64) node.Options {
	return node.Options{
		Machine: machine, Annotations: map[string]string{annotations.OperatingModeKey: "partition"},
		Want: map[corev1.ResourceName]int64{"amd.com/gpu": devices},
	}
}

func TestHardPartitions(t *testing.T) {
	for machine, tt := range map[string]struct {
		devices int64
		take    string // what the first pod names: 1, 2 or 3 devices
		visible string
	}{
		// The partitions of a GPU have one unique id: they are told apart by
		// their rank among the container's devices.
		"mi300x-cpx-8": {
			devices: 64, visible: "2,1,0",
			take: lastGPU + "-p0," + lastGPU + "-p1," + lastGPU + "-p5",
		},
		"mi355x-qpx-8": {
			devices: 32, visible: "GPU-7c33b49ce0b8c454,GPU-ddfc3ae3616e483f",
			take: "c6ff75a3-0000-1000-802a-c130ee448403-p0,c6ff75a3-0000-1000-802a-c130ee448403-p1",
		},
		// Without render nodes of their own the partitions of a GPU are one
		// device, and four agents of ROCr.
		"mi355x-qpx-8-noxcp": {
			devices: 8, visible: "0,1,2,3", take: "c6ff75a3-0000-1000-802a-c130ee448403",
		},
	} {
		t.Run(machine, func(t *testing.T) {
			n := lab.Start(t, partitionMode(machine, tt.devices))
			if !strings.Contains(n.PluginLog(), "operating mode: partition") {
				t.Error("the log does not say: operating mode: partition")
			}
			take := int64(len(strings.Split(tt.take, ",")))
			pod := n.Pod("first", node.Whole("app", take))
			pod.Annotations = map[string]string{annotations.UseUUIDKey: tt.take}
			s := n.MustPlace(pod)
			app := s.Containers["app"]
			if len(app.Mounts) > 0 || app.Env["HSA_CU_MASK"] != "" {
				t.Errorf("a hard partition came with %v and %v", app.Env, app.Mounts)
			}
			if got := app.Env["ROCR_VISIBLE_DEVICES"]; got != tt.visible {
				t.Errorf("ROCR_VISIBLE_DEVICES %q, want %q", got, tt.visible)
			}
			n.Check()
			// Kubelet's IDs are those of the devices granted.
			if diff := cmp.Diff(grantedIDs(n, s), n.IDs(s, "app")); diff != "" {
				t.Errorf("kubelet's IDs (-granted +got):\n%s", diff)
			}
			rest := tt.devices - take
			for i := int64(0); rest > 0; i++ {
				count := min(rest, 8)
				n.MustPlace(n.Pod(fmt.Sprintf("rest-%d", i), node.Whole("app", count)))
				rest -= count
			}
			n.Check()
			if _, err := n.Place(n.Pod("late", node.Whole("app", 1))); err == nil {
				t.Error("a device was handed out twice")
			}
		})
	}
}

// grantedIDs are the kubelet IDs of the hard devices a pod was granted, sorted.
func grantedIDs(n *node.Node, s *node.Served) []string {
	n.Helper()
	grants, err := annotations.DecodePod(n.Notes(s.Pod)[annotations.AllocatedKey])
	if err != nil {
		n.Fatal(err)
	}
	granted := make(map[string]bool)
	for _, g := range grants[0] {
		id, part, isPart := strings.Cut(g.UUID, "-p")
		for _, gpu := range n.Inventory().GPUs {
			if gpu.UUID() != id {
				continue
			}
			if granted[string(gpu.BDF)] = true; isPart {
				delete(granted, string(gpu.BDF))
				granted[string(gpu.BDF)+"-p"+part] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(granted))
}

// In mixed naming a partition is a resource of its own, outside HAMi: kubelet
// chooses, and the scheduler does not see it.
func TestMixedNaming(t *testing.T) {
	o := partitionMode("mi300x-cpx-8", 0)
	o.Flags = []string{"-resource_naming_strategy=mixed"}
	o.Want = map[corev1.ResourceName]int64{"amd.com/cpx_nps1": 64}
	n := lab.Start(t, o)
	if text, there := n.Object().Annotations[annotations.NodeRegisterKey]; there {
		t.Errorf("devices outside HAMi are registered: %s", text)
	}
	held := make(map[string]bool)
	for i := range 3 {
		pod := n.BindOutsideHAMi(n.Pod(fmt.Sprintf("pod-%d", i), node.Asks("app", "amd.com/cpx_nps1", 8)))
		s, err := n.Admit(pod)
		if err != nil {
			t.Fatal(err)
		}
		gpus := make(map[string]bool)
		for _, id := range n.Kubelet.DeviceIDs(pod.UID, "app")["amd.com/cpx_nps1"] {
			if held[id] {
				t.Errorf("%s was handed out twice", id)
			}
			held[id] = true
			bdf, _, _ := strings.Cut(id, "-p")
			gpus[bdf] = true
		}
		// The partitions of one GPU are the closest.
		if app := s.Containers["app"]; len(gpus) != 1 || len(app.Devices) != 1+2*8 || app.Env["ROCR_VISIBLE_DEVICES"] != "0,1,2,3,4,5,6,7" {
			t.Errorf("pod %d: partitions of %d GPUs, devices %v, env %v", i, len(gpus), app.Devices, app.Env)
		}
	}
	if _, err := n.Admit(n.BindOutsideHAMi(n.Pod("gpu", node.Whole("app", 1)))); err == nil {
		t.Error("a pod got amd.com/gpu on a node that has none")
	}
}

// GPUs that cannot be partitioned are HAMi's whatever the names of partitions.
func TestMixedNamingBesideHAMi(t *testing.T) {
	n := lab.Start(t, node.Options{
		Machine: "mi300x-vf", Flags: []string{"-resource_naming_strategy=mixed"}, Env: map[string]string{"OPERATING_MODE": "partition"},
		Want: map[corev1.ResourceName]int64{"amd.com/gpu": 20},
	})
	n.CheckPlaced(n.Place(n.Pod("slice", node.Slice("app", 1, 25, 16384))))
}

// Without HAMi and without an API server kubelet's choice is handed out, whole.
func TestStandalone(t *testing.T) {
	n := lab.Start(t, node.Options{
		Flags: []string{"-standalone", "-kubeconfig=/nonexistent", "-split_count=4"}, Env: map[string]string{"NODE_NAME": ""},
		Want: map[corev1.ResourceName]int64{"amd.com/gpu": 8},
	})
	seen := make(map[string]bool)
	for i := range 4 {
		s, err := n.Admit(n.BindOutsideHAMi(n.Pod(fmt.Sprintf("pod-%d", i), node.Whole("app", 2))))
		if err != nil {
			t.Fatal(err)
		}
		app := s.Containers["app"]
		if len(app.Devices) != 1+2*2 || len(app.Env) != 2 || len(app.Mounts) > 0 {
			t.Errorf("pod %d: devices %v, env %v, mounts %v", i, app.Devices, app.Env, app.Mounts)
		}
		for id := range strings.SplitSeq(app.Env["ROCR_VISIBLE_DEVICES"], ",") {
			if seen[id] {
				t.Errorf("%s was handed out twice", id)
			}
			seen[id] = true
		}
	}
	if _, err := n.Admit(n.BindOutsideHAMi(n.Pod("late", node.Whole("app", 1)))); err == nil {
		t.Error("a GPU was handed out twice")
	}
	if calls := n.Proxy.Calls(); len(calls) > 0 {
		t.Errorf("the API server was called: %v", calls)
	}
}
