package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
	"github.com/Project-HAMi/hami-amd/partition"
)

// TestRefusedOwners: whatever is wrong with the lock's owner, its call fails,
// it is marked as failed, the node is free again, nothing is handed out, and
// the next pod is served.
func TestRefusedOwners(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	limit := func(p *corev1.Pod, name corev1.ResourceName, value string) {
		p.Spec.Containers[0].Resources.Limits[name] = resource.MustParse(value)
	}
	annotate := func(key, value string) func(*rig, *corev1.Pod) {
		return func(_ *rig, p *corev1.Pod) { p.Annotations[key] = value }
	}
	for name, tt := range map[string]struct {
		edit func(r *rig, p *corev1.Pod)
		want string // in the error
		is   error
	}{
		"to-allocate broken":       {edit: annotate(annotations.ToAllocateKey, "A,AMD X,many,76:;"), want: "many"},
		"allocated broken":         {edit: annotate(annotations.AllocatedKey, "garbage"), want: annotations.AllocatedKey},
		"allocated missing":        {edit: func(_ *rig, p *corev1.Pod) { delete(p.Annotations, annotations.AllocatedKey) }, is: podspec.ErrNotScheduled},
		"to-allocate was enlarged": {edit: func(r *rig, p *corev1.Pod) { enlarge(r, p, annotations.ToAllocateKey) }, want: "not what " + annotations.AllocatedKey},
		"both were enlarged": {edit: func(r *rig, p *corev1.Pod) {
			limit(p, "amd.com/gpumem", "16384")
			enlarge(r, p, annotations.ToAllocateKey)
			enlarge(r, p, annotations.AllocatedKey)
		}, is: errForged},
		"more CUs than asked for": {edit: func(_ *rig, p *corev1.Pod) { limit(p, "amd.com/gpucores", "20") }, is: errForged},
		"more memory than the percentage": {edit: func(_ *rig, p *corev1.Pod) {
			limit(p, "amd.com/gpumem-percentage", "5")
		}, is: errForged},
		"a grant too many": {edit: func(r *rig, p *corev1.Pod) {
			g := []annotations.Grant{r.grant(0, 16384, 76)}
			r.setGrants(p, g, g)
		}, want: "containers"},
		"nobody asks": {edit: func(_ *rig, p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }, want: "container"},
		"device not on node": {edit: func(r *rig, p *corev1.Pod) {
			r.setGrants(p, []annotations.Grant{{UUID: "gone", Type: "AMD X", MemoryMiB: 1, CUs: 8}})
		}, is: allocate.ErrUnknownDevice},
		"slice without VRAM": {edit: func(r *rig, p *corev1.Pod) { r.setGrants(p, []annotations.Grant{r.grant(0, 0, 76)}) }, is: allocate.ErrGrant},
		"more CUs than free": {edit: func(r *rig, p *corev1.Pod) { r.setGrants(p, []annotations.Grant{r.grant(0, 16384, 296)}) }, is: cumask.ErrInsufficient},
		"env switches it off": {edit: func(_ *rig, p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HSA_CU_MASK", Value: "0:0-303"}}
		}, is: allocate.ErrEnvOverride},
		"env drops the hook": {edit: func(_ *rig, p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/x.so"}}
		}, is: allocate.ErrEnvOverride},
		"count mismatch": {edit: func(r *rig, p *corev1.Pod) {
			r.setGrants(p, []annotations.Grant{r.grant(0, 16384, 76), r.grant(1, 16384, 76)})
		}, is: errCountMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, snap)
			r.occupyWithOlderPod()
			p := r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)})
			tt.edit(r, p)
			r.bind(p)
			before := r.server.pod("ns/p")
			answer, err := r.allocate(r.share(0, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
				t.Fatalf("Allocate = %v, %v, want an error with %q, %v", answer, err, tt.want, tt.is)
			}
			if !strings.Contains(err.Error(), `pod "ns/p"`) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q does not name the pod in one line", err)
			}
			before.Annotations[annotations.BindPhaseKey] = "failed"
			if diff := cmp.Diff(before.Annotations, r.server.pod("ns/p").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if lock := r.lockText(); lock != "" {
				t.Errorf("lock %q was left behind", lock)
			}
			if r.ledger.get(p.UID) != nil {
				t.Error("the ledger remembers a pod that was refused")
			}
			r.bind(r.pod("q", []annotations.Grant{r.grant(0, 16384, 76)}))
			r.mustAllocate(r.share(0, 2))
		})
	}
}

