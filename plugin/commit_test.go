package plugin

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// TestRecordIsTakenBack: a pod that the API server refuses to patch has got
// nothing, in memory and on disk, and a container served before keeps what it
// has.
func TestRecordIsTakenBack(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	slice := []annotations.Grant{r.grant(0, 16384, 76)}
	forbid := func(forbidden bool) {
		r.server.break_(func(c apiCall) apiFault {
			if forbidden && c.method == http.MethodPatch && strings.Contains(c.path, "/pods/") {
				return apiFault{refuse: http.StatusForbidden}
			}
			return apiFault{}
		})
	}
	check := func(what string, want map[types.UID]*record) {
		t.Helper()
		for where, got := range map[string]map[types.UID]*record{"memory": r.ledger.all(), "disk": onDisk(t, r.cfg.HookPath)} {
			if diff := cmp.Diff(want, got, sameRecords); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", what, where, diff)
			}
		}
	}
	r.bind(r.pod("p", slice))
	forbid(true)
	if _, err := r.allocate(r.share(0, 0)); err == nil {
		t.Fatal("served without being written down")
	}
	check("the only container", map[types.UID]*record{})

	forbid(false)
	r.bind(r.pod("q", slice, slice))
	r.mustAllocate(r.share(0, 0))
	before := r.ledger.all()
	forbid(true)
	if _, err := r.allocate(r.share(0, 1)); err == nil {
		t.Fatal("served without being written down")
	}
	check("the second container", before)
}

// TestRecordStaysWhileNobodyKnows: the write may still arrive, so the CUs stay
// taken until the pod has ended.
func TestRecordStaysWhileNobodyKnows(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.timing = hasty()
	r.start("plugin")
	p := r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	gone := false
	r.server.break_(func(c apiCall) apiFault {
		gone = gone || c.method == http.MethodPatch
		return apiFault{cutRequest: gone}
	})
	if _, err := r.allocate(r.share(0, 0)); err == nil {
		t.Fatal("served without being written down")
	}
	if r.ledger.get(p.UID) == nil || onDisk(t, r.cfg.HookPath)[p.UID] == nil {
		t.Error("the record is gone although the write may still arrive")
	}
	r.server.break_(nil)
	r.background()
	r.phase("ns/p", "Failed")
	eventually(t, "the record goes with the pod", func() bool { return r.ledger.get(p.UID) == nil })
}

// TestUncertainWriteIsNotTriedAgain: the write for an init container took effect,
// its answer is lost, and so is what the pod says. A second look would find the
// app container waiting, and serve it in place of the init container.
func TestUncertainWriteIsNotTriedAgain(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	p := r.pod("p", []annotations.Grant{r.grant(0, 16384, 152)}, []annotations.Grant{r.grant(0, 16384, 76)})
	p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers[:1], p.Spec.Containers[1:]
	r.bind(p)
	r.Pending(t.Context(), partition.ResourceGPU, []int{1})
	written := false
	r.server.break_(func(c apiCall) apiFault {
		switch {
		case !strings.Contains(c.path, "/pods/"):
		case c.method == http.MethodPatch && !written:
			written = true
			return apiFault{cutAnswer: true}
		case c.method == http.MethodGet:
			return apiFault{refuse: http.StatusForbidden}
		}
		return apiFault{}
	})
	answer, err := r.allocate(r.share(0, 0))
	if err == nil {
		t.Fatalf("answered with %v", answer.Envs)
	}
	if !errors.Is(err, errUncertain) || !written {
		t.Errorf("error %v", err)
	}
	if got := r.annotation("ns/p", annotations.BindPhaseKey); got != "failed" || r.lockText() != "" {
		t.Errorf("phase %q, lock %q, want failed and none", got, r.lockText())
	}
	if r.ledger.get(p.UID) == nil {
		t.Error("the record is gone although the pod carries it")
	}
}

// TestLostWriteMayStillArrive: a try got no answer and the next one is refused,
// yet the first may only be late.
func TestLostWriteMayStillArrive(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	p := r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	patches := 0
	r.server.break_(func(c apiCall) apiFault {
		if c.method != http.MethodPatch || !strings.Contains(c.body, annotations.CUAllocatedKey[len("hami.io/"):]) {
			return apiFault{}
		}
		if patches++; patches == 1 {
			return apiFault{cutRequest: true}
		}
		return apiFault{refuse: http.StatusForbidden}
	})
	if _, err := r.allocate(r.share(0, 0)); !errors.Is(err, errUncertain) || patches != 2 {
		t.Errorf("error %v after %d tries", err, patches)
	}
	if r.ledger.get(p.UID) == nil {
		t.Error("the record is gone although the write may still arrive")
	}
}
