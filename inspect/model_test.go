package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

func TestNewPutsTenantsOnTheirGPU(t *testing.T) {
	register, err := annotations.EncodeDevices([]annotations.Device{{
		ID: "G0", Count: 10, Devmem: 1000, Devcore: 304, Type: "AMD Instinct MI300X", Health: true,
		CustomInfo: annotations.CustomInfo{PCIBDF: "0000:05:00.0", NumXCC: 8},
	}})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{annotations.NodeRegisterKey: register}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "u1", Annotations: map[string]string{
			annotations.AllocatedKey:    "G0,AMD Instinct MI300X,500,76:;",
			annotations.ToAllocateKey:   ";",
			annotations.CUAllocatedKey:  `{"G0":"0-75"}`,
			annotations.CUContainersKey: `{"main":{"ids":["0000:05:00.0#0"],"cus":{"G0":"0-75"}}}`,
		}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
			Name:      "main",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"amd.com/gpu": resource.MustParse("1")}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	c := New([]*corev1.Node{node}, []*corev1.Pod{pod, pod}, Options{Now: noon})
	if len(c.Nodes) != 1 || len(c.Nodes[0].GPUs) != 1 || len(c.Pods) != 1 {
		t.Fatalf("have %d nodes and %d pods", len(c.Nodes), len(c.Pods))
	}
	gpu := c.Nodes[0].GPUs[0]
	want := []*Tenant{{
		Namespace: "team", Pod: "train", Container: "main", UID: "u1", Node: "n1", Device: "G0", Phase: corev1.PodRunning,
		Type: "AMD Instinct MI300X", MemoryMiB: 500, CUs: 76, Mask: cumask.Range(0, 75), Effective: 72,
	}}
	if diff := cmp.Diff(want, gpu.Tenants, cmpopts.EquateComparable(cumask.Set{}), cmpopts.IgnoreUnexported(Tenant{})); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	if gpu.Shares != 1 || gpu.GrantedCUs != 76 || gpu.GrantedMiB != 500 || gpu.Used != cumask.Range(0, 75) || gpu.Physical != "0000:05:00.0" {
		t.Errorf("gpu = %+v", gpu)
	}
}