func enlarge(r *rig, p *corev1.Pod, key string) {
	text, err := annotations.EncodePod(annotations.PodGrants{{r.grant(0, 98304, 76)}})
	if err != nil {
		r.Fatal(err)
	}
	p.Annotations[key] = text
}

// TestInitAndSidecarContainers goes through a pod with every kind of container
// in the order of the spec, and checks who shares what with whom.
func TestInitAndSidecarContainers(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asks("proxy", 1)
	sidecar.RestartPolicy = &always
	p := r.pod("p")
	p.Spec.InitContainers = []corev1.Container{asks("plain", 0), asks("prep", 1), sidecar}
	p.Spec.Containers = []corev1.Container{asks("side", 0), asks("train", 1)}
	r.setGrants(p, nil, []annotations.Grant{r.grant(0, 16384, 152)}, []annotations.Grant{r.grant(0, 4096, 8)}, nil, []annotations.Grant{r.grant(0, 16384, 76)})
	r.bind(p)
	// Kubelet gives the IDs of an init container to a later one as well.
	prep := r.mask(r.mustAllocate(r.share(0, 0)), 0)
	proxy := r.mask(r.mustAllocate(r.share(0, 0)), 0)
	if got := r.annotation("ns/p", annotations.ToAllocateKey); strings.Count(got, ";") != 5 || !strings.HasPrefix(got, ";;;;") {
		t.Errorf("to-allocate %q, want one entry left of five", got)
	}
	train := r.mask(r.mustAllocate(r.share(0, 1)), 0)
	if prep.Len() != 152 || proxy.Len() != 8 || train.Len() != 76 {
		t.Errorf("%d, %d and %d CUs, want 152, 8 and 76", prep.Len(), proxy.Len(), train.Len())
	}
	if !proxy.Intersect(train).Empty() {
		t.Errorf("sidecar %s and app %s share CUs", proxy, train)
	}
	if got := r.cus("ns/p", 0).Len(); got != 152 {
		t.Errorf("the pod holds %d CUs, want the peak of 152", got)
	}
	if r.lockText() != "" || r.annotation("ns/p", annotations.BindPhaseKey) != "success" {
		t.Error("the lock or the phase stayed")
	}
	// Asked again, each container gets its own.
	r.run("ns/p")
	for i, want := range []cumask.Set{prep, proxy} {
		if got := r.mask(r.mustAllocate(r.share(0, 0)), 0); got != want {
			t.Errorf("again, call %d: %s, want %s", i, got, want)
		}
	}
	if got := r.mask(r.mustAllocate(r.share(0, 1)), 0); got != train {
		t.Errorf("again, train: %s, want %s", got, train)
	}
}

// TestMisalignedGrants: HAMi v2.10 leaves containers without GPUs out of the
// list, so that the index names the wrong container.
func TestMisalignedGrants(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	p := r.pod("p")
	p.Spec.InitContainers = []corev1.Container{asks("prep", 0)}
	p.Spec.Containers = []corev1.Container{asks("side", 0), asks("train", 1), asks("eval", 1)}
	r.setGrants(p, []annotations.Grant{r.grant(0, 16384, 76)}, []annotations.Grant{r.grant(0, 8192, 38)})
	r.bind(p)
	r.mustAllocate(r.share(0, 0))
	if got := r.mustAllocate(r.share(0, 1)).Envs[hook.LimitEnv]; got != "8192m" {
		t.Errorf("second limit %q, want 8192m", got)
	}
	containers, err := annotations.DecodeContainerCUs(r.annotation("ns/p", annotations.CUContainersKey))
	if err != nil {
		t.Fatal(err)
	}
	if len(containers["train"].IDs) != 1 || len(containers["eval"].IDs) != 1 || len(containers) != 2 {
		t.Errorf("containers %v, want train and eval", containers)
	}
}

