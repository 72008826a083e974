package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestOperatingModeIsResolvedAndLogged(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(settings, []byte("nodeconfig: [{name: node-1, operatingMode: partition}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change     func(*Config)
		annotation string
		want       partition.OperatingMode
		line       string
		more       string
	}{
		"by default":              {want: "cu", line: `operating mode: cu source="default"`},
		"the variable":            {change: func(c *Config) { c.OperatingMode = "partition" }, want: "partition", line: `operating mode: partition source="variable"`},
		"the file over it":        {change: func(c *Config) { c.OperatingMode, c.NodeConfigFile = "cu", settings }, want: "partition", line: `operating mode: partition source="node settings file"`},
		"the annotation over all": {change: func(c *Config) { c.NodeConfigFile = settings }, annotation: "cu", want: "cu", line: `operating mode: cu source="node annotation"`},
		"a bad annotation is reported": {change: func(c *Config) { c.OperatingMode = "partition" }, annotation: "mig", want: "partition",
			line: `operating mode: partition source="variable"`, more: `operating mode "mig": want "cu" or "partition"; using "partition" from the variable`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deps, logs := testLogger(t)
			cfg := Config{NodeName: "node-1"}
			if test.change != nil {
				test.change(&cfg)
			}
			values := map[string]string{}
			if test.annotation != "" {
				values[annotations.OperatingModeKey] = test.annotation
			}
			deps.Client = newCannedServer(nodeObject("node-1", values)).client(t)
			p, err := New(cfg, deps)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.prepare(t.Context())
			if err != nil || got != test.want {
				t.Fatalf("%q, %v", got, err)
			}
			for _, line := range []string{test.line, test.more} {
				if !strings.Contains(logs.String(), line) {
					t.Errorf("no %q in the log:\n%s", line, logs)
				}
			}
		})
	}
}

func TestStandaloneNeedsNoServer(t *testing.T) {
	p, err := New(Config{Standalone: true, OperatingMode: "partition"}, Deps{}) // not even a logger
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.prepare(t.Context()); got != partition.ModePartition || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadNode(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	tests := map[string]struct {
		err   error
		n     int // so many calls fail
		calls int
		want  string
	}{
		"a wrong name":          {err: apierrors.NewNotFound(nodes, "node-1"), n: 9, calls: 1, want: `reading node "node-1": nodes "node-1" not found`},
		"a missing permission":  {err: apierrors.NewForbidden(nodes, "node-1", errors.New("no")), n: 9, calls: 1, want: `reading node "node-1": nodes "node-1" is forbidden: no`},
		"a bad token":           {err: apierrors.NewUnauthorized("no"), n: 9, calls: 1, want: `reading node "node-1": no`},
		"a server that comes":   {err: errors.New("connection refused"), n: 8, calls: 9},
		"a server that is slow": {err: apierrors.NewTooManyRequests("later", 1), n: 1, calls: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newCannedServer(nodeObject("node-1", nil))
			server.fail(nodePath, test.n, test.err)
			deps, _ := testLogger(t)
			deps.Client = server.client(t)
			p, err := New(Config{NodeName: "node-1"}, deps)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // whose waits take no time
				node, err := p.readNode(t.Context())
				if test.want == "" && (err != nil || node.Name != "node-1") || test.want != "" && (err == nil || err.Error() != test.want) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			})
			if calls := server.calls(nodePath); calls != test.calls {
				t.Errorf("%d calls, want %d", calls, test.calls)
			}
		})
	}
}

func TestRunEndsWhileWaitingForTheServer(t *testing.T) {
	server := newCannedServer(nil)
	server.fail(nodePath, 1000, errors.New("connection refused"))
	deps, _ := testLogger(t)
	deps.Client = server.client(t)
	p, err := New(Config{NodeName: "node-1"}, deps)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// gpuPod is a pod that asks for a resource, with its grants.
func gpuPod(name, resourceName, allocated string, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}}}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if allocated != "" {
		pod.Annotations[annotations.AllocatedKey] = allocated
	}
	return pod
}

// prioritized adds every other resource of HAMi's to a pod's limits.
func prioritized(pod *corev1.Pod) *corev1.Pod {
	for _, name := range []corev1.ResourceName{"amd.com/gpumem", "amd.com/gpumem-percentage", "amd.com/gpucores", "amd.com/priority"} {
		pod.Spec.Containers[0].Resources.Limits[name] = resource.MustParse("1")
	}
	return pod
}

