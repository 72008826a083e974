package plugin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestEventsThatCannotBeSentBlockNobody(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	for range 3 * eventQueue {
		r.events.node(corev1.EventTypeWarning, eventMissing, "x")
	}
	if got := len(r.events.queue); got != eventQueue {
		t.Errorf("%d events wait, want the newest dropped beyond %d", got, eventQueue)
	}
	r.server.break_(func(c apiCall) apiFault {
		if strings.HasSuffix(c.path, "/events") && c.number%2 == 0 {
			return apiFault{refuse: 403}
		}
		return apiFault{}
	})
	r.background()
	eventually(t, "the queue is empty", func() bool { return len(r.events.queue) == 0 })
	eventually(t, "what could be sent was", func() bool { return len(r.server.recorded()) >= eventQueue/4 })
	names := make(map[string]bool)
	for _, e := range r.server.recorded() {
		if names[e.Name] {
			t.Errorf("name %q twice", e.Name)
		}
		names[e.Name] = true
	}
}

func TestReportsOfOnePodAreBounded(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	pod := func(uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID(uid)}}
	}
	say := func(uid, what string) { r.reports.report([]problem{{pod(uid), errors.New(what)}}) }
	for range 5 {
		say("u", "the same")
	}
	if got := len(r.events.queue); got != 1 {
		t.Errorf("%d events for one problem, want 1", got)
	}
	for i := range 50 {
		say("u", strings.Repeat("x", i))
	}
	if got := len(r.events.queue); got != reportsPerPod {
		t.Errorf("%d events for one pod, want at most %d", got, reportsPerPod)
	}
	say("v", "the same")
	r.reports.forget(func(uid types.UID) bool { return uid == "v" })
	say("u", "the same")
	say("v", "the same")
	if got := len(r.events.queue); got != reportsPerPod+2 {
		t.Errorf("%d events, want one more for another pod and one for a pod made anew", got)
	}
}

func TestCut(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"short":           {"short", "short"},
		"exactly":         {"0123456789", "0123456789"},
		"long":            {"0123456789a", "0123456..."},
		"in a character":  {"012345\u20ac789", "012345..."},
		"only characters": {strings.Repeat("\u20ac", 9), "\u20ac\u20ac..."},
	} {
		got := cut(tt.text, 10)
		if got != tt.want || !utf8.ValidString(got) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := names([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Errorf("names = %q", got)
	}
}

// A bad mode in an annotation of the node is told on the node, once however
// often the plugin starts, and again when it is another value.
func TestIgnoredSettingsAreToldOnce(t *testing.T) {
	values := map[string]string{annotations.OperatingModeKey: "mig", annotations.ComputePartitionKey: "half"}
	server := newAPIServer(t, nodeObject("node-1", values))
	start := func() {
		t.Helper()
		p, err := New(Config{NodeName: "node-1"}, Deps{Client: server.client("plugin")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.tellIgnored(t.Context())
	}
	messages := func() (said []string) {
		for _, e := range server.recorded() {
			if e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "node-1" || e.Type != corev1.EventTypeWarning || e.Reason != eventSettingIgnored {
				t.Errorf("event %+v", e)
			}
			said = append(said, e.Message)
		}
		return said
	}
	want := []string{
		`node annotation hami.io/amd-operating-mode: operating mode "mig": want "cu" or "partition"; using "cu" from the default`,
		`node annotation hami.io/amd-compute-partition: compute partition "half": want one of "spx", "dpx", "tpx", "qpx" or "cpx"; using none from the default`,
	}
	for range 3 {
		start()
	}
	if diff := cmp.Diff(want, messages()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	server.editNode(func(n *corev1.Node) {
		n.Annotations = map[string]string{annotations.OperatingModeKey: "cu", annotations.ComputePartitionKey: "quarter"}
	})
	lost := false // the answer to the first try
	server.break_(func(c apiCall) apiFault {
		if c.method != http.MethodPost || lost {
			return apiFault{}
		}
		lost = true
		return apiFault{cutAnswer: true}
	})
	start()
	if got := messages(); !lost || len(got) != 3 || !strings.Contains(got[2], "quarter") {
		t.Errorf("events %q", got)
	}
}
