package monitor

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// busyNode has 64 partitions, registered, and 200 pods of one container each
// with a slice and a mask of one of them. Their memory is counted by the kernel
// or by the hook.
func busyNode(b *testing.B, kernel bool) *rig {
	r := newRig(b, "mi300x-cpx-8", partition.ModePartition)
	if len(r.devices) != 64 {
		b.Fatalf("%d partitions", len(r.devices))
	}
	for i := range 200 {
		k := i % len(r.devices)
		pod := r.pod(fmt.Sprintf("p%03d", i), []annotations.Grant{r.grant(k, 8192, 10)})
		set := cumask.Range(0, 9)
		value, err := annotations.EncodeContainerCUs(map[string]annotations.ContainerCUs{
			"c0": {IDs: []string{fmt.Sprintf("id#%d", i)}, CUs: map[string]cumask.Set{r.devices[k].ID: set}},
		})
		r.must(err)
		pod.Annotations[annotations.CUContainersKey] = value
		pod.Annotations[annotations.CUAllocatedKey], err = annotations.EncodeCUs(map[string]cumask.Set{r.devices[k].ID: set})
		r.must(err)
		if kernel {
			r.start(pod)
			r.limit(podCgroupOf(pod), r.region(k), 8192*mib)
			r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(k), int64(i+1)*mib))
		} else {
			r.loadHook(pod, "c0", regionFile{limits: []uint64{8192 * mib}, slots: [][]uint64{{uint64(i) * mib}, {mib}, nil, {mib}}})
		}
	}
	if !kernel {
		for _, g := range r.devices {
			r.kernel.RemoveRegion(regionOf(string(g.GPU.BDF)))
		}
	}
	return r
}

// residentMiB is the memory of this process, 0 where the system does not say.
func residentMiB() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib / 1024
		}
	}
	return 0
}

// BenchmarkScrape is a whole request for /metrics of a full node.
func BenchmarkScrape(b *testing.B) {
	for name, kernel := range map[string]bool{"dmem": true, "hook": false} {
		b.Run(name, func(b *testing.B) {
			r := busyNode(b, kernel)
			// Five metrics for 8 GPUs, seven for 64 partitions, five for 200
			// containers, and success.
			const series = 5*8 + 7*64 + 5*200 + 1
			if got := countLines(r.text()); got != series || r.problemText() != "" {
				b.Fatalf("%d series, want %d; problems: %s", got, series, r.problemText())
			}
			h := metricsHandler(r.Collector)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				if w.Code != 200 {
					b.Fatalf("status %d", w.Code)
				}
			}
			b.ReportMetric(residentMiB(), "MiB-resident")
		})
	}
}
