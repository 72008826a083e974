package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// servedPod has pod p served and running on a rig whose background runs.
func servedPod(t *testing.T) *rig {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.background()
	<-r.watch.listed
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	r.mustAllocate(r.share(0, 0))
	r.run("ns/p")
	return r
}

func TestEditedAnnotationsArePutBack(t *testing.T) {
	for name, edit := range map[string]func(p *corev1.Pod){
		"other CUs":          func(p *corev1.Pod) { p.Annotations[annotations.CUAllocatedKey] = `{"x":"0-303"}` },
		"broken":             func(p *corev1.Pod) { p.Annotations[annotations.CUAllocatedKey] = `{` },
		"removed":            func(p *corev1.Pod) { delete(p.Annotations, annotations.CUAllocatedKey) },
		"containers edited":  func(p *corev1.Pod) { p.Annotations[annotations.CUContainersKey] = `{}` },
		"containers removed": func(p *corev1.Pod) { delete(p.Annotations, annotations.CUContainersKey) },
		"all removed":        func(p *corev1.Pod) { p.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := servedPod(t)
			before := r.server.pod("ns/p")
			r.server.edit("ns/p", edit)
			eventually(t, "both annotations are as before", func() bool {
				now := r.server.pod("ns/p").Annotations
				return now[annotations.CUAllocatedKey] == before.Annotations[annotations.CUAllocatedKey] &&
					now[annotations.CUContainersKey] == before.Annotations[annotations.CUContainersKey]
			})
			eventually(t, "an event on the pod", func() bool {
				for _, e := range r.server.recorded() {
					if e.Reason == eventAnnotationRestored && e.InvolvedObject.Name == "p" && e.Namespace == "ns" {
						return true
					}
				}
				return false
			})
			r.bind(r.pod("q", []annotations.Grant{r.grant(0, 16384, 76)}))
			r.mustAllocate(r.share(0, 1))
			r.checkDisjoint()
		})
	}
}

// TestEditsMadeWhileThePluginWasDown: the state file outranks annotations.
func TestEditsMadeWhileThePluginWasDown(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	r.mustAllocate(r.share(0, 0))
	r.run("ns/p")
	r.server.edit("ns/p", func(p *corev1.Pod) {
		p.Annotations[annotations.CUAllocatedKey] = `{"` + r.device(0).ID + `":"228-303"}`
	})
	r.start("plugin")
	r.bind(r.pod("q", []annotations.Grant{r.grant(0, 16384, 76)}))
	if got := r.mask(r.mustAllocate(r.share(0, 1)), 0).String(); got != "76-151" {
		t.Errorf("q holds %s, want 76-151 beside the recorded 0-75 of p", got)
	}
	r.background()
	eventually(t, "p's annotation is put back", func() bool { return r.cus("ns/p", 0).String() == "0-75" })
}

// TestEditsAreNotFoughtOver: somebody who keeps editing gets slower answers.
func TestEditsAreNotFoughtOver(t *testing.T) {
	r := servedPod(t)
	edit := func() {
		r.server.edit("ns/p", func(p *corev1.Pod) { p.Annotations[annotations.CUAllocatedKey] = "{}" })
	}
	edit()
	eventually(t, "it is put back", func() bool { return r.cus("ns/p", 0).Len() == 76 })
	r.server.reset()
	for range 20 {
		edit()
		time.Sleep(5 * time.Millisecond)
	}
	patches := 0
	for _, c := range r.server.reset() {
		if c.method == "PATCH" {
			patches++
		}
	}
	if patches > 1 {
		t.Errorf("%d patches in answer to 20 edits, want at most 1 in the first second", patches)
	}
	eventually(t, "it is put back in the end", func() bool { return r.cus("ns/p", 0).Len() == 76 })
}

func TestHookFoldersFollowThePods(t *testing.T) {
	r := servedPod(t)
	folder := filepath.Join(r.cfg.HookPath, "vgpu", "containers")
	list := func() string {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	if got := list(); got != "uid-of-p_c0" {
		t.Errorf("folders %q, want p's", got)
	}
	r.server.remove("ns/p")
	eventually(t, "p's folder is gone", func() bool { return list() == "" })

	// Those of pods that went while nobody looked, and of nobody.
	for _, name := range []string{"uid-of-lost_c0", "uid-of-q_c0", "keep me"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o777); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(folder, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	r.server.put(r.pod("q", []annotations.Grant{r.grant(0, 16384, 76)}))
	r.start("plugin")
	r.background()
	eventually(t, "only the folders of live pods stay", func() bool { return list() == "keep me uid-of-q_c0" })
}

func TestEndedPodsAreForgotten(t *testing.T) {
	r := servedPod(t)
	uid := r.server.pod("ns/p").UID
	if r.ledger.get(uid) == nil || len(r.watch.holders()["ns/p"]) != 1 {
		t.Fatal("p is not known")
	}
	r.phase("ns/p", corev1.PodSucceeded)
	eventually(t, "p is forgotten", func() bool { return r.ledger.get(uid) == nil && len(r.watch.holders()) == 0 })
}

// TestWatchOutlivesTheServer: what happens while the API server is away is
// noticed when it is back.
// A pod may end before kubelet asks for its devices, and nobody else can go on
// until its lock is gone.
func TestLockOfAPodThatEndsUnservedIsReleasedAtOnce(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"rejected by kubelet": func(r *rig) { r.phase("ns/p", corev1.PodFailed) },
		"deleted":             func(r *rig) { r.server.remove("ns/p") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
			r.background()
			eventually(t, "the node has been looked at", func() bool {
				return r.server.currentNode().Annotations[annotations.NodeRegisterKey] != ""
			})
			r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
			end(r) // the next look is 30 s away
			eventually(t, "the lock is released", func() bool { return r.lockText() == "" })
		})
	}
}

func TestWatchOutlivesTheServer(t *testing.T) {
	r := servedPod(t)
	uid := r.server.pod("ns/p").UID
	r.server.break_(func(apiCall) apiFault { return apiFault{refuse: 503} })
	r.server.server.CloseClientConnections()
	r.server.remove("ns/p")
	r.server.break_(nil)
	eventually(t, "p is forgotten", func() bool { return r.ledger.get(uid) == nil })
}

// TestRunLeavesNothingBehind counts goroutines over many lives.
func TestRunLeavesNothingBehind(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0
		}
		return len(entries)
	}
	var goroutines, files int
	for i := range 20 {
		r.start("plugin")
		end := r.background()
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
		r.mustAllocate(r.share(0, 0))
		r.server.remove("ns/p")
		end()
		if _, err := r.allocate(r.share(0, 0)); err == nil || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("Allocate after Run: %v, want a refusal", err)
		}
		r.server.server.CloseClientConnections()
		if i == 4 {
			goroutines, files = runtime.NumGoroutine(), open()
		}
	}
	eventually(t, "no more goroutines and descriptors than after five lives", func() bool {
		return runtime.NumGoroutine() <= goroutines+2 && open() <= files+2
	})
}
