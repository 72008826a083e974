package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

func hostPaths(c *pluginapi.ContainerAllocateResponse) string {
	var paths []string
	for _, d := range c.Devices {
		paths = append(paths, d.HostPath+":"+d.Permissions)
	}
	return strings.Join(paths, " ")
}

func TestStandaloneServesKubeletsChoiceWhole(t *testing.T) {
	snap := snapshotOf(t, "rx9060xt", partition.RegisterOptions{SplitCount: 1})
	a, err := newAllocator(Config{Standalone: true}, Deps{}, &fakeSource{snap: snap})
	if err != nil {
		t.Fatal(err)
	}
	d := snap.Devices[0]
	answer, err := a.Allocate(t.Context(), partition.ResourceGPU, [][]string{d.KubeletIDs})
	if err != nil {
		t.Fatal(err)
	}
	c := answer.ContainerResponses[0]
	if c.Envs["HIP_VISIBLE_DEVICES"] != "0" || len(c.Envs) != 2 || len(c.Mounts) > 0 {
		t.Errorf("env %v, mounts %v, want visibility alone", c.Envs, c.Mounts)
	}
	if got := hostPaths(c); !strings.HasPrefix(got, "/dev/kfd:rw /dev/dri/card") || !strings.Contains(got, "/dev/dri/renderD128:rw") {
		t.Errorf("devices %q", got)
	}
	for name, ids := range map[string][]string{"unknown": {"x"}, "twice": {d.KubeletIDs[0], d.KubeletIDs[0]}} {
		if _, err := a.Allocate(t.Context(), partition.ResourceGPU, [][]string{ids}); err == nil {
			t.Errorf("%s ID: no error", name)
		}
	}
	if got := a.Pending(t.Context(), partition.ResourceGPU, []int{1}); got.granted != nil || got.served != nil {
		t.Errorf("Pending = %v, want nothing", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a.DevicesChanged(snap, snap)
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	if _, err := newAllocator(Config{NodeName: "n", HookPath: t.TempDir()}, Deps{}, &fakeSource{snap: snap}); err == nil {
		t.Error("without a client and not standalone: no error")
	}
}

func TestMixedNamingIsOutsideHAMi(t *testing.T) {
	mixed := partition.RegisterOptions{Mode: partition.ModePartition, Naming: partition.NamingMixed}
	r := newRig(t, snapshotOf(t, "mi355x-qpx-8", mixed))
	resource := r.device(0).Resource
	if resource != "amd.com/qpx_nps1" {
		t.Fatalf("resource %q, want amd.com/qpx_nps1", resource)
	}
	ids := []string{r.device(5).KubeletIDs[0], r.device(1).KubeletIDs[0]}
	answer, err := r.Allocate(t.Context(), resource, [][]string{ids})
	if err != nil {
		t.Fatal(err)
	}
	c := answer.ContainerResponses[0]
	for name, want := range map[string]string{"HIP_VISIBLE_DEVICES": "0,1", "HSA_CU_MASK": "", "LD_AUDIT": "", "HIP_DEVICE_MEMORY_LIMIT": ""} {
		if got := c.Envs[name]; got != want {
			t.Errorf("env %s = %q, want %q", name, got, want)
		}
	}
	if n := len(c.Devices); n != 5 {
		t.Errorf("%d device nodes, want kfd, two cards and two render nodes", n)
	}
	if calls := r.server.reset(); len(calls) > 0 {
		t.Errorf("API calls %q, want none", callsOf(calls))
	}
	if _, err := r.Allocate(t.Context(), partition.ResourceGPU, [][]string{ids}); err == nil {
		t.Error("the IDs of one resource served as another's")
	}
	r.mustOnce()
	if value, there := r.registered(); there {
		t.Errorf("register annotation %q, want none for devices HAMi does not schedule", value)
	}
}

func TestCDINamesInsteadOfNodes(t *testing.T) {
	snap := snapshotOf(t, "rx9060xt", partition.RegisterOptions{SplitCount: 1})
	src := &fakeSource{snap: snap}
	a, err := newAllocator(Config{Standalone: true, CDISpecDir: t.TempDir()}, Deps{}, src)
	if err != nil {
		t.Fatal(err)
	}
	get := func() *pluginapi.ContainerAllocateResponse {
		t.Helper()
		answer, err := a.Allocate(t.Context(), partition.ResourceGPU, [][]string{snap.Devices[0].KubeletIDs})
		if err != nil {
			t.Fatal(err)
		}
		return answer.ContainerResponses[0]
	}
	c := get()
	if len(c.Devices) > 0 || len(c.CdiDevices) != 1 || !strings.HasPrefix(c.CdiDevices[0].Name, "amd.com/gpu=card") {
		t.Errorf("devices %v, CDI %v, want CDI alone", c.Devices, c.CdiDevices)
	}
	src.cdiErr = errors.New("disk full")
	if c = get(); len(c.Devices) == 0 || len(c.CdiDevices) > 0 {
		t.Errorf("devices %v, CDI %v, want device nodes where CDI names cannot be resolved", c.Devices, c.CdiDevices)
	}
	if diff := cmp.Diff("/dev/kfd", c.Devices[0].HostPath); diff != "" {
		t.Errorf("first device (-want +got):\n%s", diff)
	}
}
