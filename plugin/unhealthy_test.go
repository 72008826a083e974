package plugin

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// A GPU that falls ill between the scheduler's choice and kubelet's call gets no
// new pod. What runs on it has been answered already, and is answered again.
func TestUnhealthyGPUGetsNoNewPod(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	r := newRig(t, snap)
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	want := r.mustAllocate(r.share(0, 0))
	r.run("ns/p")

	sick := map[partition.BDF]string{r.device(0).GPU.BDF: "uncorrectable ECC errors"}
	r.src.set(snapshotFrom(t, snap.Inventory, partition.RegisterOptions{Unhealthy: sick}))
	r.bind(r.pod("q", []annotations.Grant{r.grant(1, 16384, 76), r.grant(0, 16384, 76)}))
	_, err := r.allocate(r.share(1, 0), r.share(2, 0))
	if !errors.Is(err, errUnhealthy) || !strings.Contains(err.Error(), "uncorrectable ECC errors") {
		t.Errorf("Allocate = %v, want %v and why", err, errUnhealthy)
	}
	if r.lockText() != "" || r.annotation("ns/q", annotations.BindPhaseKey) != "failed" {
		t.Error("the lock stayed, or the phase is not failed")
	}
	if diff := cmp.Diff(want.String(), r.mustAllocate(r.share(0, 0)).String()); diff != "" {
		t.Errorf("answer for the pod that runs (-want +got):\n%s", diff)
	}
	r.bind(r.pod("s", []annotations.Grant{r.grant(1, 16384, 76)}))
	r.mustAllocate(r.share(1, 0))
	r.checkDisjoint()
}
