package monitor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// A GPU, a pod and discovery hang in the kernel: a scrape that ends has all the
// others, and once they have come back the next one has everything.
func TestHangs(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	for i := range 5 {
		r.start(r.pod(fmt.Sprintf("p%d", i), []annotations.Grant{r.grant(i, 1024, 8)}))
	}
	everything := r.text()

	hang, done := make(chan struct{}), make(chan struct{}, 3)
	for _, key := range []string{"gpu/" + string(r.devices[2].GPU.BDF), "pod/ns/p3/uid-p3", "node"} {
		result := r.flights.DoChan(key, func() (any, error) {
			<-hang
			return nil, nil
		})
		go func() { <-result; done <- struct{}{} }()
	}
	r.timeout = 3 * time.Second // of which nothing is asserted
	want := map[string]bool{}
	for line := range strings.Lines(everything) {
		switch {
		case strings.Contains(line, r.devices[2].ID) && strings.HasPrefix(line, "hami_host"), strings.Contains(line, `pod="p3"`):
		case strings.HasPrefix(line, "hami_vgpumonitor_collect_success"):
			want[strings.Replace(line, " 1", " 0", 1)] = true
		default:
			want[line] = true
		}
	}
	got := map[string]bool{}
	for line := range strings.Lines(r.text()) {
		got[line] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("while they hang (-want +got):\n%s", diff)
	}
	for _, text := range []string{"discover gpus: ", "gpu " + string(r.devices[2].GPU.BDF) + " was not read: ", "1 of 5 pods were not read: "} {
		if got := r.problemText(); !strings.Contains(got, text+context.DeadlineExceeded.Error()) {
			t.Errorf("problems:\n%swant %q", got, text)
		}
	}

	close(hang)
	for range 3 {
		<-done
	}
	if diff := cmp.Diff(everything, r.text()); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
	r.wantProblems()
}

// A scrape that has ended before it began waits for nothing.
func TestEndedScrape(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("nobody waits"))
	metrics := make(chan prometheus.Metric, 1000)
	r.WithContext(ctx).Collect(metrics)
	if len(metrics) == 0 {
		t.Error("no metric says that the collection failed")
	}
	if got := r.problemText(); !strings.Contains(got, "nobody waits") {
		t.Errorf("problems %q, want the cause", got)
	}
}

// Two Prometheus servers scrape while pods come, change and go.
func TestConcurrentScrapes(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	for i := range 10 {
		r.start(r.pod(fmt.Sprintf("p%d", i), []annotations.Grant{r.grant(i%8, 1024, 8)}))
	}
	all := r.cluster.pods
	turn := 0
	r.cluster.onAnswer = func() { // under the fake's lock
		turn++
		changed := all[turn%10].DeepCopy()
		changed.Annotations[annotations.CUAllocatedKey] = `{"` + r.devices[turn%10%8].ID + `":"0-7"}`
		r.cluster.pods = append([]*corev1.Pod{changed}, all[:turn%9]...)
		r.cluster.pods = unique(r.cluster.pods)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				metrics := make(chan prometheus.Metric, 1000)
				r.WithContext(t.Context()).Collect(metrics)
			}
		})
	}
	wg.Wait()
	r.wantProblems()
}

// unique drops pods of a name that was there before.
func unique(pods []*corev1.Pod) (out []*corev1.Pod) {
	seen := map[string]bool{}
	for _, p := range pods {
		if !seen[p.Name] {
			seen[p.Name] = true
			out = append(out, p)
		}
	}
	return out
}