func TestMemoryOnlySlice(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 0)}))
	answer := r.mustAllocate(r.share(0, 0))
	if _, masked := answer.Envs["HSA_CU_MASK"]; masked || answer.Envs[hook.LimitEnv] != "16384m" {
		t.Errorf("env %v, want a limit and no mask", answer.Envs)
	}
	if got := r.annotation("ns/p", annotations.CUAllocatedKey); got != "{}" {
		t.Errorf("cu-allocated %q, want {}", got)
	}
	r.run("ns/p")
	r.start("plugin")
	if got := r.mustAllocate(r.share(0, 0)).Envs[hook.LimitEnv]; got != "16384m" {
		t.Errorf("limit after a restart %q, want 16384m", got)
	}
}

func TestAllocateAfterThingsMovedOnSincePending(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for name, tt := range map[string]struct {
		move func(r *rig)
		want string // limit
	}{
		"the lock went to another pod": {want: "8192m", move: func(r *rig) {
			r.phase("ns/p", corev1.PodFailed)
			r.bind(r.pod("q", []annotations.Grant{r.grant(0, 8192, 38)}))
		}},
		"the pod was granted something else": {want: "4096m", move: func(r *rig) {
			r.server.edit("ns/p", func(p *corev1.Pod) { r.setGrants(p, []annotations.Grant{r.grant(1, 4096, 38)}) })
		}},
		"the pod was made anew": {want: "2048m", move: func(r *rig) {
			r.server.remove("ns/p")
			p := r.pod("p", []annotations.Grant{r.grant(0, 2048, 38)})
			p.UID = "another"
			r.bind(p)
		}},
		"long ago": {want: "1024m", move: func(r *rig) {
			r.server.edit("ns/p", func(p *corev1.Pod) { r.setGrants(p, []annotations.Grant{r.grant(0, 1024, 38)}) })
			r.advance(time.Minute)
		}},
	} {
		r := newRig(t, snap)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
		r.Pending(t.Context(), partition.ResourceGPU, []int{1})
		tt.move(r)
		answer, err := r.allocate(r.share(0, 0))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := answer.Envs[hook.LimitEnv]; got != tt.want {
			t.Errorf("%s: limit %q, want %q", name, got, tt.want)
		}
		if r.lockText() != "" {
			t.Errorf("%s: the lock was left behind", name)
		}
		r.checkDisjoint()
	}
}

func TestPendingWithoutAnswer(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	r := newRig(t, snap)
	if got := r.Pending(t.Context(), partition.ResourceGPU, []int{1}); got.granted != nil {
		t.Errorf("without a lock: %v, want no grants", got)
	}
	if got := r.Pending(t.Context(), "amd.com/cpx_nps1", []int{1}); got.granted != nil {
		t.Errorf("a resource HAMi does not know: %v, want no grants", got)
	}
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 1024, 8), r.grant(1, 1024, 8)}, []annotations.Grant{r.grant(2, 1024, 8)}))
	want := [][]string{nil, {r.device(2).ID}, nil}
	if diff := cmp.Diff(want, r.Pending(t.Context(), partition.ResourceGPU, []int{1, 1, 1}).granted); diff != "" {
		t.Errorf("other numbers than granted (-want +got):\n%s", diff)
	}
	r.server.break_(func(apiCall) apiFault { return apiFault{refuse: http.StatusForbidden} })
	if got := r.Pending(t.Context(), partition.ResourceGPU, []int{1}); got.granted != nil || !got.others || len(got.served) != 0 {
		t.Errorf("no access: %v, want no grants", got)
	}
	r.server.break_(nil)
	r.mustAllocate(r.share(0, 0), r.share(1, 0))
	r.server.break_(func(apiCall) apiFault { return apiFault{refuse: http.StatusForbidden} })
	got := r.Pending(t.Context(), partition.ResourceGPU, []int{1})
	if len(got.served) != 1 || !sameDevices(got.served[0].ids, []string{r.share(0, 0), r.share(1, 0)}) || !got.others {
		t.Errorf("no access: %v, want the IDs that were handed out", got)
	}
}

