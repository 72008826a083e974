package plugin

import (
	"context"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// withDmem gives the rig's node a kernel with the dmem controller and the
// region of every GPU.
func (r *rig) withDmem() *dmemtest.Kernel {
	r.Helper()
	k, err := dmemtest.New(r.TempDir(), dmemtest.Options{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { k.Close() })
	for i := range r.src.Snapshot().Inventory.GPUs {
		g := &r.src.Snapshot().Inventory.GPUs[i]
		if err := k.AddRegion("drm/"+string(g.BDF)+"/vram", *g.VRAMBytes); err != nil {
			r.Fatal(err)
		}
	}
	if err := k.Mkdir(dmem.KubepodsSlice); err != nil {
		r.Fatal(err)
	}
	tree := dmem.New(k)
	if err := tree.Prepare(); err != nil {
		r.Fatal(err)
	}
	r.caps = newCapper(tree, testLog(r.TB))
	return k
}

// cgroupOf makes the cgroup of a guaranteed pod, as kubelet does some time
// after Allocate.
func cgroupOf(t *testing.T, k *dmemtest.Kernel, pod *corev1.Pod) string {
	t.Helper()
	dir, err := dmem.PodPath(dmem.Systemd, dmem.Pod{UID: string(pod.UID), QoS: dmem.Guaranteed})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// limitIn is the limit of a GPU in a cgroup as the kernel prints it.
func limitIn(k *dmemtest.Kernel, dir string, bdf partition.BDF) string {
	usage, err := dmem.New(k).Usage(dir)
	if err != nil {
		return err.Error()
	}
	for _, u := range usage {
		if u.Region == "drm/"+string(bdf)+"/vram" && u.Max != nil {
			return u.Max.String()
		}
	}
	return "absent"
}

func TestVRAMIsCappedAfterAllocateAndAfterARestart(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	k := r.withDmem()
	end := r.background()
	p := r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}, []annotations.Grant{r.grant(0, 8192, 38), r.whole(1)})
	p.UID, p.Status.QOSClass = "6c1a0f4e-0000-4000-8000-000000000001", corev1.PodQOSGuaranteed
	r.bind(p)
	r.mustAllocate(r.share(0, 0))
	r.mustAllocate(r.share(0, 1), r.share(1, 0))
	dir := cgroupOf(t, k, p)
	want := strconv.Itoa((16384 + 8192) << 20)
	eventually(t, "the limit of both containers holds", func() bool { return limitIn(k, dir, r.device(0).GPU.BDF) == want })
	if got := limitIn(k, dir, r.device(1).GPU.BDF); got != "max" {
		t.Errorf("limit of the whole GPU %s, want max", got)
	}
	r.run("ns/p")
	end()

	// The machine was restarted: the cgroup is new, the pod the same.
	if err := k.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.start("plugin")
	r.caps = newCapper(dmem.New(k), testLog(t))
	r.background()
	dir = cgroupOf(t, k, p)
	eventually(t, "the limit holds again", func() bool { return limitIn(k, dir, r.device(0).GPU.BDF) == want })
}

func TestCapsEndWithThePluginAndThePod(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.withDmem()
	end := r.background()
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	r.mustAllocate(r.share(0, 0))
	r.server.remove("ns/p")
	eventually(t, "the pod is forgotten", func() bool {
		r.caps.mu.Lock()
		defer r.caps.mu.Unlock()
		return len(r.caps.pods) == 0
	})
	end() // returns although a cgroup is waited for
}

func TestCapsOfPods(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.withDmem()
	caps := func(grants ...[]annotations.Grant) map[string]uint64 {
		t.Helper()
		p := r.pod("p", grants...)
		spec, _, err := readSpec(r.scheduler, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.caps.capsOf(p, spec, r.src.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		m := make(map[string]uint64)
		for _, c := range got.Caps {
			m[path.Base(path.Dir(c.Region))] = c.Bytes >> 20
		}
		return m
	}
	bdf := func(i int) string { return string(r.device(i).GPU.BDF) }
	for name, tt := range map[string]struct {
		got, want map[string]uint64
	}{
		"slice":              {caps([]annotations.Grant{r.grant(0, 1024, 8)}), map[string]uint64{bdf(0): 1024}},
		"memory only":        {caps([]annotations.Grant{r.grant(0, 1024, 0)}), map[string]uint64{bdf(0): 1024}},
		"whole":              {caps([]annotations.Grant{r.whole(0)}), map[string]uint64{}},
		"all memory, sliced": {caps([]annotations.Grant{r.grant(0, r.device(0).Devmem, 8)}), map[string]uint64{bdf(0): uint64(r.device(0).Devmem)}},
		"two GPUs":           {caps([]annotations.Grant{r.grant(0, 1024, 8), r.grant(1, 2048, 8)}), map[string]uint64{bdf(0): 1024, bdf(1): 2048}},
		"device that left":   {caps([]annotations.Grant{{UUID: "gone", Type: "AMD X", MemoryMiB: 1, CUs: 1}}), map[string]uint64{}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	r = newRig(t, snapshotOf(t, "mi355x-qpx-8", partition.RegisterOptions{Mode: partition.ModePartition, MemoryScaling: 2}))
	r.withDmem()
	quarter := *r.device(0).Nodes[0].VRAMBytes >> 20
	for name, tt := range map[string]struct {
		got, want map[string]uint64
	}{
		"one partition, not scaled": {caps([]annotations.Grant{r.whole(0)}), map[string]uint64{bdf(0): quarter}},
		"two partitions":            {caps([]annotations.Grant{r.whole(0), r.whole(1)}), map[string]uint64{bdf(0): 2 * quarter}},
		"all four":                  {caps([]annotations.Grant{r.whole(0), r.whole(1)}, []annotations.Grant{r.whole(2), r.whole(3)}), map[string]uint64{}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatTheKernelLimits(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	slice := []annotations.Grant{r.grant(0, 1024, 8), r.grant(1, 1024, 8)}
	if r.caps.limitsAll(slice, r.src.Snapshot()) {
		t.Error("a node without dmem: want no limit")
	}
	k := r.withDmem()
	if !r.caps.limitsAll(slice, r.src.Snapshot()) {
		t.Error("all regions are there: want a limit")
	}
	if err := k.RemoveRegion("drm/" + string(r.device(1).GPU.BDF) + "/vram"); err != nil {
		t.Fatal(err)
	}
	if r.caps.limitsAll(slice, r.src.Snapshot()) {
		t.Error("one region is missing: want no limit")
	}

	apu := newRig(t, snapshotOf(t, "apu-8060s", partition.RegisterOptions{}))
	apu.withDmem()
	if apu.caps.limitsAll([]annotations.Grant{apu.grant(0, 1024, 8)}, apu.src.Snapshot()) {
		t.Error("an APU, whose memory the controller does not count: want no limit")
	}
}

func TestNodesWithoutDmem(t *testing.T) {
	for name, cfg := range map[string]Config{
		"switched off": {DisableDmem: true, CgroupRoot: t.TempDir()},
		"no cgroup2":   {CgroupRoot: t.TempDir()},
		"no folder":    {CgroupRoot: t.TempDir() + "/none"},
	} {
		deps, logs := testLogger(t)
		tree := openDmem(cfg, deps.Log)
		if tree != nil {
			t.Errorf("%s: got a tree", name)
		}
		if text := logs.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "VRAM of slices is not capped by the kernel") {
			t.Errorf("%s: want one line that says so, got %q", name, text)
		}
		c := newCapper(tree, testLog(t))
		c.want(&corev1.Pod{}, allocate.Pod{}, &snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c.run(ctx)
		if err := c.close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
