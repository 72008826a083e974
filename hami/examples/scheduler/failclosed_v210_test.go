//go:build cgo && !hami_next

package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// A request that came past the webhook, or a GPU on a sidecar, finds no node; in
// stock HAMi v2.10 the former passes to all nodes without a GPU on its books.
func TestSchedulerFailsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		pod    *corev1.Pod // also the name of its node
		reason string
	}{
		"cores beyond 100":       {hamitest.Pod("closed-cores", nil, hamitest.Container("c", "1", "", "101")), "NodeInsufficientDevice"},
		"memory in Gi":           {hamitest.Pod("closed-gi", nil, hamitest.Container("c", "1", "16Gi", "")), "NodeInsufficientDevice"},
		"memory alone":           {hamitest.Pod("closed-alone", nil, hamitest.Container("c", "", "8192", "")), "NodeInsufficientDevice"},
		"one invalid of two":     {hamitest.Pod("closed-one", nil, hamitest.Slice("a"), hamitest.Container("c", "1", "", "0")), "NodeInsufficientDevice"},
		"two invalid":            {hamitest.Pod("closed-two", nil, hamitest.Container("a", "1", "", "0"), hamitest.Container("c", "1", "", "0")), "NodeInsufficientDevice"},
		"a GPU on a sidecar":     {hamitest.Pod("closed-sidecar", []corev1.Container{hamitest.Sidecar(hamitest.Slice("s"))}, hamitest.Slice("a")), "1/1 SidecarGPUNotSupported"},
		"more than there is":     {hamitest.Pod("closed-more", nil, hamitest.Container("c", "1", "196289", "")), "1/1 CardInsufficientMemory"},
		"two wholes for one GPU": {hamitest.Pod("closed-wholes", nil, hamitest.Container("a", "1", "", ""), hamitest.Container("b", "1", "", "")), "1/1 CardInsufficientMemory"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, hamitest.Node(t, test.pod.Name, hamitest.MI300X("GPU-")[:1]))
			node, failed := c.filter(test.pod, test.pod.Name, "other")
			if node != "" || failed[test.pod.Name] != test.reason {
				t.Errorf("node %q, %v, want refused with %q", node, failed, test.reason)
			}
			if value, ok := c.pod(test.pod.Name).Annotations[annotations.AllocatedKey]; ok {
				t.Errorf("allocated %q", value)
			}
		})
	}
}
