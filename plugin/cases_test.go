package plugin

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestC18WhoStillHoldsCUs(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for name, tt := range map[string]struct {
		end      func(r *rig)
		released bool
	}{
		"being deleted": {end: func(r *rig) {
			now := metav1.Now()
			r.server.edit("ns/p", func(p *corev1.Pod) { p.DeletionTimestamp = &now; p.Status.Phase = corev1.PodRunning })
		}},
		"succeeded":                    {end: func(r *rig) { r.phase("ns/p", corev1.PodSucceeded) }, released: true},
		"failed":                       {end: func(r *rig) { r.phase("ns/p", corev1.PodFailed) }, released: true},
		"deleted while nobody watched": {end: func(r *rig) { r.server.remove("ns/p") }, released: true},
	} {
		for _, restarted := range []bool{false, true} {
			r := newRig(t, snap)
			r.bind(r.pod("p", []annotations.Grant{r.grant(0, 49152, 76)}))
			r.mustAllocate(r.share(0, 0))
			r.run("ns/p")
			tt.end(r)
			if restarted {
				r.start("plugin")
			}
			r.bind(r.pod("q", []annotations.Grant{r.grant(0, 49152, 76)}))
			got := r.mask(r.mustAllocate(r.share(0, 1)), 0)
			if reused := !got.Intersect(cumask.Range(0, 75)).Empty(); reused != tt.released {
				t.Errorf("%s, restarted %v: q holds %s beside p's 0-75, want reuse %v", name, restarted, got, tt.released)
			}
			if tt.released {
				continue
			}
			r.checkDisjoint()
		}
	}
}

func TestC25OverlapsAndTwoContainersOnOneGPU(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	t.Run("two pods claim one CU", func(t *testing.T) {
		r := newRig(t, snap)
		for name, cus := range map[string]string{"p": "0-75", "q": "70-145"} {
			p := r.pod(name, []annotations.Grant{r.grant(0, 16384, 76)})
			p.Annotations[annotations.ToAllocateKey] = ";"
			p.Annotations[annotations.CUAllocatedKey] = `{"` + r.device(0).ID + `":"` + cus + `"}`
			p.Status.Phase = corev1.PodRunning
			r.server.put(p)
		}
		r.background()
		for device := range 2 {
			name := "n" + string(rune('0'+device))
			r.bind(r.pod(name, []annotations.Grant{r.grant(device, 16384, 76)}))
			got := r.mask(r.mustAllocate(r.share(device, 0)), 0)
			if both := got.Intersect(cumask.Range(0, 145)); device == 0 && !both.Empty() {
				t.Errorf("new pod holds %s, which p or q holds", both)
			}
			if device == 1 && got != cumask.Range(0, 75) {
				t.Errorf("new pod on another GPU holds %s, want 0-75", got)
			}
		}
		eventually(t, "an event that names GPU, CU and both pods", func() bool {
			for _, e := range r.server.recorded() {
				if e.Reason == eventAnnotationIgnored && strings.Contains(e.Message, r.device(0).ID) && strings.Contains(e.Message, "cu 70") &&
					strings.Contains(e.Message, "ns/p") && strings.Contains(e.Message, "ns/q") {
					return true
				}
			}
			return false
		})
	})
	t.Run("two containers of one pod", func(t *testing.T) {
		r := newRig(t, snap)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}, nil, []annotations.Grant{r.grant(0, 8192, 38)}))
		first := r.mustAllocate(r.share(0, 0))
		if r.lockText() == "" || r.annotation("ns/p", annotations.BindPhaseKey) != "allocating" {
			t.Error("the lock or the phase changed with a container still to be served")
		}
		second := r.mustAllocate(r.share(0, 1))
		a, b := r.mask(first, 0), r.mask(second, 0)
		if a.Len() != 76 || b.Len() != 38 || !a.Intersect(b).Empty() {
			t.Errorf("containers hold %s and %s, want 76 and 38 CUs, disjoint", a, b)
		}
		if got := r.cus("ns/p", 0); got != a.Union(b) {
			t.Errorf("pod's annotation %s, want the union of %s and %s", got, a, b)
		}
		if r.lockText() != "" || r.annotation("ns/p", annotations.BindPhaseKey) != "success" {
			t.Error("the lock or the phase stayed with all containers served")
		}
	})
}