func TestHeldGPUs(t *testing.T) {
	whole := machineSnapshot(t, "mi300x-spx-8", registerDefaults).Devices
	grant := func(id string) string {
		s, err := annotations.EncodePod(annotations.PodGrants{{{UUID: id, Type: "AMD", MemoryMiB: 1, CUs: 8}}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	all := make(map[partition.BDF]string)
	for i := range whole {
		all[whole[i].GPU.BDF] = "pod ns/p may hold it"
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want map[partition.BDF]string
	}{
		"a slice":            {gpuPod("p", "amd.com/gpu", grant(whole[1].ID), corev1.PodRunning), map[partition.BDF]string{whole[1].GPU.BDF: "pod ns/p holds it"}},
		"a partition":        {gpuPod("p", "amd.com/gpu", grant(whole[1].ID+"-p3"), corev1.PodPending), map[partition.BDF]string{whole[1].GPU.BDF: "pod ns/p holds it"}},
		"a finished pod":     {gpuPod("p", "amd.com/gpu", grant(whole[1].ID), corev1.PodSucceeded), map[partition.BDF]string{}},
		"a failed pod":       {gpuPod("p", "amd.com/gpu", grant(whole[1].ID), corev1.PodFailed), map[partition.BDF]string{}},
		"no GPU asked":       {gpuPod("p", "nvidia.com/gpu", grant(whole[1].ID), corev1.PodRunning), map[partition.BDF]string{}},
		"an unknown GPU":     {gpuPod("p", "amd.com/gpu", grant("x"), corev1.PodRunning), map[partition.BDF]string{}},
		"no grants yet":      {gpuPod("p", "amd.com/gpu", "", corev1.PodPending), all},
		"a broken grant":     {gpuPod("p", "amd.com/gpu", "x,y", corev1.PodRunning), all},
		"outside of HAMi":    {gpuPod("p", "amd.com/cpx_nps4", "", corev1.PodRunning), all},
		"all HAMi resources": {prioritized(gpuPod("p", "amd.com/gpu", grant(whole[1].ID), corev1.PodRunning)), map[partition.BDF]string{whole[1].GPU.BDF: "pod ns/p holds it"}},
		"outside with grant": {gpuPod("p", "amd.com/cpx_nps4", grant(whole[1].ID), corev1.PodRunning), all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := heldGPUs(whole, []corev1.Pod{*test.pod})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// modes are what the mode files of a sysfs say, by GPU.
func modes(t *testing.T, sysfs string) map[partition.BDF]string {
	t.Helper()
	inv, err := partition.Discover(sysfs)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[partition.BDF]string)
	for _, g := range inv.GPUs {
		out[g.BDF] = string(g.Compute)
	}
	return out
}

func TestIdleGPUsAreSwitchedAtStart(t *testing.T) {
	whole := machineSnapshot(t, "mi300x-spx-8", registerDefaults).Devices
	held, err := annotations.EncodePod(annotations.PodGrants{{{UUID: whole[2].ID, Type: "AMD", MemoryMiB: 1, CUs: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change      func(*Config)
		annotations map[string]string
		pods        []corev1.Pod
		fail        bool
		stay        []int // GPUs that are not switched
	}{
		"all of them": {change: func(c *Config) { c.OperatingMode, c.ComputePartition = "partition", "CPX" }},
		"by the annotations": {change: func(c *Config) { c.ComputePartition = "dpx" },
			annotations: map[string]string{annotations.OperatingModeKey: "partition", annotations.ComputePartitionKey: "cpx"}},
		"but for the held one": {change: func(c *Config) { c.OperatingMode, c.ComputePartition = "partition", "cpx" },
			pods: []corev1.Pod{*gpuPod("p", "amd.com/gpu", held, corev1.PodRunning)}, stay: []int{2}},
		"but for excluded ones": {change: func(c *Config) {
			c.OperatingMode, c.ComputePartition, c.ExcludeGPUs, c.ExcludeIDs, c.ExcludeIndexes = "partition", "cpx",
				[]string{string(whole[0].GPU.BDF)}, []string{whole[1].ID}, []uint{7}
		}, stay: []int{0, 1, 7}},
		"none in cu mode":                {change: func(c *Config) { c.ComputePartition = "cpx" }, stay: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"none when not asked":            {change: func(c *Config) { c.OperatingMode = "partition" }, stay: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"none if the pods are not known": {change: func(c *Config) { c.OperatingMode, c.ComputePartition = "partition", "cpx" }, fail: true, stay: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"standalone":                     {change: func(c *Config) { c.OperatingMode, c.ComputePartition, c.Standalone = "partition", "cpx", true }, fail: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := Config{NodeName: "node-1", SysfsRoot: fixturetest.Machine(t, "mi300x-spx-8")}
			test.change(&cfg)
			server := newCannedServer(nodeObject("node-1", test.annotations), test.pods...)
			if test.fail {
				server.fail(podsPath, 99, errors.New("no answer"))
			}
			deps, logs := testLogger(t)
			deps.Client = server.client(t)
			p, err := New(cfg, deps)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := make(map[partition.BDF]string)
			for i := range whole {
				want[whole[i].GPU.BDF] = "cpx"
			}
			for _, i := range test.stay {
				want[whole[i].GPU.BDF] = "spx"
			}
			if diff := cmp.Diff(want, modes(t, cfg.SysfsRoot)); diff != "" {
				t.Errorf("modes (-want +got):\n%s%s", diff, logs)
			}
		})
	}
}

func TestAllocatorThatFailsEndsRun(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir, cfg.Standalone = k.root(), true
	deps, _ := testLogger(t)
	p, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	p.times = impatient()
	want := errors.New("state file: no space left")
	p.build = func(Config, Deps, snapshotSource) (allocator, error) { return nil, want }
	if err := p.Run(t.Context()); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
	p.build = func(Config, Deps, snapshotSource) (allocator, error) { return &failingAllocator{err: want}, nil }
	if err := p.Run(t.Context()); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}

// failingAllocator gives up at once.
type failingAllocator struct {
	stubAllocator
	err error
}

func (a *failingAllocator) Run(context.Context) error { return a.err }
