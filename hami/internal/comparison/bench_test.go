package comparison_test

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"
	stock "github.com/Project-HAMi/HAMi/pkg/device/amd"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// HAMi's own backend logs; writing that is not measured.
func TestMain(m *testing.M) {
	if err := hamitest.Silence(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func backends(b *testing.B) map[string]device.Devices {
	b.Helper()
	d, err := hami.New(hami.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return map[string]device.Devices{
		"hami-amd": d,
		"stock": stock.InitAMDGPUDevice(stock.AMDConfig{
			ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem", ResourceCoreName: "amd.com/gpucores",
		}),
	}
}

var (
	oneSlice   = device.ContainerDeviceRequest{Nums: 1, Type: hami.CommonWord, Memreq: 16384, Coresreq: 25}
	eightWhole = device.ContainerDeviceRequest{Nums: 8, Type: hami.CommonWord, Coresreq: 100}
)

func BenchmarkFit(b *testing.B) {
	for name, bench := range map[string]struct {
		devices []annotations.Device
		full    bool
	}{
		"one slice on 8 idle GPUs":      {hamitest.MI300X("GPU-"), false},
		"refused by 8 full GPUs":        {hamitest.MI300X("GPU-"), true},
		"refused by 64 full partitions": {hamitest.MI300XCPX("GPU-"), true},
	} {
		for backend, d := range backends(b) {
			b.Run(name+"/"+backend, func(b *testing.B) {
				usage := hamitest.Candidates(b, backends(b)["hami-amd"], bench.devices)
				for _, u := range usage {
					if bench.full {
						u.Used, u.Usedmem, u.Usedcores = 1, u.Totalmem, u.Totalcore
					}
				}
				pod := hamitest.Pod("p", nil, hamitest.Slice("main"))
				info, allocated := &device.NodeInfo{Node: &corev1.Node{}}, &device.PodDevices{}
				b.ReportAllocs()
				for b.Loop() {
					if fits, _, reason := d.Fit(usage, oneSlice, pod, info, allocated); fits == bench.full {
						b.Fatal(reason)
					}
				}
			})
		}
	}
}

// 8 of 64 partitions that are best connected; HAMi's own backend takes the first 8.
func BenchmarkFitTopologyAware(b *testing.B) {
	for backend, d := range backends(b) {
		b.Run(backend, func(b *testing.B) {
			usage := hamitest.Candidates(b, backends(b)["hami-amd"], hamitest.MI300XCPX("GPU-"))
			pod := hamitest.Annotated(hamitest.Pod("p", nil, hamitest.Container("main", "8", "", "")), annotations.GPUSchedulerPolicyKey, annotations.PolicyTopology)
			info, allocated := &device.NodeInfo{Node: &corev1.Node{}}, &device.PodDevices{}
			b.ReportAllocs()
			for b.Loop() {
				if fits, _, reason := d.Fit(usage, eightWhole, pod, info, allocated); !fits {
					b.Fatal(reason)
				}
			}
		})
	}
}

// What HAMi does for each node each 15 s.
func BenchmarkGetNodeDevices(b *testing.B) {
	node := hamitest.Node(b, "node", hamitest.MI300X("GPU-"))
	for backend, d := range backends(b) {
		b.Run(backend, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if devices, err := d.GetNodeDevices(*node); err != nil || len(devices) != 8 {
					b.Fatal(err)
				}
			}
		})
	}
}