func TestC47SeveralRequestsInOneCall(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	t.Run("all", func(t *testing.T) {
		r := newRig(t, snap)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}, []annotations.Grant{r.grant(0, 8192, 38)}))
		answer, err := r.Allocate(t.Context(), partition.ResourceGPU, [][]string{{r.share(0, 0)}, {r.share(0, 1)}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(answer.ContainerResponses); n != 2 {
			t.Fatalf("%d responses, want 2", n)
		}
		first, second := answer.ContainerResponses[0], answer.ContainerResponses[1]
		if a, b := first.Envs[hook.LimitEnv], second.Envs[hook.LimitEnv]; a != "16384m" || b != "8192m" {
			t.Errorf("limits %q and %q, want 16384m and 8192m", a, b)
		}
		if a, b := first.Envs["HSA_CU_MASK"], second.Envs["HSA_CU_MASK"]; a != "0:0-75" || b != "0:76-113" {
			t.Errorf("masks %q and %q, want 0:0-75 and 0:76-113", a, b)
		}
		if got, want := r.annotation("ns/p", annotations.CUAllocatedKey), `{"`+r.device(0).ID+`":"0-113"}`; got != want {
			t.Errorf("cu-allocated %s, want %s", got, want)
		}
		if got := r.annotation("ns/p", annotations.ToAllocateKey); got != ";;" {
			t.Errorf("to-allocate %q, want ;;", got)
		}
		patches := 0
		for _, c := range r.server.reset() {
			if c.method == "PATCH" && strings.Contains(c.path, "/pods/") {
				patches++
			}
		}
		if patches != 1 {
			t.Errorf("%d patches of the pod, want 1", patches)
		}
	})
	t.Run("none when the second fails", func(t *testing.T) {
		r := newRig(t, snap)
		before := r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}, []annotations.Grant{r.grant(0, 8192, 38)}))
		_, err := r.Allocate(t.Context(), partition.ResourceGPU, [][]string{{r.share(0, 0)}, {r.share(0, 1), r.share(1, 1)}})
		if !errors.Is(err, errCountMismatch) {
			t.Fatalf("Allocate = %v, want a count mismatch", err)
		}
		after := r.server.pod("ns/p")
		before.Annotations[annotations.BindPhaseKey] = "failed"
		if diff := cmp.Diff(before.Annotations, after.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if r.ledger.get(after.UID) != nil {
			t.Error("the ledger remembers a pod that was refused")
		}
		if r.lockText() != "" {
			t.Error("the lock was left behind")
		}
	})
}

func TestC48OnlyTheLocksOwnerIsServed(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	newCase := func(t *testing.T) *rig {
		r := newRig(t, snap)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 1000, 76)}))
		q := r.pod("q", []annotations.Grant{r.grant(0, 3000, 76)})
		q.Annotations[annotations.BindTimeKey] = "1"
		r.server.put(q)
		return r
	}
	t.Run("lock names p", func(t *testing.T) {
		r := newCase(t)
		if got := r.mustAllocate(r.share(0, 0)).Envs[hook.LimitEnv]; got != "1000m" {
			t.Errorf("limit %q, want p's 1000m", got)
		}
	})
	t.Run("nothing is changed without a lock that names a pod", func(t *testing.T) {
		for name, lock := range map[string]string{
			"absent": "", "legacy": "2026-08-21T08:20:39+02:00", "malformed": "2026-08-21T08:20:39+02:00,ns",
			"pod of another node": "2026-08-21T08:20:39+02:00,ns,elsewhere",
		} {
			r := newCase(t)
			r.server.editNode(func(n *corev1.Node) {
				n.Annotations[annotations.NodeLockKey] = lock
				if lock == "" {
					delete(n.Annotations, annotations.NodeLockKey)
				}
			})
			p, q := r.server.pod("ns/p"), r.server.pod("ns/q")
			if answer, err := r.allocate(r.share(0, 0)); !errors.Is(err, errNoOwner) {
				t.Errorf("%s: Allocate = %v, %v, want %v", name, answer, err, errNoOwner)
			}
			if diff := cmp.Diff([]*corev1.Pod{p, q}, []*corev1.Pod{r.server.pod("ns/p"), r.server.pod("ns/q")}); diff != "" {
				t.Errorf("%s: pods changed (-want +got):\n%s", name, diff)
			}
			if got := r.lockText(); got != lock {
				t.Errorf("%s: lock %q, want %q", name, got, lock)
			}
		}
	})
	t.Run("count mismatch", func(t *testing.T) {
		r := newCase(t)
		_, err := r.allocate(r.share(0, 0), r.share(1, 0))
		if err == nil || !strings.Contains(err.Error(), "count mismatch") {
			t.Errorf("Allocate = %v, want a count mismatch", err)
		}
		if r.lockText() != "" || r.annotation("ns/p", annotations.BindPhaseKey) != "failed" {
			t.Error("the lock stayed, or the phase is not failed")
		}
		if got := r.annotation("ns/q", annotations.BindPhaseKey); got != "allocating" {
			t.Errorf("phase of q %q, want it untouched", got)
		}
	})
	t.Run("owner has nothing left", func(t *testing.T) {
		r := newCase(t)
		r.mustAllocate(r.share(0, 0))
		r.lock("ns/p")
		lock := r.lockText()
		if _, err := r.allocate(r.share(0, 1)); !errors.Is(err, errServed) {
			t.Errorf("Allocate = %v, want %v", err, errServed)
		}
		if r.lockText() != lock || r.annotation("ns/p", annotations.BindPhaseKey) != "success" {
			t.Error("the lock or the phase of a pod changed that the call is not for")
		}
	})
}

