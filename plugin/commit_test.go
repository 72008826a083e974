package plugin

import (
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
