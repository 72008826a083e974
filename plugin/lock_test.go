package plugin

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// TestLockOfARefusedPodIsReleasedLater: the API server is away when a pod is
// refused, and the lock goes once it is back.
func TestLockOfARefusedPodIsReleasedLater(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.timing = hasty()
	r.timing.publish, r.timing.publishLocked, r.timing.publishRetry = time.Hour, time.Hour, time.Hour // not by looking
	r.start("plugin")
	r.background()
	eventually(t, "the publisher has looked, for an hour", func() bool { _, ok := r.registered(); return ok })
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	away := true
	r.server.break_(func(c apiCall) apiFault {
		if away && c.method == http.MethodPatch {
			return apiFault{refuse: 503}
		}
		return apiFault{}
	})
	if _, err := r.allocate(r.share(0, 0), r.share(1, 0)); err == nil {
		t.Fatal("a count mismatch was served")
	}
	if r.lockText() == "" {
		t.Fatal("the lock was released through a server that is away")
	}
	r.server.mu.Lock()
	away = false
	r.server.mu.Unlock()
	eventually(t, "the lock is released and the pod marked", func() bool {
		return r.lockText() == "" && r.annotation("ns/p", annotations.BindPhaseKey) == "failed"
	})
}

// TestDebtsArePaidAtTheEnd: what is owed when the plugin is stopped is tried
// once more.
func TestDebtsArePaidAtTheEnd(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	lock := r.lockText()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.debts.settle(ctx, debt{namespace: "ns", name: "p", uid: "uid-of-p", failed: true, lock: lock})
	if r.lockText() != lock {
		t.Fatal("paid without time")
	}
	r.debts.run(ctx)
	if r.lockText() != "" || r.annotation("ns/p", annotations.BindPhaseKey) != "failed" {
		t.Error("what was owed is not paid")
	}
}

func TestDebtsThatCannotBePaid(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	for name, owed := range map[string]debt{
		"pod is gone":            {namespace: "ns", name: "gone", uid: "u", failed: true},
		"pod is another":         {namespace: "ns", name: "p", uid: "another", failed: true},
		"lock is another's":      {namespace: "ns", name: "q", uid: "u", lock: "2026-08-21T08:20:39Z,ns,q"},
		"nothing is owed at all": {},
	} {
		rest, err := r.cluster.pay(t.Context(), owed)
		if !rest.paid() || err != nil {
			t.Errorf("%s: %+v left, %v, want nothing", name, rest, err)
		}
	}
	if !strings.HasSuffix(r.lockText(), ",ns,p") || r.annotation("ns/p", annotations.BindPhaseKey) != "allocating" {
		t.Error("another pod's lock or phase was touched")
	}
}

// TestDebtsThatComeMeanwhile: what is owed while others are paid is not lost.
func TestDebtsThatComeMeanwhile(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 76)}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.debts.settle(ended, debt{namespace: "ns", name: "p", uid: "uid-of-p", failed: true})
	r.server.break_(func(c apiCall) apiFault {
		if c.number > 1 {
			return apiFault{}
		}
		return apiFault{before: func() {
			r.debts.settle(ended, debt{namespace: "ns", name: "p", uid: "uid-of-p", lock: r.lockText()})
		}}
	})
	if r.debts.round(t.Context()) {
		t.Error("all is paid although something was added")
	}
	if !r.debts.round(t.Context()) || r.lockText() != "" {
		t.Error("what was added is not paid in the next round")
	}
}
