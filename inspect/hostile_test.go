package inspect

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestProblemsOfOneObjectAreBounded(t *testing.T) {
	var ids, cus []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("GPU-%d", i))
		cus = append(cus, fmt.Sprintf(`"GPU-%d":"0-3"`, i))
	}
	r := cleanRig(t)
	r.node("cu-1").Annotations[annotations.DeviceCordonKey] = strings.Join(ids, ",")
	r.pod("slice-a").Annotations[annotations.CUAllocatedKey] = "{" + strings.Join(cus, ",") + "}"
	c := r.cluster()
	for what, problems := range map[string][]Problem{"node": c.nodes["cu-1"].Problems, "pod": c.Pods[len(c.Pods)-3].Problems} {
		if n := len(problems); n > maxProblems {
			t.Errorf("%s: %d problems", what, n)
		}
	}
	last := map[Code]int{}
	for p := range c.All() {
		last[p.Code]++
	}
	if last[CordonUnknownDevice] != maxProblems-1 || last[TooMany] != 2 {
		t.Errorf("problems by code: %v", last)
	}
}

// Names go into a remedy only if they cannot be anything else in a shell.
func TestRemediesAreSafeToPaste(t *testing.T) {
	for name, want := range map[string]string{
		"n1":             "kubectl annotate node n1 hami.io/mutex.lock-",
		"a.b-c":          "kubectl annotate node a.b-c hami.io/mutex.lock-",
		"x; rm -rf ~":    "kubectl annotate node NODE hami.io/mutex.lock-",
		"$(reboot)":      "kubectl annotate node NODE hami.io/mutex.lock-",
		"--all":          "kubectl annotate node NODE hami.io/mutex.lock-",
		"{pod}":          "kubectl annotate node NODE hami.io/mutex.lock-",
		"":               "kubectl annotate node NODE hami.io/mutex.lock-",
		"a\nb":           "kubectl annotate node NODE hami.io/mutex.lock-",
		"Groß":           "kubectl annotate node NODE hami.io/mutex.lock-",
		"node.\u202egpj": "kubectl annotate node NODE hami.io/mutex.lock-",
	} {
		if got := fill(unlock, Problem{Node: name}); got != want {
			t.Errorf("node %q: %q, want %q", name, got, want)
		}
	}
}

// One broken object hides nothing of the others.
func TestNewOutlivesBrokenObjects(t *testing.T) {
	r := cleanRig(t)
	r.edit("slice-b", "", r.grant("slice-b", 0, 0).UUID, r.grant("slice-a", 0, 0).UUID)
	r.nodes = append(r.nodes, nil, &corev1.Node{}, r.nodes[0])
	r.pods = append(r.pods, nil, &corev1.Pod{}, r.pods[0])
	broken := r.pods[0].DeepCopy()
	broken.Name, broken.UID = "broken", "broken"
	for _, key := range podKeys {
		broken.Annotations[key] = "\x00{"
	}
	r.pods = append([]*corev1.Pod{broken}, r.pods...)
	var got []string
	for p := range r.cluster().All() {
		got = append(got, string(p.Code))
	}
	if want := "[MaskOverlap GrantsUnreadable]"; fmt.Sprint(got) != want {
		t.Errorf("problems %v, want %s", got, want)
	}
}

func TestNewChangesNothing(t *testing.T) {
	r := cleanRig(t)
	before := r.clone(t)
	r.cluster()
	for i := range r.nodes {
		if fmt.Sprint(r.nodes[i]) != fmt.Sprint(before.nodes[i]) {
			t.Errorf("node %s was changed", r.nodes[i].Name)
		}
	}
	for i := range r.pods {
		if fmt.Sprint(r.pods[i]) != fmt.Sprint(before.pods[i]) {
			t.Errorf("pod %s was changed", r.pods[i].Name)
		}
	}
}

func FuzzNew(f *testing.F) {
	r := cleanRig(f)
	for _, p := range r.pods {
		a := p.Annotations
		f.Add(r.nodes[0].Annotations[annotations.NodeRegisterKey], "2026-08-21T11:00:00Z,team,slice-a", "A,B", "partition",
			a[annotations.AllocatedKey], a[annotations.ToAllocateKey], a[annotations.CUAllocatedKey], a[annotations.CUContainersKey], "allocating", "1787300000", true)
	}
	f.Add(`[{"id":"A","count":2147483647,"devmem":2147483647,"devcore":2147483647,"type":"AMD","health":true}]`, "", "", "", "A,AMD,2147483647,2147483647:;A,AMD,2147483647,2147483647:;", ";", `{"A":"0-1023"}`, "{}", "", "", false)
	f.Fuzz(func(t *testing.T, register, lock, cordon, mode, allocated, waiting, cus, containers, phase, at string, bound bool) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cu-1", Annotations: map[string]string{
			annotations.NodeRegisterKey: register, annotations.NodeLockKey: lock, annotations.DeviceCordonKey: cordon,
			annotations.OperatingModeKey: mode, annotations.ComputePartitionKey: mode,
		}}}
		pod := newPod("fuzz", initially(ask("i", 1, 10, 10)), sidecar(ask("s", 1, 10, 10)), ask("a", 2, 10, 10), ask("b", 0, 0, 0))
		pod.Annotations = map[string]string{
			annotations.AllocatedKey: allocated, annotations.ToAllocateKey: waiting, annotations.CUAllocatedKey: cus,
			annotations.CUContainersKey: containers, annotations.BindPhaseKey: phase, annotations.BindTimeKey: at,
			annotations.VGPUNodeKey: "cu-1", annotations.GPUSchedulerPolicyKey: mode,
		}
		other := r.pods[0].DeepCopy()
		other.Annotations[annotations.CUAllocatedKey] = cus
		if bound {
			pod.Spec.NodeName = "cu-1"
			running(pod)
		}
		c := New([]*corev1.Node{node}, []*corev1.Pod{pod, other}, Options{Now: noon})
		n := 0
		for p := range c.All() {
			n++
			if p.Severity == "" || p.Detail == "" || p.Remedy == "" || len(p.Detail) > 4096 {
				t.Fatalf("incomplete problem %+v", p)
			}
		}
		if e, err := c.Explain("team", "fuzz", amd.ScheduleOptions{}); err != nil || e.Reason == "" {
			t.Fatalf("explanation %+v, %v", e, err)
		}
		if most := maxProblems * (5 + len(c.Nodes[0].GPUs) + 2048); n > most {
			t.Fatalf("%d problems", n)
		}
	})
}
