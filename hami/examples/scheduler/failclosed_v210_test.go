//go:build cgo && !hami_next

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// A request that came past the webhook, or a GPU on a sidecar, finds no node; in
// stock HAMi v2.10 the former passes to all nodes without a GPU on its books.
func TestSchedulerFailsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		reason string
	}{
		"cores beyond 100":       {hamitest.Pod("p", nil, hamitest.Container("c", "1", "", "101")), "NodeInsufficientDevice"},
		"memory in Gi":           {hamitest.Pod("p", nil, hamitest.Container("c", "1", "16Gi", "")), "NodeInsufficientDevice"},
		"memory alone":           {hamitest.Pod("p", nil, hamitest.Container("c", "", "8192", "")), "NodeInsufficientDevice"},
		"one invalid of two":     {hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Container("c", "1", "", "0")), "NodeInsufficientDevice"},
		"two invalid":            {hamitest.Pod("p", nil, hamitest.Container("a", "1", "", "0"), hamitest.Container("c", "1", "", "0")), "NodeInsufficientDevice"},
		"a GPU on a sidecar":     {hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Slice("s"))}, hamitest.Slice("a")), "1/1 SidecarGPUNotSupported"},
		"more than there is":     {hamitest.Pod("p", nil, hamitest.Container("c", "1", "196289", "")), "1/1 CardInsufficientMemory"},
		"two wholes for one GPU": {hamitest.Pod("p", nil, hamitest.Container("a", "1", "", ""), hamitest.Container("b", "1", "", "")), "1/1 CardInsufficientMemory"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, hami.Config{}, hamitest.Node(t, "node", hamitest.MI300X("GPU-")[:1]))
			node, failed := c.filter(test.pod, "node", "other")
			if node != "" || failed["node"] != test.reason {
				t.Errorf("node %q, %v, want refused with %q", node, failed, test.reason)
			}
			if value, ok := c.pod("p").Annotations[annotations.AllocatedKey]; ok {
				t.Errorf("allocated %q", value)
			}
		})
	}
}
