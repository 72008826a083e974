package inspect

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
)

func TestUnknownResources(t *testing.T) {
	one := resource.MustParse("1")
	node := nodeOf(t, "n1", gpu("G0", 0))
	node.Status.Capacity = corev1.ResourceList{"amd.com/cpx_nps4": one}
	renamed, err := amd.New(amd.Config{ResourceCountName: "example.com/gpu"})
	if err != nil {
		t.Fatal(err)
	}
	const hamis = `, which no node offers and HAMi does not know (it knows amd.com/gpu, amd.com/gpumem, amd.com/gpumem-percentage, amd.com/gpucores, amd.com/priority): Kubernetes places the pod nowhere`
	for name, tc := range map[string]struct {
		limits, requests corev1.ResourceList
		devices          *amd.Devices
		want             []string
	}{
		"HAMi's own":             {limits: corev1.ResourceList{"amd.com/gpu": one, "amd.com/gpumem": one, "amd.com/gpucores": one, "cpu": one, "amd.com/priority": one}},
		"what a node offers":     {limits: corev1.ResourceList{"amd.com/cpx_nps4": one}},
		"another vendor's":       {limits: corev1.ResourceList{"nvidia.com/gpu": one}},
		"none of it":             {limits: corev1.ResourceList{"amd.com/gpus": resource.MustParse("0")}},
		"a slip in the limits":   {limits: corev1.ResourceList{"amd.com/gpumen": one}, want: []string{`container "main" asks for "amd.com/gpumen"` + hamis}},
		"a slip in the requests": {requests: corev1.ResourceList{"amd.com/gpus": one}, want: []string{`container "main" asks for "amd.com/gpus"` + hamis}},
		"a name of the defaults": {limits: corev1.ResourceList{"amd.com/gpu": one}, devices: renamed, want: []string{
			`container "main" asks for "amd.com/gpu", which no node offers and HAMi does not know (it knows example.com/gpu, amd.com/gpumem, amd.com/gpumem-percentage, amd.com/gpucores, amd.com/priority): Kubernetes places the pod nowhere`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("me", corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Limits: tc.limits, Requests: tc.requests}})
			got := New([]*corev1.Node{nil, node}, nil, Options{Devices: tc.devices, Now: noon}).UnknownResources(pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
	many := corev1.ResourceList{}
	for i := range 1000 {
		many[corev1.ResourceName(fmt.Sprintf("amd.com/x%d", i))] = one
	}
	pod := newPod("me", corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Limits: many}})
	if got := New(nil, nil, Options{Now: noon}).UnknownResources(pod); len(got) != maxProblems {
		t.Errorf("%d lines, want no more than %d", len(got), maxProblems)
	}
}
