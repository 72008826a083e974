package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
)

// The largest requests that fit, worked out by hand.
func TestSmallerRequestsAreTheLargest(t *testing.T) {
	nodes := []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0), gpu("G1", 0))}
	held := []*corev1.Pod{holds("a", "n1", "G0", 600, 200), holds("b", "n1", "G1", 300, 296)}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"memory or CUs": {
			newPod("me", ask("main", 1, 700, 30)),
			[]string{`container "main": amd.com/gpumem: 400, the rest as it is`, `container "main": amd.com/gpucores: 2, the rest as it is`},
		},
		"a whole GPU": {
			newPod("me", ask("main", 1, 0, 0)),
			[]string{`container "main": amd.com/gpumem: 400, amd.com/gpucores: 34, the rest as it is`},
		},
		"two containers": {
			newPod("me", ask("a", 1, 1000, 100), ask("b", 1, 1000, 100)),
			[]string{"all containers: 2 % of the memory and of the CUs they ask for"},
		},
		"fewer GPUs do not help": {newPod("me", ask("main", 3, 1, 100)), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(nodes, append(held[:2:2], tc.pod), Options{Now: noon})
			e, err := c.Explain("team", "me", amd.ScheduleOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, change := range e.Smaller {
				got = append(got, change.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// What is proposed is taken by the strictest scheduler, for the pod as its
// author wrote it.
func TestSmallerMemoryStandsForThePercentage(t *testing.T) {
	strict, err := amd.New(amd.Config{StrictAdmission: true})
	if err != nil {
		t.Fatal(err)
	}
	percentage := corev1.ResourceName(strict.Config().ResourceMemoryPercentageName)
	nodes := []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}
	for name, tc := range map[string]struct {
		cores int
		want  string
	}{
		"memory alone":   {10, `container "main": amd.com/gpumem: 400 instead of amd.com/gpumem-percentage, the rest as it is`},
		"memory and CUs": {90, `container "main": amd.com/gpumem: 400 instead of amd.com/gpumem-percentage, amd.com/gpucores: 34, the rest as it is`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("me", ask("main", 1, 0, tc.cores))
			pod.Spec.Containers[0].Resources.Limits[percentage] = resource.MustParse("70")
			pods := []*corev1.Pod{holds("a", "n1", "G0", 600, 200), pod}
			e, err := New(nodes, pods, Options{Devices: strict, Now: noon}).Explain("team", "me", amd.ScheduleOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(e.Smaller) != 1 || e.Smaller[0].Text != tc.want {
				t.Fatalf("changes %+v, want %s", e.Smaller, tc.want)
			}
			for resourceName, value := range e.Smaller[0].Limits {
				pod.Spec.Containers[0].Resources.Limits[corev1.ResourceName(resourceName)] = resource.MustParse(value)
			}
			decision, err := strict.Schedule(pod, nodes, pods, amd.ScheduleOptions{Now: noon})
			if err != nil || decision.Node != "n1" {
				t.Errorf("scheduled on %q, %v, want n1", decision.Node, err)
			}
		})
	}
}
