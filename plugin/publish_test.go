package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// once runs one round of the publisher and returns how long it would wait.
func (r *rig) once() (time.Duration, error) {
	wait := r.hamiAllocator.timing.publish
	err := r.publisher.once(r.Context(), r.src.Snapshot(), r.watch.holders, &wait)
	return wait, err
}

func (r *rig) mustOnce() {
	r.Helper()
	if _, err := r.once(); err != nil {
		r.Fatal(err)
	}
}

// patches are the writes since the last look, as method and path.
func (r *rig) patches() []string {
	var list []string
	for _, c := range r.server.reset() {
		if c.method != "GET" {
			list = append(list, c.String())
		}
	}
	return list
}

func (r *rig) registered() (string, bool) {
	value, ok := r.server.currentNode().Annotations[annotations.NodeRegisterKey]
	return value, ok
}

const nodePatch = "PATCH /api/v1/nodes/gpu-node"

func TestRegisterAnnotationFollowsTheLiveNode(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	want, err := annotations.EncodeDevices(r.src.Snapshot().Entries())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, patches ...string) {
		t.Helper()
		r.mustOnce()
		if diff := cmp.Diff(patches, r.patches()); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", what, diff)
		}
		if got, _ := r.registered(); got != want {
			t.Errorf("%s: annotation %.80q, want the devices", what, got)
		}
	}
	expect("first", nodePatch)
	expect("nothing has changed")
	r.server.editNode(func(n *corev1.Node) { delete(n.Annotations, annotations.NodeRegisterKey) })
	expect("the scheduler has deleted it", nodePatch)
	r.server.editNode(func(n *corev1.Node) { n.Annotations[annotations.NodeRegisterKey] = "[]" })
	expect("somebody has edited it", nodePatch)
	if got := r.server.currentNode().Annotations["some"]; got != "thing" {
		t.Errorf("another annotation %q, want it untouched", got)
	}
}

func TestRegisterAnnotationOfNoDevices(t *testing.T) {
	all := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	r := newRig(t, all)
	r.mustOnce()
	var bdfs []string
	for i := range all.Devices {
		bdfs = append(bdfs, string(all.Devices[i].GPU.BDF))
	}
	r.src.set(snapshotFrom(t, all.Inventory, partition.RegisterOptions{Exclude: bdfs}))
	r.patches()
	r.mustOnce()
	if value, there := r.registered(); there {
		t.Errorf("annotation %q with all GPUs excluded, want none", value)
	}
	r.mustOnce()
	if diff := cmp.Diff([]string{nodePatch}, r.patches()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestPublishingTriesAgain(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.timing = patient()
	r.start("plugin")
	refused := 0
	r.server.break_(func(c apiCall) apiFault {
		if c.String() == nodePatch && refused < 3 {
			refused++
			return apiFault{refuse: 403}
		}
		return apiFault{}
	})
	r.background()
	eventually(t, "the annotation is there in the end", func() bool { _, ok := r.registered(); return ok })
}

func TestDeviceChangesArePublishedAtOnce(t *testing.T) {
	all := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	r := newRig(t, all)
	r.background()
	eventually(t, "the annotation is there", func() bool { _, ok := r.registered(); return ok })
	sick := snapshotFrom(t, all.Inventory, partition.RegisterOptions{Unhealthy: map[partition.BDF]string{all.Devices[2].GPU.BDF: "it smokes"}})
	r.DevicesChanged(r.src.set(sick), sick)
	eventually(t, "one device is registered as unhealthy", func() bool {
		value, _ := r.registered()
		devices, err := annotations.DecodeDevices(value)
		return err == nil && len(devices) == 8 && !devices[2].Health && devices[3].Health
	})
	eventually(t, "an event says so", func() bool {
		return slices.ContainsFunc(r.server.recorded(), func(e corev1.Event) bool {
			return e.Reason == eventUnhealthy && strings.Contains(e.Message, "it smokes") && strings.Contains(e.Message, string(all.Devices[2].GPU.BDF)) &&
				e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == testNode
		})
	})
}

func TestNodeCapacity(t *testing.T) {
	all := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	mib, cus := int64(all.Devices[0].Devmem), int64(all.Devices[0].Devcore)
	r := newRig(t, all, func(c *Config) { c.ReportNodeCapacity = true })
	r.server.editNode(func(n *corev1.Node) {
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("96"), partition.ResourceGPU: resource.MustParse("80")}
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	})
	expect := func(what string, mib, cus int64) {
		t.Helper()
		r.mustOnce()
		status := r.server.currentNode().Status
		for name, list := range map[string]corev1.ResourceList{"capacity": status.Capacity, "allocatable": status.Allocatable} {
			want := corev1.ResourceList{"cpu": resource.MustParse("96"), partition.ResourceGPU: resource.MustParse("80")}
			if mib >= 0 {
				want["amd.com/gpumem"], want["amd.com/gpucores"] = *resource.NewQuantity(mib, resource.DecimalSI), *resource.NewQuantity(cus, resource.DecimalSI)
			}
			if len(list) != len(want) {
				t.Errorf("%s: %s %v, want %v", what, name, list, want)
			}
			for resource, q := range want {
				if have := list[resource]; have.Cmp(q) != 0 {
					t.Errorf("%s: %s of %s %s, want %s", what, name, resource, &have, &q)
				}
			}
		}
	}
	expect("eight healthy GPUs", 8*mib, 8*cus)
	r.patches()
	r.mustOnce()
	if got := r.patches(); len(got) > 0 {
		t.Errorf("nothing has changed, and yet %q", got)
	}
	r.src.set(snapshotFrom(t, all.Inventory, partition.RegisterOptions{Unhealthy: map[partition.BDF]string{all.Devices[2].GPU.BDF: "sick"}}))
	expect("one of them sick", 7*mib, 7*cus)

	r.cfg.ReportNodeCapacity = false
	r.start("plugin")
	expect("switched off", -1, -1)
	r.patches()
	r.mustOnce()
	if got := r.patches(); len(got) > 0 {
		t.Errorf("nothing to clean up, and yet %q", got)
	}
}

// TestCapacityCleanUpWithoutTheRight: the right to patch a node's status goes
// away with the setting, and publishing must not suffer.
func TestCapacityCleanUpWithoutTheRight(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.server.editNode(func(n *corev1.Node) {
		n.Status.Capacity = corev1.ResourceList{"amd.com/gpumem": resource.MustParse("1")}
	})
	r.server.break_(func(c apiCall) apiFault {
		if strings.HasSuffix(c.path, "/status") {
			return apiFault{refuse: 403}
		}
		return apiFault{}
	})
	wait, err := r.once()
	if err != nil || wait != defaultTiming().publish {
		t.Errorf("publish: %v, next in %v, want no error and no hurry", err, wait)
	}
	if _, there := r.registered(); !there {
		t.Error("the annotation is missing")
	}
}

func TestLocksAreLookedAtSooner(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.mustOnce()
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 1024, 8)}))
	if wait, err := r.once(); err != nil || wait != defaultTiming().publishLocked {
		t.Errorf("next look in %v, %v, want %v", wait, err, defaultTiming().publishLocked)
	}
	r.server.editNode(func(n *corev1.Node) { n.Annotations[annotations.NodeLockKey] = "a,b" })
	if _, err := r.once(); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("a malformed lock: %v, want a word about it", err)
	}
	if _, err := r.once(); err != nil {
		t.Errorf("a malformed lock, again: %v, want it said once", err)
	}
}