// TestKubeletGoesAway: a call whose caller is gone before anything was written
// leaves the pod as it is, for kubelet asks again when it is back. Once the
// pod is being written to, the work is done to its end.
func TestKubeletGoesAway(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	at := func(number int) func(*rig, func()) {
		return func(r *rig, gone func()) {
			r.server.break_(func(c apiCall) apiFault {
				if c.number == number {
					return apiFault{before: gone}
				}
				return apiFault{}
			})
		}
	}
	for name, tt := range map[string]struct {
		leave func(r *rig, gone func())
		done  bool
	}{
		"while the node is read":     {leave: at(1)},
		"while the pods are read":    {leave: at(2)},
		"while the pod is planned":   {leave: func(r *rig, gone func()) { r.src.onCDI = gone }},
		"while the pod is patched":   {leave: at(3), done: true},
		"while the lock is released": {leave: at(4), done: true},
	} {
		r := newRig(t, snap, func(c *Config) { c.CDISpecDir = "/cdi" })
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
		lock, phase := r.lockText(), "allocating"
		if tt.done {
			lock, phase = "", "success"
		}
		ctx, cancel := context.WithCancel(t.Context())
		tt.leave(r, cancel)
		_, err := r.Allocate(ctx, partition.ResourceGPU, [][]string{{r.share(0, 0)}})
		if (err == nil) != tt.done || r.lockText() != lock || r.annotation("ns/p", annotations.BindPhaseKey) != phase {
			t.Errorf("%s: %v, lock %q, phase %q, want done %v", name, err, r.lockText(), r.annotation("ns/p", annotations.BindPhaseKey), tt.done)
		}
		if (r.ledger.get("uid-of-p") != nil) != tt.done {
			t.Errorf("%s: recorded %v, want %v", name, !tt.done, tt.done)
		}
		r.server.break_(nil)
		r.src.onCDI = nil
		r.mustAllocate(r.share(0, 0)) // kubelet is back
		cancel()
	}
}

