package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
	"github.com/Project-HAMi/hami-amd/hook"
)

// The GPU that HAMi's scheduler takes first on an idle mi300x-spx-8: the last.
const (
	lastGPU    = "c8ff74a1-0000-1000-801e-70b95fd3a426"
	lastBDF    = "0000:e5:00.0"
	lastROCr   = "GPU-c81e70b95fd3a426"
	lastCard   = "/dev/dri/card57"
	lastRender = "/dev/dri/renderD184"
)

// nodes are device nodes at the paths of the host.
func nodes(paths ...string) (list []kubelet.Device) {
	for _, path := range paths {
		list = append(list, kubelet.Device{Host: path, Container: path, Permissions: "rw"})
	}
	return list
}

func TestSlice(t *testing.T) {
	n := lab.Start(t, node.Options{Env: map[string]string{"LIBHIP_LOG_LEVEL": "3"}})
	first := n.MustPlace(n.Pod("first", node.Slice("app", 1, 25, 16384)))
	vgpu := filepath.Join(n.HookPath(), "vgpu")
	want := map[string]kubelet.Container{"app": {
		Env: map[string]string{
			"ROCR_VISIBLE_DEVICES": lastROCr, "HIP_VISIBLE_DEVICES": "0", "HSA_CU_MASK": "0:0-75",
			"HIP_DEVICE_MEMORY_LIMIT": "16384m", "HIP_DEVICE_MEMORY_LIMIT_0": "16384m",
			"HIP_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/shared/hipdevshr.cache",
			"LD_AUDIT":                       "/usr/local/vgpu/libamvgpu.so", "LIBHIP_LOG_LEVEL": "3",
		},
		Devices: nodes(lastCard, lastRender, "/dev/kfd"),
		Mounts: []kubelet.Mount{
			{Host: filepath.Join(vgpu, "libamvgpu.so"), Container: "/usr/local/vgpu/libamvgpu.so", ReadOnly: true},
			{Host: filepath.Join(vgpu, "containers", string(first.Pod.UID)+"_app"), Container: "/usr/local/vgpu/shared"},
		},
		Annotations: map[string]string{},
	}}
	if diff := cmp.Diff(want, first.Containers); diff != "" {
		t.Errorf("first pod (-want +got):\n%s", diff)
	}
	const grant = lastGPU + ",AMD Instinct MI300X,16384,76:;"
	wantNotes := map[string]string{
		annotations.AllocatedKey: grant, annotations.ToAllocateKey: ";", annotations.BindPhaseKey: "success",
		annotations.CUAllocatedKey:  `{"` + lastGPU + `":"0-75"}`,
		annotations.CUContainersKey: `{"app":{"ids":["` + lastBDF + `#0"],"cus":{"` + lastGPU + `":"0-75"}}}`,
	}
	if diff := cmp.Diff(wantNotes, n.Notes(first.Pod)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	n.Check()

	// Three more fill the GPU, and a fifth pod goes to another.
	for i := range 4 {
		name := fmt.Sprintf("next-%d", i)
		pod := n.Pod(name, node.Slice("app", 1, 25, 16384))
		pod.Annotations = map[string]string{annotations.GPUSchedulerPolicyKey: annotations.PolicyBinpack}
		s := n.MustPlace(pod)
		n.Check()
		if full := i == 3; (s.Containers["app"].Env["ROCR_VISIBLE_DEVICES"] != lastROCr) != full {
			t.Errorf("%s is on %s", name, s.Containers["app"].Env["ROCR_VISIBLE_DEVICES"])
		}
	}
}

// Of CUs or memory alone. Whether memory alone comes with CUs is HAMi's setting.
func TestSlicesOfOneKind(t *testing.T) {
	var none int32
	n := lab.Start(t, node.Options{Scheduler: scheduler.Options{Config: amd.Config{DefaultCores: &none}}})
	cores := n.MustPlace(n.Pod("cores", node.Asks("app", "amd.com/gpucores", 50)))
	if env := cores.Containers["app"].Env; env["HSA_CU_MASK"] != "0:0-151" || env[hook.LimitEnv] != "196592m" {
		t.Errorf("half of the CUs: mask %q, limit %q", env["HSA_CU_MASK"], env[hook.LimitEnv])
	}
	memory := n.MustPlace(n.Pod("memory", node.Asks("app", "amd.com/gpumem", 1000)))
	if env := memory.Containers["app"].Env; env["HSA_CU_MASK"] != "" || env[hook.LimitEnv] != "1000m" {
		t.Errorf("memory alone: mask %q, limit %q", env["HSA_CU_MASK"], env[hook.LimitEnv])
	}
	n.Check()
}

// RDNA hands out whole WGPs, on a GPU without a NUMA node.
func TestSlicesOfWGPs(t *testing.T) {
	n := lab.Start(t, node.Options{Machine: "rx9060xt"})
	first := n.MustPlace(n.Pod("first", node.Slice("app", 1, 10, 4096)))
	if mask := first.Containers["app"].Env["HSA_CU_MASK"]; mask != "0:0-3" {
		t.Errorf("10%% of 32 CUs in pairs: mask %q, want 0:0-3", mask)
	}
	n.CheckPlaced(n.Place(n.Pod("second", node.Slice("app", 1, 87, 4096))))
	if _, err := n.Place(n.Pod("third", node.Slice("app", 1, 1, 100))); err == nil {
		t.Error("a third pod on a GPU that two may share was placed")
	}
}

func TestSeveralGPUs(t *testing.T) {
	n := lab.Start(t, node.Options{})
	s := n.MustPlace(n.Pod("wide", node.Slice("app", 4, 50, 8192)))
	app := s.Containers["app"]
	masks, err := cumask.ParseHSAMask(app.Env["HSA_CU_MASK"])
	if err != nil || len(masks) != 4 {
		t.Errorf("masks %q (%v), want four", app.Env["HSA_CU_MASK"], err)
	}
	if len(app.Devices) != 1+2*4 {
		t.Errorf("devices %v, want /dev/kfd, four cards and four render nodes", app.Devices)
	}
	n.Check()
}

// With grants kubelet takes the IDs of the granted GPUs, which are the closest:
// of two hives of four, one.
func TestSeveralGPUsFollowTheScheduler(t *testing.T) {
	n := lab.Start(t, node.Options{Machine: "mi210-8"})
	pod := n.Pod("wide", node.Slice("app", 4, 50, 8192))
	pod.Annotations = map[string]string{annotations.GPUSchedulerPolicyKey: annotations.PolicyTopology}
	s := n.MustPlace(pod)
	if got := hives(n, n.IDs(s, "app")); len(got) != 1 {
		t.Errorf("the GPUs are of %d hives, want one", len(got))
	}
	n.Check()
	grants, err := annotations.DecodePod(n.Notes(s.Pod)[annotations.AllocatedKey])
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	for _, g := range grants[0] {
		for _, gpu := range n.Inventory().GPUs {
			if gpu.UUID() == g.UUID {
				granted = append(granted, string(gpu.BDF))
			}
		}
	}
	var taken []string
	for _, id := range n.IDs(s, "app") {
		bdf, _, _ := strings.Cut(id, "#")
		taken = append(taken, bdf)
	}
	slices.Sort(granted)
	if diff := cmp.Diff(granted, taken); diff != "" {
		t.Errorf("GPUs of kubelet's IDs (-granted +got):\n%s", diff)
	}
}

// hives are the XGMI hives that the GPUs of some kubelet IDs are in.
func hives(n *node.Node, ids []string) map[uint64]bool {
	found := make(map[uint64]bool)
	for _, gpu := range n.Inventory().GPUs {
		for _, id := range ids {
			if bdf, _, _ := strings.Cut(id, "#"); bdf == string(gpu.BDF) {
				found[gpu.HiveID] = true
			}
		}
	}
	return found
}

// Without grants the plugin's advice decides: the closest GPUs, or the farthest.
func TestAllocatorPolicyWithoutHAMi(t *testing.T) {
	for policy, want := range map[string]int{"besteffort": 1, "spread": 2} {
		t.Run(policy, func(t *testing.T) {
			n := lab.Start(t, node.Options{Machine: "mi210-8", Flags: []string{"-standalone", "-allocator_policy=" + policy}})
			s, err := n.Admit(n.BindOutsideHAMi(n.Pod("wide", node.Whole("app", 4))))
			if err != nil {
				t.Fatal(err)
			}
			if got := hives(n, n.IDs(s, "app")); len(got) != want {
				t.Errorf("kubelet took GPUs of %d hives, want %d", len(got), want)
			}
		})
	}
}
