package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/hook"
)

// Whatever other pods of the node say of themselves, a pod is served, and events
// name those whose annotations cannot be true.
func TestAnnotationsOfOthers(t *testing.T) {
	n := lab.Start(t, node.Options{})
	grant := lastGPU + ",AMD Instinct MI300X,16384,8:;"
	for name, notes := range map[string]map[string]string{
		"garbage": {annotations.AllocatedKey: "]", annotations.ToAllocateKey: "\x00", annotations.CUAllocatedKey: "{"},
		"nothing": {annotations.AllocatedKey: "", annotations.ToAllocateKey: "", annotations.CUAllocatedKey: ""},
		"everything": {
			annotations.AllocatedKey: grant, annotations.ToAllocateKey: ";", annotations.CUAllocatedKey: `{"` + lastGPU + `":"0-303"}`,
		},
		"endless": {annotations.AllocatedKey: grant, annotations.ToAllocateKey: ";", annotations.CUAllocatedKey: strings.Repeat("[", 200_000)},
		"far":     {annotations.AllocatedKey: grant, annotations.ToAllocateKey: ";", annotations.CUAllocatedKey: `{"` + lastGPU + `":"0-4294967295"}`},
	} {
		app := node.Whole("app", 1)
		if name == "nothing" {
			app = node.Plain("app")
		}
		pod := n.Pod(name, app)
		pod.Annotations = notes
		n.BindOutsideHAMi(pod)
	}
	var held cumask.Set
	for i := range 3 {
		s := n.MustPlace(onOneGPU(n.Pod(fmt.Sprintf("pod-%d", i), node.Slice("app", 1, 25, 16384))))
		got := mask(t, s, "app")
		if both := got.Intersect(held); got.Len() != 76 || !both.Empty() {
			t.Errorf("pod %d holds %s, of which %s are held already", i, got, both)
		}
		held = held.Union(got)
	}
	for _, name := range []string{"garbage", "everything", "endless", "far"} {
		waitEvent(n, n.Namespace, name, "AMDGPUAnnotationIgnored", name)
	}
}

// A scheduler that does not know how few CUs a GPU can take, such as HAMi v2.10:
// the grant is raised. And one that leaves the entries of containers without
// GPUs out: the k-th grant is for the k-th container that asks.
func TestGrantsOfHAMiV210(t *testing.T) {
	n := lab.Start(t, node.Options{})
	bound := n.Bind(onOneGPU(n.Pod("p", node.Plain("plain"), node.Slice("app", 1, 25, 16384))))
	grant := lastGPU + ",AMD Instinct MI300X,16384,3:;"
	n.AnnotatePod(bound, map[string]*string{annotations.AllocatedKey: &grant, annotations.ToAllocateKey: &grant})
	s, err := n.Admit(n.Read(bound))
	if err != nil {
		t.Fatal(err)
	}
	if got := mask(t, s, "app"); got.Len() != 8 {
		t.Errorf("3 CUs of a GPU with 8 XCCs became %s, want 8 CUs", got)
	}
	if got := s.Containers["plain"]; len(got.Devices) > 0 {
		t.Errorf("the container without a GPU got %v", got)
	}
	if got := n.Notes(bound)[annotations.CUAllocatedKey]; got != `{"`+lastGPU+`":"0-7"}` {
		t.Errorf("recorded are %s, want the 8 CUs", got)
	}
	n.Settle()
}

// A slice is not started without what limits it.
func TestC42NoHookNoSlice(t *testing.T) {
	n := lab.Start(t, node.Options{})
	library := filepath.Join(n.HookPath(), "vgpu", hook.Library)
	n.Write(library, "no library")
	_, err := n.Place(n.Pod("broken", node.Slice("app", 1, 25, 16384)))
	if err == nil || !strings.Contains(err.Error(), library) {
		t.Errorf("a slice with a broken hook: %v, want a rejection that names %s", err, library)
	}
	if err := os.Remove(library); err != nil {
		t.Fatal(err)
	}
	_, err = n.Place(n.Pod("slice", node.Slice("app", 1, 25, 16384)))
	if err == nil || !strings.Contains(err.Error(), library) {
		t.Errorf("a slice without the hook: %v, want a rejection that names %s", err, library)
	}
	n.Settle()
	n.MustPlace(n.Pod("whole", node.Whole("app", 1))) // needs none
	n.Check()
	n.WriteHook()
	n.CheckPlaced(n.Place(n.Pod("again", node.Slice("app", 1, 25, 16384))))
}

// More than the pod itself may use is not handed out, whoever wrote the grant.
func TestGrantBeyondTheLimits(t *testing.T) {
	n := lab.Start(t, node.Options{})
	bound := n.Bind(onOneGPU(n.Pod("p", node.Slice("app", 1, 25, 16384))))
	grant := lastGPU + ",AMD Instinct MI300X,196592,304:;"
	n.AnnotatePod(bound, map[string]*string{annotations.AllocatedKey: &grant, annotations.ToAllocateKey: &grant})
	if s, err := n.Admit(n.Read(bound)); err == nil {
		t.Errorf("a pod that asks for a slice got %v", s.Containers["app"].Env)
	}
	n.Settle()
	if phase := n.Read(bound).Status.Phase; phase != corev1.PodFailed {
		t.Errorf("phase %s, want Failed", phase)
	}
	n.Check()
}