// TestReadsServeOneCall: what Pending read is for the Allocate that follows
// and for no other.
func TestReadsServeOneCall(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	slice := []annotations.Grant{r.grant(0, 1024, 8)}
	r.bind(r.pod("p", slice, slice))
	r.Pending(t.Context(), partition.ResourceGPU, []int{1})
	r.server.reset()
	patch := "PATCH /api/v1/namespaces/ns/pods/p"
	for i, want := range [][]string{
		{patch},
		{"GET /api/v1/nodes/gpu-node", "GET /api/v1/pods", patch, "PATCH /api/v1/nodes/gpu-node"},
	} {
		r.mustAllocate(r.share(0, i))
		if diff := cmp.Diff(want, callsOf(r.server.reset())); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.occupyWithOlderPod()
	vgpu := filepath.Join(r.cfg.HookPath, "vgpu")
	if err := os.Mkdir(filepath.Join(vgpu, stateNextName), 0o755); err != nil {
		t.Fatal(err)
	}
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	if answer, err := r.allocate(r.share(0, 1)); err == nil || !strings.Contains(err.Error(), stateName) {
		t.Errorf("Allocate = %v, %v, want an error about %s", answer, err, stateName)
	}
	if _, written := r.server.pod("ns/p").Annotations[annotations.CUAllocatedKey]; written || r.lockText() != "" {
		t.Error("the pod was written to, or the lock left behind")
	}
	if err := os.Remove(filepath.Join(vgpu, stateNextName)); err != nil {
		t.Fatal(err)
	}
	r.bind(r.pod("q", []annotations.Grant{r.grant(0, 16384, 76)}))
	r.mustAllocate(r.share(0, 1))
	r.checkDisjoint()
}

// TestRecordedBeforeThePodIsPatched: whenever the API server can know of an
// allocation, the disk does.
func TestRecordedBeforeThePodIsPatched(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	p := r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	looked := false
	r.server.break_(func(c apiCall) apiFault {
		if c.method == "PATCH" && strings.Contains(c.path, "/pods/") {
			looked = true
			content, err := os.ReadFile(filepath.Join(r.cfg.HookPath, "vgpu", stateName))
			if err != nil {
				t.Error(err)
			}
			pods, err := decodeState(content)
			if err != nil || pods[p.UID] == nil || pods[p.UID].cus[r.device(0).ID] != cumask.Range(0, 75) {
				t.Errorf("on disk: %v, %v, want pod p with 0-75", pods, err)
			}
		}
		return apiFault{}
	})
	r.mustAllocate(r.share(0, 0))
	if !looked {
		t.Error("the pod was never patched")
	}
}

// TestConcurrentCalls: kubelet asks for one container at a time today, and may
// ask for more tomorrow.
func TestConcurrentCalls(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	var grants [][]annotations.Grant
	for range 8 {
		grants = append(grants, []annotations.Grant{r.grant(0, 1024, 38)})
	}
	r.bind(r.pod("p", grants...))
	masks := make(chan cumask.Set, len(grants))
	for i := range grants {
		go func() {
			answer, err := r.allocate(r.share(0, i))
			if err != nil {
				t.Error(err)
				masks <- cumask.Set{}
				return
			}
			masks <- r.mask(answer, 0)
		}()
	}
	var union cumask.Set
	for range grants {
		cus := <-masks
		if cus.Len() != 38 || !cus.Intersect(union).Empty() {
			t.Errorf("%s beside %s", cus, union)
		}
		union = union.Union(cus)
	}
	if union.Len() != 304 || r.lockText() != "" {
		t.Errorf("%d CUs held, lock %q", union.Len(), r.lockText())
	}
}

// TestAnnotationsOfOthersDoNotStopAPod: broken, forged and stale annotations.
func TestAnnotationsOfOthersDoNotStopAPod(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for name, tt := range map[string]struct {
		value string
		held  cumask.Set
	}{
		"broken":                {value: `{"A":`},
		"descending":            {value: `{"$":"9-3"}`},
		"more than was granted": {value: `{"$":"0-303"}`},
		"CUs that do not exist": {value: `{"$":"300-375"}`},
		"a device that is gone": {value: `{"1aff74a1-0000-1000-8000-000000000000":"0-75"}`},
		"as granted":            {value: `{"$":"8-83"}`, held: cumask.Range(8, 83)},
	} {
		r := newRig(t, snap)
		forger := r.pod("forger", []annotations.Grant{r.grant(0, 16384, 76)})
		forger.Annotations[annotations.ToAllocateKey] = ";"
		forger.Annotations[annotations.CUAllocatedKey] = strings.ReplaceAll(tt.value, "$", r.device(0).ID)
		r.server.put(forger)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
		answer, err := r.allocate(r.share(0, 0))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := r.mask(answer, 0)
		if tt.held.Empty() && got != cumask.Range(0, 75) || !got.Intersect(tt.held).Empty() {
			t.Errorf("%s: holds %s, want CUs outside %q", name, got, tt.held)
		}
	}
}

// TestOwnersOwnClaimIsNotBelieved: a pod that was handed nothing yet cannot
// choose its CUs.
func TestOwnersOwnClaimIsNotBelieved(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.occupyWithOlderPod() // 0-75
	p := r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)})
	p.Annotations[annotations.CUAllocatedKey] = `{"` + r.device(0).ID + `":"0-75"}`
	p.Annotations[annotations.CUContainersKey] = `{"c0":{"ids":["x"],"cus":{"` + r.device(0).ID + `":"0-75"}}}`
	r.bind(p)
	r.start("plugin") // also not when a new plugin reads it first
	if got := r.mask(r.mustAllocate(r.share(0, 1)), 0); got != cumask.Range(76, 151) {
		t.Errorf("holds %s, want 76-151", got)
	}
	r.checkDisjoint()
}

