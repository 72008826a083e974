package plugin

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

// object matches the path of one object; what it does not match is a collection.
var (
	collection = regexp.MustCompile(`^/api/v1/(?:namespaces/[^/]+/)?([a-z]+)$`)
	object     = regexp.MustCompile(`^/api/v1/(?:namespaces/[^/]+/)?([a-z]+)/[^/]+(/[a-z]+)?$`)
)

// right is the verb and the resource of a call, as a rule of RBAC names them.
func right(c proxy.Call) string {
	verb, resource := map[string]string{http.MethodGet: "get", http.MethodPatch: "patch", http.MethodPost: "create", http.MethodPut: "update", http.MethodDelete: "delete"}[c.Method], ""
	if m := collection.FindStringSubmatch(c.Path); m != nil {
		resource = m[1]
		if verb == "get" {
			verb = "list"
		}
	} else if m := object.FindStringSubmatch(c.Path); m != nil {
		resource = m[1] + m[2]
	}
	if c.Watch {
		verb = "watch"
	}
	return verb + " " + resource
}

// The chart gives the plugin every right it uses and no other.
func TestRights(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-report_node_capacity=true"}})
	n.MustPlace(n.Pod("pod", node.Slice("app", 1, 25, 16384)))
	// Edited: the pod is read and put right, and an event says so.
	forged := `{"` + lastGPU + `":"0-7"}`
	s := n.MustPlace(n.Pod("edited", node.Slice("app", 1, 25, 16384)))
	n.AnnotatePod(s.Pod, map[string]*string{annotations.CUAllocatedKey: &forged})
	waitEvent(n, n.Namespace, "edited", "AMDGPUAnnotationRestored")

	used := make(map[string]bool)
	for _, c := range n.Proxy.Calls() {
		used[right(c)] = true
		if c.Status == http.StatusForbidden || c.Status == http.StatusUnauthorized {
			t.Errorf("%s %s is answered with %d", c.Method, c.Path, c.Status)
		}
	}
	ctx, cancel := n.Timeout()
	defer cancel()
	role, err := n.Lab.Client.RbacV1().ClusterRoles().Get(ctx, "amd-gpu-device-plugin", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := make(map[string]bool)
	for _, rule := range role.Rules {
		if !slices.Equal(rule.APIGroups, []string{""}) || len(rule.ResourceNames) > 0 {
			t.Errorf("rule %v, want one of the core group", rule)
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				given[verb+" "+resource] = true
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("rights (-given +used):\n%s", diff)
	}
	for _, c := range n.Proxy.Calls() {
		if strings.Contains(c.Path, "/pods/") || !strings.HasSuffix(c.Path, "/pods") {
			continue
		}
		if want := "spec.nodeName=" + n.Name; c.Query.Get("fieldSelector") != want {
			t.Errorf("%s %s?%s: pods of other nodes too, want those with %s", c.Method, c.Path, c.Query.Encode(), want)
		}
	}
}

// The API server takes every rendering of the chart, unknown fields refused,
// but for those with objects of the Prometheus operator, which it does not know.
func TestChartIsAccepted(t *testing.T) {
	names, err := lab.Charts()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "monitor-prometheus") {
			continue
		}
		if err := lab.Apply(name); err != nil {
			t.Error(err)
		}
	}
}
