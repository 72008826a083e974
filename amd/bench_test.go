package amd

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

var slice = Request{Count: 1, MemoryMiB: 16384, Cores: 25}

func BenchmarkFit(b *testing.B) {
	connected := Policy{TopologyAware: true}
	fragmented := usages(cpx("g"))
	for i := range fragmented { // one to seven partitions of each GPU in use, so that no GPU has eight
		if i%8 <= i/8 {
			fragmented[i].Used = 1
		}
	}
	for name, bench := range map[string]struct {
		usage []Usage
		req   Request
		pol   Policy
		fits  bool
	}{
		"one slice on 8 idle GPUs":            {usages(mi300x("g")), slice, Policy{}, true},
		"refused by 8 full GPUs":              {full(usages(mi300x("g"))), slice, Policy{}, false},
		"refused by 64 full partitions":       {full(usages(cpx("g"))), slice, Policy{}, false},
		"best connected 4 of 8 GPUs":          {usages(mi300x("g")), Request{Count: 4, Cores: 100}, connected, true},
		"best connected 8 of 64 partitions":   {usages(cpx("g")), Request{Count: 8, Cores: 100}, connected, true},
		"best connected 8 of 28 partitions":   {fragmented, Request{Count: 8, Cores: 100}, connected, true},
		"best connected 24 of 64 partitions":  {usages(cpx("g")), Request{Count: 24, Cores: 100}, connected, true},
		"one partition of 64, smallest first": {usages(cpx("g")), slice, Policy{}, true},
	} {
		b.Run(name, func(b *testing.B) {
			d := newDevices(b, Config{})
			at := from(bench.usage)
			b.ReportAllocs()
			for b.Loop() {
				grants, reasons := d.Fit(bench.req, bench.pol, len(bench.usage), at)
				if reasons.Refused() == bench.fits || len(grants) == 0 == bench.fits {
					b.Fatal(reasons)
				}
			}
		})
	}
}

func BenchmarkParsePolicy(b *testing.B) {
	pod := map[string]string{"a": "1", "b": "2", "c": "3", annotations.GPUSchedulerPolicyKey: "binpack"}
	b.ReportAllocs()
	for b.Loop() {
		if p := ParsePolicy(pod, "spread"); p.Mutex {
			b.Fatal(p)
		}
	}
}

func BenchmarkScore(b *testing.B) {
	d := newDevices(b, Config{})
	usage := usages(mi300x("g"))
	at := from(usage)
	grants := []annotations.Grant{{UUID: "g3", Type: "AMD Instinct MI300X", MemoryMiB: 16384, CUs: 76}}
	b.ReportAllocs()
	for b.Loop() {
		if d.Score(grants, len(usage), at) == 0 {
			b.Fatal("no score")
		}
	}
}

// One pod against 5,000 nodes of 8 GPUs each, half of them in part use.
func BenchmarkSchedule5000Nodes(b *testing.B) {
	d := newDevices(b, Config{})
	l := NewLedger(d)
	for i := range 5000 {
		name := fmt.Sprintf("node-%04d", i)
		if err := l.SetNode(newNode(b, name, mi300x(name+"-g"))); err != nil {
			b.Fatal(err)
		}
		if i%2 == 0 {
			other := gpuPod("other-"+name, "1", "16384", "25")
			if err := l.Hold(other, name, annotations.PodGrants{{{UUID: fmt.Sprintf("%s-g%d", name, i/2%8), Type: "AMD", MemoryMiB: 16384, CUs: 76}}}); err != nil {
				b.Fatal(err)
			}
		}
	}
	pod := gpuPod("new", "1", "16384", "25")
	b.ReportAllocs()
	for b.Loop() {
		decision, err := l.Schedule(pod, ScheduleOptions{})
		if err != nil || decision.Node == "" {
			b.Fatal(decision, err)
		}
	}
}

// gpuPod is a pod of one container; an empty figure is left out.
func gpuPod(name, count, mem, cores string) *corev1.Pod {
	limits := corev1.ResourceList{}
	for resourceName, value := range map[corev1.ResourceName]string{"amd.com/gpu": count, "amd.com/gpumem": mem, "amd.com/gpucores": cores} {
		if value != "" {
			limits[resourceName] = resource.MustParse(value)
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}},
		}},
	}
}
