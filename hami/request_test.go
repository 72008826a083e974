package hami_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestGenerateResourceRequests(t *testing.T) {
	percent := hamitest.Container("c", "2", "", "50")
	percent.Resources.Limits[amd.DefaultMemoryPercentageName] = resource.MustParse("25")
	requests := corev1.Container{Resources: corev1.ResourceRequirements{Requests: hamitest.Slice("c").Resources.Limits}}
	for name, test := range map[string]struct {
		container corev1.Container
		want      device.ContainerDeviceRequest
		invalid   bool
	}{
		"nothing":            {hamitest.Plain("c"), device.ContainerDeviceRequest{}, false},
		"0 GPUs":             {hamitest.Container("c", "0", "", ""), device.ContainerDeviceRequest{}, false},
		"2 whole GPUs":       {hamitest.Container("c", "2", "", ""), device.ContainerDeviceRequest{Nums: 2, Type: "AMD", Coresreq: 100}, false},
		"a slice":            {hamitest.Slice("c"), device.ContainerDeviceRequest{Nums: 1, Type: "AMD", Memreq: 16384, Coresreq: 25}, false},
		"percent of memory":  {percent, device.ContainerDeviceRequest{Nums: 2, Type: "AMD", MemPercentagereq: 25, Coresreq: 50}, false},
		"under requests":     {requests, device.ContainerDeviceRequest{Nums: 1, Type: "AMD", Memreq: 16384, Coresreq: 25}, false},
		"memory alone":       {hamitest.Container("c", "", "8192", ""), device.ContainerDeviceRequest{}, true},
		"cores alone":        {hamitest.Container("c", "", "", "25"), device.ContainerDeviceRequest{}, true},
		"0 percent of cores": {hamitest.Container("c", "1", "", "0"), device.ContainerDeviceRequest{}, true},
		"memory in Gi":       {hamitest.Container("c", "1", "16Gi", ""), device.ContainerDeviceRequest{}, true},
		"half a GPU":         {hamitest.Container("c", "500m", "", ""), device.ContainerDeviceRequest{}, true},
		"beyond int32":       {hamitest.Container("c", "4294967297", "", ""), device.ContainerDeviceRequest{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := generate(newBackend(t, hami.Config{}), &test.container)
			if got != test.want || (err != nil) != test.invalid {
				t.Errorf("%+v, %v, want %+v, invalid %v", got, err, test.want, test.invalid)
			}
		})
	}
}
