package inspect

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// large is a cluster of 125 nodes with 8 GPUs, and 40 pods on each.
func large(b testing.TB) *rig {
	b.Helper()
	one := newRig(b)
	one.addNode("n-000", "mi300x-spx-8", partition.ModeCU)
	for i := range 40 {
		one.run(newPod(fmt.Sprintf("pod-%02d", i), ask("main", 1, 16384, 20)))
	}
	r := newRig(b)
	rename := func(a map[string]string, name string) map[string]string {
		m := map[string]string{}
		for key, value := range a {
			m[key] = strings.ReplaceAll(value, "n-000", name)
		}
		return m
	}
	for i := range 125 {
		name := fmt.Sprintf("n-%03d", i)
		node := one.nodes[0].DeepCopy()
		node.Name, node.Annotations = name, rename(node.Annotations, name)
		r.nodes = append(r.nodes, node)
		for _, p := range one.pods {
			pod := p.DeepCopy()
			pod.Namespace = name
			pod.UID = types.UID(name + p.Name)
			pod.Spec.NodeName = name
			pod.Annotations = rename(p.Annotations, name)
			pod.Labels = map[string]string{annotations.VGPUNodeKey: name}
			r.pods = append(r.pods, pod)
		}
	}
	return r
}

func TestALargeClusterIsClean(t *testing.T) {
	r := large(t)
	c := r.cluster()
	quiet(t, c)
	gpus := 0
	for _, n := range c.Nodes {
		gpus += len(n.GPUs)
	}
	if gpus != 1000 || len(c.Pods) != 5000 {
		t.Errorf("%d GPUs and %d pods", gpus, len(c.Pods))
	}
}

func BenchmarkNew1000GPUs5000Pods(b *testing.B) {
	r := large(b)
	b.ReportAllocs()
	for b.Loop() {
		r.cluster()
	}
}

// A pod that fits nowhere, with the search for what would fit.
func BenchmarkExplain1000GPUs5000Pods(b *testing.B) {
	r := large(b)
	r.pods = append(r.pods, newPod("me", ask("main", 8, 190000, 100)))
	c := r.cluster()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Explain("team", "me", amd.ScheduleOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
