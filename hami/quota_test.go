package hami_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// limitMemory sets a ResourceQuota of VRAM in the pods' namespace, of which used
// MiB are taken.
func limitMemory(t *testing.T, d device.Devices, limit string, used int32) {
	t.Helper()
	quotas := device.NewQuotaManager()
	quotas.Quotas = map[string]*device.DeviceQuota{}
	device.DevicesMap = map[string]device.Devices{hami.CommonWord: d}
	t.Cleanup(func() { quotas.Quotas, device.DevicesMap = map[string]*device.DeviceQuota{}, nil })
	quotas.AddQuota(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"limits.amd.com/gpumem": resource.MustParse(limit)}},
	})
	quotas.AddUsage(hamitest.Pod("other", nil), device.PodDevices{hami.CommonWord: {{{UUID: "GPU-0", Usedmem: used, Usedcores: 304}}}})
}

func TestFitKeepsTheQuota(t *testing.T) {
	const gib = 1024
	whole := hamitest.Container("c", "1", "", "")
	for name, test := range map[string]struct {
		limit     string // MiB
		used      int32
		pod       *corev1.Pod
		container int   // of all, init containers first
		placed    []int // MiB of the containers placed in the same round
		refused   bool
	}{
		"room for it":               {limit: "20480", used: 4 * gib, pod: hamitest.Pod("p", nil, hamitest.Slice("c"))},
		"no room":                   {limit: "20479", used: 4 * gib, pod: hamitest.Pod("p", nil, hamitest.Slice("c")), refused: true},
		"a quota of 0":              {limit: "0", pod: hamitest.Pod("p", nil, hamitest.Slice("c")), refused: true},
		"two GPUs count twice":      {limit: "32767", pod: hamitest.Pod("p", nil, hamitest.Container("c", "2", "16384", "25")), refused: true},
		"two GPUs fit":              {limit: "32768", pod: hamitest.Pod("p", nil, hamitest.Container("c", "2", "16384", "25"))},
		"a whole GPU counts":        {limit: "196287", pod: hamitest.Pod("p", nil, whole), refused: true},
		"a whole GPU fits":          {limit: "196288", pod: hamitest.Pod("p", nil, whole)},
		"with an earlier one":       {limit: "32767", pod: hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Slice("b")), container: 1, placed: []int{16384}, refused: true},
		"with an earlier one, fits": {limit: "32768", pod: hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Slice("b")), container: 1, placed: []int{16384}},
		"init containers run one after the other": {
			limit: "16384", pod: hamitest.Pod("p", []corev1.Container{hamitest.Slice("i"), hamitest.Slice("j")}, hamitest.Slice("a")), container: 1, placed: []int{16384},
		},
		"app containers after init ones": {
			limit: "16384", pod: hamitest.Pod("p", []corev1.Container{hamitest.Slice("i")}, hamitest.Container("a", "1", "8192", ""), hamitest.Container("b", "1", "8193", "")),
			container: 2, placed: []int{8192}, refused: true,
		},
		"either round possible, both need as much": {
			limit: "16384", pod: hamitest.Pod("p", []corev1.Container{hamitest.Slice("i"), hamitest.Slice("j")}, hamitest.Slice("a"), hamitest.Slice("b")), container: 1, placed: []int{16384}, refused: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBackend(t, hami.Config{})
			limitMemory(t, d, test.limit, test.used)
			containers := append(append([]corev1.Container{}, test.pod.Spec.InitContainers...), test.pod.Spec.Containers...)
			allocated := device.PodDevices{"AMD Instinct MI300X": {{}}} // HAMi's padding
			for _, mem := range test.placed {
				allocated[hami.CommonWord] = append(allocated[hami.CommonWord], device.ContainerDevices{{UUID: "GPU-0", Usedmem: int32(mem)}})
			}
			fits, _, reason := d.Fit(hamitest.Candidates(t, d, hamitest.MI300X("GPU-")[:2]), request(t, d, containers[test.container]), test.pod, nil, &allocated)
			if fits == test.refused || test.refused && reason != "2/2 ResourceQuotaNotFit" {
				t.Errorf("fits %v, %q, want refused %v", fits, reason, test.refused)
			}
		})
	}
}

// CUs in use are no percentage, so they limit nothing unless that is wanted.
func TestFitLeavesCoresToQuotaCores(t *testing.T) {
	d := newBackend(t, hami.Config{})
	limitMemory(t, d, "1000000", 0)
	device.GetLocalCache().AddQuota(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"limits.amd.com/gpucores": resource.MustParse("100")}},
	})
	pod := hamitest.Pod("p", nil, hamitest.Slice("c"))
	if fits, _, reason := d.Fit(hamitest.Candidates(t, d, hamitest.MI300X("GPU-")), request(t, d, hamitest.Slice("c")), pod, nil, nil); !fits {
		t.Errorf("%s, with 304 CUs in use and a quota of 100 percent", reason)
	}
}
