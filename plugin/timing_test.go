package plugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/Project-HAMi/hami-amd/partition"
)

// Kubelet waits for Allocate as long as it takes, so that it is for the plugin
// to end within 20 s.
func TestAllocateEndsWithin20Seconds(t *testing.T) {
	d := defaultTiming()
	if d.answer <= 0 || d.cleanup <= 0 || d.answer+d.cleanup >= 20*time.Second {
		t.Errorf("%v for the answer and %v after it", d.answer, d.cleanup)
	}
}

// The node is looked at every 30 s, and after an error again in 5 s.
func TestNodeIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newCannedServer(nodeObject("node-1", nil))
		begin := time.Now()
		var looks []time.Duration
		server.refuse = func(_ string, n int) error {
			looks = append(looks, time.Since(begin))
			if n <= 3 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-1", errors.New("not yet"))
			}
			return nil
		}
		deps, _ := testLogger(t)
		deps.Client, deps.Now = server.client(t), time.Now
		timing := defaultTiming()
		c := &cluster{client: deps.Client, node: "node-1", request: timing.request}
		src := &fakeSource{}
		src.set(newSnapshot(nil, nil, partition.ModeCU, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
		defer cancel()
		newPublisher(Config{NodeName: "node-1"}, deps, c, newEventSender(c, deps), timing).
			run(ctx, src, func() map[string][]string { return nil })
		var want []time.Duration
		for _, seconds := range []int{0, 5, 10, 15, 45, 75} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if diff := cmp.Diff(want, looks); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
	})
}