func TestC35DevicesOfAnotherModeBlockNothing(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 49152, 76)}))
	r.mustAllocate(r.share(0, 0))
	r.run("ns/p")
	r.src.set(snapshotOf(t, "mi300x-cpx-8", partition.RegisterOptions{Mode: partition.ModePartition}))
	for i := range 3 {
		name := "q" + string(rune('0'+i))
		r.bind(r.pod(name, []annotations.Grant{r.whole(i)}))
		answer := r.mustAllocate(r.device(i).KubeletIDs[0])
		if _, masked := answer.Envs["HSA_CU_MASK"]; masked || len(answer.Mounts) > 0 {
			t.Errorf("partition %d: env %v, mounts %v, want neither mask nor hook", i, answer.Envs, answer.Mounts)
		}
		if got := r.cus("ns/"+name, i); got != cumask.Range(0, 37) {
			t.Errorf("partition %d: recorded %s, want all its CUs", i, got)
		}
	}
	// p's record is of a device that is gone; asking for it again is an error.
	if _, err := r.allocate("0000:05:00.0#0"); err == nil {
		t.Error("a slice of a GPU that is partitioned now was answered")
	}
	if got := r.annotation("ns/p", annotations.BindPhaseKey); got != "success" {
		t.Errorf("p's phase %q, want it untouched", got)
	}
}

// TestManyPodsOnEightGPUs fills and empties GPUs for a while, the oldest pod of
// a GPU making room where there is none, and looks at every mask.
func TestManyPodsOnEightGPUs(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	sizes := []int32{8, 16, 38, 76, 152, 30}
	type placed struct {
		key  string
		cus  int32
		slot int
	}
	live := make([][]placed, 8)
	for i := range 120 {
		device, n := (i*5)%8, sizes[(i*7)%len(sizes)]
		for {
			used := n
			taken := make(map[int]bool)
			for _, p := range live[device] {
				used += p.cus
				taken[p.slot] = true
			}
			if used <= 304 && len(taken) < 10 {
				break
			}
			r.server.remove(live[device][0].key)
			live[device] = live[device][1:]
		}
		slot := 0
		for slices.ContainsFunc(live[device], func(p placed) bool { return p.slot == slot }) {
			slot++
		}
		name := fmt.Sprintf("p%d", i)
		r.bind(r.pod(name, []annotations.Grant{r.grant(device, 1024, n)}))
		cus := r.mask(r.mustAllocate(r.share(device, slot)), 0)
		if err := r.device(device).Geometry().Check(cus); err != nil || cus.Len() != int(n) {
			t.Fatalf("pod %s: %s of %d CUs: %v", name, cus, n, err)
		}
		live[device] = append(live[device], placed{"ns/" + name, n, slot})
		r.run("ns/" + name)
		r.checkDisjoint()
	}
}

// A call for no container is about no pod, whoever holds the lock.
func TestCallForNothing(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	p := r.bind(r.pod("p", []annotations.Grant{r.grant(0, 1000, 38)}))
	lock := r.lockText()
	response, err := r.Allocate(context.Background(), partition.ResourceGPU, nil)
	if err != nil || len(response.ContainerResponses) != 0 {
		t.Errorf("Allocate = %v, %v, want an empty answer", response, err)
	}
	if r.ledger.get(p.UID) != nil || r.annotation("ns/p", annotations.CUAllocatedKey) != "" || r.lockText() != lock {
		t.Error("the lock's owner was served or refused")
	}
	if cus := r.mask(r.mustAllocate(r.share(0, 1)), 0); cus.Len() != 38 {
		t.Errorf("the owner then gets %s, want 38 CUs", cus)
	}
}
