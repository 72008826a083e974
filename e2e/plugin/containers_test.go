package plugin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/hook"
)

// onOneGPU makes every grant of a pod one of the same GPU.
func onOneGPU(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{annotations.UseUUIDKey: lastGPU}
	return pod
}

// mask is the CUs of a container's only device.
func mask(t *testing.T, s *node.Served, container string) cumask.Set {
	t.Helper()
	masks, err := cumask.ParseHSAMask(s.Containers[container].Env["HSA_CU_MASK"])
	if err != nil || len(masks) != 1 {
		t.Fatalf("container %s: masks %v, %v, want one", container, masks, err)
	}
	return masks[0].CUs
}

// Containers that run side by side share a GPU and no CU; which of them gets
// what is decided when the first is served.
func TestC25TwoContainersOnOneGPU(t *testing.T) {
	n := lab.Start(t, node.Options{})
	pod := onOneGPU(n.Pod("pair", node.Slice("a", 1, 25, 16384), node.Plain("plain"), node.Slice("b", 1, 75, 8192)))
	s := n.MustPlace(pod)
	a, b := mask(t, s, "a"), mask(t, s, "b")
	if a.Len() != 76 || b.Len() != 228 || !a.Intersect(b).Empty() {
		t.Errorf("the containers hold %s and %s, want 76 and 228 CUs, disjoint", a, b)
	}
	if got := s.Containers["b"].Env[hook.LimitEnv]; got != "8192m" {
		t.Errorf("limit of the second container %q, want 8192m", got)
	}
	n.Check()

	// No CU is left.
	again := onOneGPU(n.Pod("late", node.Slice("app", 1, 1, 100)))
	if _, err := n.Place(again); err == nil {
		t.Error("a pod was placed on a GPU without free CUs")
	}
}

// An ordinary init container is gone before the app containers start: they have
// its CUs again, while a sidecar keeps its own.
func TestInitContainersAndSidecars(t *testing.T) {
	for name, tt := range map[string]struct {
		init  []corev1.Container
		app   []corev1.Container
		peak  int  // CUs of the pod
		again bool // kubelet gives the app container the IDs of the init container
	}{
		"an init container": {
			init: []corev1.Container{node.Slice("init", 1, 50, 16384)},
			app:  []corev1.Container{node.Slice("app", 1, 25, 16384)},
			peak: 152, again: true,
		},
		"init containers one after the other": {
			init: []corev1.Container{node.Slice("init", 1, 50, 16384), node.Slice("second", 1, 100, 8192)},
			app:  []corev1.Container{node.Slice("app", 1, 25, 16384)},
			peak: 304, again: true,
		},
		"a sidecar before an init container": {
			init: []corev1.Container{node.Sidecar(node.Slice("sidecar", 1, 25, 16384)), node.Slice("init", 1, 50, 16384)},
			app:  []corev1.Container{node.Slice("app", 1, 25, 16384), node.Plain("plain")},
			peak: 228, again: true,
		},
		"an init container before a sidecar": {
			init: []corev1.Container{node.Plain("plain"), node.Slice("init", 1, 75, 16384), node.Sidecar(node.Slice("sidecar", 1, 25, 16384))},
			app:  []corev1.Container{node.Slice("app", 1, 25, 16384)},
			peak: 228,
		},
		"of all three one alone": {
			init: []corev1.Container{node.Slice("init", 1, 25, 16384), node.Sidecar(node.Plain("sidecar"))},
			app:  []corev1.Container{node.Plain("app")},
			peak: 76,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, node.Options{})
			pod := onOneGPU(n.Pod("pod", tt.app...))
			pod.Spec.InitContainers = tt.init
			s := n.MustPlace(pod)
			n.Check()
			held, err := annotations.DecodeCUs(n.Notes(s.Pod)[annotations.CUAllocatedKey])
			if err != nil {
				t.Fatal(err)
			}
			if got := held[lastGPU].Len(); got != tt.peak {
				t.Errorf("the pod holds %d CUs, want %d", got, tt.peak)
			}
			if diff := cmp.Diff(n.IDs(s, "init"), n.IDs(s, "app")); (diff == "") != tt.again {
				t.Errorf("kubelet's IDs of the init and the app container:\n%s", diff)
			}
			// What is free beside it can be had, and no more.
			n.CheckPlaced(n.Place(onOneGPU(n.Pod("other", node.Slice("app", 1, 100-int64(100*tt.peak/304), 16384)))))
		})
	}
}
