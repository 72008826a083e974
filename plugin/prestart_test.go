package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// books are the files below the directories of the memory hook.
func books(t *testing.T, hookPath string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(hookPath, "vgpu/containers/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(filepath.Dir(found[i]))
	}
	return found
}

func TestContainerStartsWithFreshBooks(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	slice := []annotations.Grant{r.grant(0, 8192, 38)}
	p := r.pod("p", slice, slice, slice)
	p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers[:1], p.Spec.Containers[1:]
	r.bind(p)
	// Kubelet gives the init container's share to the first one after it.
	for _, slot := range []int{0, 0, 1} {
		r.mustAllocate(r.share(0, slot))
	}
	const prefix = "uid-of-p_"
	keep := func() {
		for _, name := range []string{"c0", "c1", "c2"} {
			fixturetest.Write(t, r.cfg.HookPath, "vgpu/containers/"+prefix+name+"/books", "used")
		}
	}
	start := func(ids ...string) {
		t.Helper()
		if err := r.Starts(partition.ResourceGPU, ids); err != nil {
			t.Error(err)
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, books(t, r.cfg.HookPath)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	keep()
	start(r.share(0, 1))
	check("the second container starts", prefix+"c0", prefix+"c1")
	keep()
	start(r.share(0, 0))
	check("the first one, which shares with an init container", prefix+"c2")
	keep()
	start(r.share(3, 0))
	start()
	if err := r.Starts("amd.com/cpx_nps1", []string{r.share(0, 1)}); err != nil {
		t.Error(err)
	}
	check("IDs of nobody", prefix+"c0", prefix+"c1", prefix+"c2")

	r.start("plugin") // which reads its file
	start(r.share(0, 1))
	check("after a restart of the plugin", prefix+"c0", prefix+"c1")

	if err := os.RemoveAll(filepath.Join(r.cfg.HookPath, "vgpu/containers", prefix+"c2")); err != nil {
		t.Fatal(err)
	}
	fixturetest.Write(t, r.cfg.HookPath, "vgpu/containers/"+prefix+"c2", "no directory")
	if err := r.Starts(partition.ResourceGPU, []string{r.share(0, 1)}); err == nil {
		t.Error("a container starts with books that cannot be removed")
	}
}

// Containers that an annotation names and the pod does not have are nobody's.
func TestAdoptedContainersAreThoseOfThePod(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 8192, 38)}))
	r.mustAllocate(r.share(0, 0))
	served := r.ledger.get("uid-of-p")
	text, err := annotations.EncodeContainerCUs(map[string]annotations.ContainerCUs{
		"c0": served.containers["c0"], "../x": {IDs: []string{r.share(0, 1)}, CUs: served.containers["c0"].CUs},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.server.edit("ns/p", func(p *corev1.Pod) { p.Annotations[annotations.CUContainersKey] = text })
	if err := os.Remove(filepath.Join(r.cfg.HookPath, "vgpu", stateName)); err != nil {
		t.Fatal(err)
	}
	r.start("plugin")
	if _, err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(served, r.ledger.get("uid-of-p"), sameRecords); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if err := r.Starts(partition.ResourceGPU, []string{r.share(0, 1)}); err != nil {
		t.Error(err)
	}
}

func TestPreStartContainer(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	alloc := &stubAllocator{startErr: errors.New("no space left")}
	r := startPlugin(t, cfg, alloc, nil)
	k.devices(partition.ResourceGPU, 10)
	ids := []string{"0000:03:00.0#1", "0000:03:00.0#2"}
	_, err := k.client(partition.ResourceGPU).api.PreStartContainer(t.Context(), &pluginapi.PreStartContainerRequest{DevicesIds: ids})
	if err == nil || err.Error() != "rpc error: code = Unknown desc = no space left" {
		t.Errorf("error %v", err)
	}
	eventually(t, "the log has it", func() bool { return countOf(r.logs, "no space left") == 1 })
	alloc.mu.Lock()
	alloc.startErr = nil
	alloc.mu.Unlock()
	if _, err := k.client(partition.ResourceGPU).api.PreStartContainer(t.Context(), &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		t.Error(err)
	}
	alloc.mu.Lock()
	defer alloc.mu.Unlock()
	if diff := cmp.Diff([][]string{ids, ids}, alloc.starts); diff != "" {
		t.Error(diff)
	}
}

// Kubelet does not tell about containers that keep no books: a start of theirs
// must not wait for the plugin.
func TestStandaloneIsNotToldOfStarts(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir, cfg.Standalone = k.root(), true
	startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 1)
	opts, err := k.client(partition.ResourceGPU).api.GetDevicePluginOptions(t.Context(), &pluginapi.Empty{})
	if err != nil || opts.PreStartRequired || !opts.GetPreferredAllocationAvailable {
		t.Errorf("options %v, %v", opts, err)
	}
}
