package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestC52AllocateRepeated(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	// served is a rig with pod p served and running, and its answer.
	served := func(t *testing.T) (*rig, *pluginapi.ContainerAllocateResponse) {
		r := newRig(t, snap)
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 49152, 76)}))
		answer := r.mustAllocate(r.share(0, 3))
		r.run("ns/p")
		return r, answer
	}
	t.Run("same answer, nothing changed", func(t *testing.T) {
		for name, restart := range map[string]func(r *rig){
			"plugin runs on":    func(*rig) {},
			"plugin restarted":  func(r *rig) { r.start("plugin") },
			"its file was lost": func(r *rig) { os.Remove(filepath.Join(r.cfg.HookPath, "vgpu", stateName)); r.start("plugin") },
		} {
			r, want := served(t)
			restart(r)
			before := r.server.pod("ns/p")
			for range 3 {
				if diff := cmp.Diff(want.String(), r.mustAllocate(r.share(0, 3)).String()); diff != "" {
					t.Errorf("%s: answer (-want +got):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(before, r.server.pod("ns/p")); diff != "" {
				t.Errorf("%s: pod changed (-want +got):\n%s", name, diff)
			}
			r.bind(r.pod("q", []annotations.Grant{r.grant(0, 49152, 76)}))
			r.mustAllocate(r.share(0, 1))
			r.checkDisjoint()
		}
	})
	t.Run("while another pod holds the lock", func(t *testing.T) {
		r, want := served(t)
		r.bind(r.pod("q", []annotations.Grant{r.grant(0, 1000, 38)}))
		lock := r.lockText()
		if diff := cmp.Diff(want.String(), r.mustAllocate(r.share(0, 3)).String()); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
		if r.lockText() != lock || r.annotation("ns/q", annotations.BindPhaseKey) != "allocating" {
			t.Error("the lock or the phase of q changed")
		}
		if got := r.mustAllocate(r.share(0, 1)).Envs[hook.LimitEnv]; got != "1000m" {
			t.Errorf("q's limit %q, want 1000m", got)
		}
	})
	t.Run("kubelet reuses the IDs of a pod whose end is news", func(t *testing.T) {
		r, _ := served(t)
		r.bind(r.pod("q", []annotations.Grant{r.grant(0, 1000, 38)}))
		r.hamiAllocator.timing.doubt = 2 * time.Second
		gets := 0
		r.server.break_(func(c apiCall) apiFault {
			if c.method == "GET" && strings.HasSuffix(c.path, "/pods/p") {
				if gets++; gets == 2 {
					return apiFault{before: func() { r.phase("ns/p", corev1.PodSucceeded) }}
				}
			}
			return apiFault{}
		})
		if got := r.mustAllocate(r.share(0, 3)).Envs[hook.LimitEnv]; got != "1000m" {
			t.Errorf("limit %q, want q's 1000m and not p's", got)
		}
	})
	// forgotten does what a kubelet without its checkpoint does for one of its
	// pods, to which all IDs are free.
	forgotten := func(r *rig) (*pluginapi.ContainerAllocateResponse, error) {
		ask := preference{resource: partition.ResourceGPU, size: 1, available: allIDs(snap)}
		ask.learn(r.Pending(t.Context(), partition.ResourceGPU, []int{1}), 0)
		return r.allocate(prefer(snap, ask)...)
	}
	t.Run("kubelet has lost its checkpoint with one pod", func(t *testing.T) {
		r, want := served(t)
		answer, err := forgotten(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), answer.String()); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	})
	t.Run("kubelet has lost its checkpoint with two pods", func(t *testing.T) {
		r, _ := served(t)
		r.bind(r.pod("q", []annotations.Grant{r.grant(0, 1000, 38)}))
		r.mustAllocate(r.share(0, 0))
		r.run("ns/q")
		before := r.ledger.all()
		for range 2 {
			if answer, err := forgotten(r); err == nil {
				t.Errorf("a pod that nobody can tell was answered: %v", answer)
			}
		}
		if diff := cmp.Diff(before, r.ledger.all(), sameRecords); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		r.phase("ns/p", corev1.PodFailed) // kubelet's verdict
		answer, err := forgotten(r)
		if err != nil || answer.Envs[hook.LimitEnv] != "1000m" {
			t.Errorf("answer %v, %v for the only one that is left", answer, err)
		}
	})
	t.Run("a finished pod", func(t *testing.T) {
		r, _ := served(t)
		r.phase("ns/p", corev1.PodSucceeded)
		before := r.server.pod("ns/p")
		if _, err := r.allocate(r.share(0, 3)); err == nil {
			t.Error("a pod that has finished was answered")
		}
		if diff := cmp.Diff(before, r.server.pod("ns/p")); diff != "" {
			t.Errorf("pod changed (-want +got):\n%s", diff)
		}
	})
}