func TestC49LocksOfOwnersThatAreDone(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	const when = "2026-08-21T08:20:39+02:00,"
	for name, tt := range map[string]struct {
		lock string
		pod  func(r *rig, p *corev1.Pod)
		want bool // stays
	}{
		"owner waits": {lock: when + "ns,p", pod: func(*rig, *corev1.Pod) {}, want: true},
		"owner is served": {lock: when + "ns,p", pod: func(_ *rig, p *corev1.Pod) {
			p.Annotations[annotations.ToAllocateKey] = ";"
		}},
		"owner runs":     {lock: when + "ns,p", pod: func(_ *rig, p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		"owner failed":   {lock: when + "ns,p", pod: func(_ *rig, p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"owner is gone":  {lock: when + "ns,other", pod: func(*rig, *corev1.Pod) {}},
		"names no owner": {lock: when[:len(when)-1], pod: func(*rig, *corev1.Pod) {}, want: true},
		"malformed":      {lock: when + "ns", pod: func(*rig, *corev1.Pod) {}, want: true},
		"another vendor's owner, served": {lock: when + "ns,p", pod: func(_ *rig, p *corev1.Pod) {
			p.Annotations = map[string]string{"hami.io/vgpu-devices-to-allocate": ";"}
		}, want: true},
		"another vendor's owner, failed": {lock: when + "ns,p", pod: func(_ *rig, p *corev1.Pod) {
			p.Annotations, p.Status.Phase = nil, corev1.PodFailed
		}},
	} {
		r := newRig(t, snap)
		p := r.pod("p", []annotations.Grant{r.grant(0, 1000, 76)})
		tt.pod(r, p)
		r.server.put(p)
		r.server.editNode(func(n *corev1.Node) { n.Annotations[annotations.NodeLockKey] = tt.lock })
		held, _, err := r.cluster.releaseAbandoned(t.Context(), r.server.currentNode())
		if got := r.lockText() != ""; got != tt.want || held != tt.want {
			t.Errorf("%s: lock stays %v, reported %v (%v), want %v", name, got, held, err, tt.want)
		}
		if (err != nil) != (name == "malformed") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	t.Run("the API server does not say who the owner is", func(t *testing.T) {
		r := newRig(t, snap)
		r.lock("ns/p")
		r.server.break_(func(c apiCall) apiFault {
			if strings.Contains(c.path, "/pods/") {
				return apiFault{refuse: 403}
			}
			return apiFault{}
		})
		held, _, err := r.cluster.releaseAbandoned(t.Context(), r.server.currentNode())
		if !held || err == nil || r.lockText() == "" {
			t.Errorf("held %v, %v, lock %q, want an error and the lock", held, err, r.lockText())
		}
	})
	t.Run("somebody else took it over meanwhile", func(t *testing.T) {
		r := newRig(t, snap)
		r.lock("ns/gone")
		node := r.server.currentNode()
		r.bind(r.pod("q", []annotations.Grant{r.grant(0, 1000, 76)}))
		lock := r.lockText()
		if _, _, err := r.cluster.releaseAbandoned(t.Context(), node); err != nil || r.lockText() != lock {
			t.Errorf("lock %q, %v, want %q and no error", r.lockText(), err, lock)
		}
	})
}

func TestC51DevicesFollowTheGrants(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(2, 16384, 76), r.grant(5, 16384, 76)}))
	if diff := cmp.Diff([][]string{{r.device(2).ID, r.device(5).ID}}, r.Pending(t.Context(), partition.ResourceGPU, []int{2}).granted); diff != "" {
		t.Errorf("Pending (-want +got):\n%s", diff)
	}
	answer := r.mustAllocate(r.share(0, 0), r.share(0, 1))
	var got []string
	for _, d := range answer.Devices {
		got = append(got, d.HostPath)
	}
	want := []string{"/dev/kfd", "/dev/dri/card2", "/dev/dri/renderD144", "/dev/dri/card5", "/dev/dri/renderD168"}
	for i, d := range []int{2, 5} {
		want[1+2*i] = "/dev/dri/card" + strconv.Itoa(*r.device(d).GPU.Card)
		want[2+2*i] = "/dev/dri/renderD" + strconv.Itoa(r.device(d).Nodes[0].RenderMinor)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}

	for name, ids := range map[string][]string{
		"unknown":   {r.share(0, 0), "0000:ff:00.0#0"},
		"duplicate": {r.share(0, 0), r.share(0, 0)},
	} {
		r.bind(r.pod("q-"+name, []annotations.Grant{r.grant(2, 16384, 76), r.grant(5, 16384, 76)}))
		if _, err := r.allocate(ids...); err == nil || !strings.Contains(err.Error(), "device ID") {
			t.Errorf("%s ID: Allocate = %v, want an error about it", name, err)
		}
		if r.lockText() != "" {
			t.Errorf("%s ID: the lock was left behind", name)
		}
	}
}

func TestC42HookFile(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for name, tt := range map[string]struct {
		file func(t *testing.T, path string)
		want bool // loaded
	}{
		"present": {file: func(*testing.T, string) {}, want: true},
		"absent": {file: func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
		"empty": {file: func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}},
		"no library": {file: func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		"a library for another machine": {file: func(t *testing.T, path string) {
			arm := elftest.Build(elftest.Options{Machine: elf.EM_AARCH64, Dynamic: true})
			if err := os.WriteFile(path, arm, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		"a directory": {file: func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, snap)
			tt.file(t, filepath.Join(r.cfg.HookPath, "vgpu", hook.Library))
			r.bind(r.pod("p", []annotations.Grant{r.grant(0, 49152, 76)}))
			answer, err := r.allocate(r.share(0, 0))
			if !tt.want {
				if !errors.Is(err, hook.ErrHookMissing) || !strings.Contains(err.Error(), hook.Library) {
					t.Fatalf("Allocate = %v, %v, want %v and which file that is", answer, err, hook.ErrHookMissing)
				}
				if r.lockText() != "" {
					t.Error("the lock was left behind")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			mounts := make(map[string]string)
			for _, m := range answer.Mounts {
				mounts[m.ContainerPath] = m.HostPath
			}
			want := map[string]string{
				hook.ContainerLibrary:  filepath.Join(r.cfg.HookPath, "vgpu", hook.Library),
				hook.ContainerCacheDir: filepath.Join(r.cfg.HookPath, "vgpu", "containers", "uid-of-p_c0"),
			}
			if diff := cmp.Diff(want, mounts); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			for _, path := range mounts {
				if _, err := os.Stat(path); err != nil {
					t.Errorf("mount source: %v", err)
				}
			}
			if got := answer.Envs[hook.AuditEnv]; got != hook.ContainerLibrary {
				t.Errorf("LD_AUDIT %q, want %q", got, hook.ContainerLibrary)
			}
		})
	}
}

func TestC43WholeGPUWithoutSliceParts(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	// Not even a hook on the node is needed.
	if err := os.Remove(filepath.Join(r.cfg.HookPath, "vgpu", hook.Library)); err != nil {
		t.Fatal(err)
	}
	r.bind(r.pod("p", []annotations.Grant{r.whole(0)}))
	answer := r.mustAllocate(r.share(0, 0))
	want := map[string]string{"ROCR_VISIBLE_DEVICES": r.device(0).Nodes[0].ROCrID(), "HIP_VISIBLE_DEVICES": "0"}
	if diff := cmp.Diff(want, answer.Envs); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if len(answer.Mounts) > 0 {
		t.Errorf("mounts %v, want none", answer.Mounts)
	}
	if got := r.cus("ns/p", 0); got != cumask.Range(0, 303) {
		t.Errorf("recorded CUs %s, want all of them", got)
	}
	if entries, err := os.ReadDir(filepath.Join(r.cfg.HookPath, "vgpu", "containers")); err != nil || len(entries) > 0 {
		t.Errorf("hook folders %v, %v, want none", entries, err)
	}
}