func TestModeChangesInUse(t *testing.T) {
	spx := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	events := func(r *rig) []string {
		var list []string
		for _, e := range r.server.recorded() {
			if e.Reason == eventModeChangedInUse {
				list = append(list, e.Type+" "+e.Message)
			}
		}
		return list
	}
	changed := func(r *rig) func() bool {
		return func() bool {
			list := events(r)
			return len(list) == 1 && strings.HasPrefix(list[0], "Warning ") && strings.Contains(list[0], "ns/p")
		}
	}
	// serve has pod p on GPU 0 and another pod that ended.
	serve := func(t *testing.T) *rig {
		r := newRig(t, spx)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 1024, 8)}))
		r.mustAllocate(r.share(0, 0))
		r.run("ns/p")
		r.bind(r.pod("ended", []annotations.Grant{r.grant(1, 1024, 8)}))
		r.mustAllocate(r.share(1, 0))
		r.phase("ns/ended", corev1.PodSucceeded)
		return r
	}
	t.Run("while the plugin was down", func(t *testing.T) {
		r := serve(t)
		r.mustOnce()
		r.src.set(snapshotOf(t, "mi300x-cpx-8", partition.RegisterOptions{Mode: partition.ModePartition}))
		r.start("plugin")
		r.background()
		eventually(t, "an event names the pod", changed(r))
		if strings.Contains(events(r)[0], "ns/ended") {
			t.Errorf("event %q names a pod that has ended", events(r)[0])
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		hard := partition.RegisterOptions{Mode: partition.ModePartition}
		r := newRig(t, snapshotOf(t, "mi300x-spx-8", hard))
		r.background()
		eventually(t, "the annotation is there", func() bool { _, ok := r.registered(); return ok })
		r.bind(r.pod("p", []annotations.Grant{r.whole(0)}))
		r.mustAllocate(r.device(0).KubeletIDs[0])
		r.run("ns/p")
		eventually(t, "the pod is known", func() bool { return len(r.watch.holders()) == 1 })
		next := snapshotOf(t, "mi300x-cpx-8", hard)
		r.DevicesChanged(r.src.set(next), next)
		eventually(t, "an event names the pod", changed(r))
	})
	t.Run("nobody holds a GPU", func(t *testing.T) {
		r := newRig(t, spx)
		r.mustOnce()
		r.src.set(snapshotOf(t, "mi300x-cpx-8", partition.RegisterOptions{Mode: partition.ModePartition}))
		r.start("plugin")
		r.mustOnce()
		if got := events(r); len(got) > 0 {
			t.Errorf("events %q, want none", got)
		}
	})
}

func TestCapacityIsComparedInNoTime(t *testing.T) {
	const memory, cores = amd.DefaultMemoryName, amd.DefaultCoreName
	want := map[corev1.ResourceName]int64{memory: 1572736, cores: 2432}
	text := func(s string) *string { return &s }
	for name, tc := range map[string]struct {
		memory, cores string
		want          map[corev1.ResourceName]*string
	}{
		"as it shall be":            {"1572736", "2432", map[corev1.ResourceName]*string{}},
		"the same, written as kilo": {"1572736", "2.432k", map[corev1.ResourceName]*string{}},
		"one less":                  {"1572735", "2432", map[corev1.ResourceName]*string{memory: text("1572736")}},
		"a thousandth more":         {"1572736001m", "2432", map[corev1.ResourceName]*string{memory: text("1572736")}},
		"a thousand million digits": {"1e999999999", "2432", map[corev1.ResourceName]*string{memory: text("1572736")}},
	} {
		t.Run(name, func(t *testing.T) {
			have := corev1.ResourceList{memory: resource.MustParse(tc.memory), cores: resource.MustParse(tc.cores)}
			if d := cmp.Diff(tc.want, differences(have, want)); d != "" {
				t.Error(d)
			}
		})
	}
}
