package hamitest

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// MI300X are 8 GPUs "<prefix>0" to "<prefix>7" that are all linked to one another.
func MI300X(prefix string) []annotations.Device {
	devices := make([]annotations.Device, 8)
	for i := range devices {
		d := &devices[i]
		*d = annotations.Device{
			ID: fmt.Sprint(prefix, i), Index: uint(i), Count: 10, Devmem: 196288, Devcore: 304,
			Type: "AMD Instinct MI300X", Numa: i / 4, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(i), NumXCC: 8},
		}
		for peer := range devices {
			if peer != i {
				d.CustomInfo.XGMIPeers = append(d.CustomInfo.XGMIPeers, bdf(peer))
			}
		}
	}
	return devices
}

// MI300XCPX are the 64 partitions of 8 such GPUs, "<prefix>0-p0" to "<prefix>7-p7".
func MI300XCPX(prefix string) []annotations.Device {
	var devices []annotations.Device
	for _, gpu := range MI300X(prefix) {
		for part := range 8 {
			d := gpu
			d.ID, d.Index = fmt.Sprintf("%s-p%d", gpu.ID, part), uint(len(devices))
			d.Count, d.Devmem, d.Devcore, d.Mode, d.CustomInfo.NumXCC = 1, 24536, 38, "cpx", 1
			devices = append(devices, d)
		}
	}
	return devices
}

func bdf(gpu int) string { return fmt.Sprintf("0000:%d5:00.0", gpu) }

// Node is a node that has registered the devices.
func Node(tb testing.TB, name string, devices []annotations.Device) *corev1.Node {
	tb.Helper()
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		tb.Fatal(err)
	}
	count := corev1.ResourceList{amd.DefaultCountName: *resource.NewQuantity(int64(len(devices)), resource.DecimalSI)}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: "1", Annotations: map[string]string{annotations.NodeRegisterKey: value},
		},
		Status: corev1.NodeStatus{Capacity: count, Allocatable: count},
	}
}

// Candidates are a node's devices as HAMi hands them to Fit.
func Candidates(tb testing.TB, d device.Devices, devices []annotations.Device) []*device.DeviceUsage {
	tb.Helper()
	infos, err := d.GetNodeDevices(*Node(tb, "node", devices))
	if err != nil {
		tb.Fatal(err)
	}
	usage := make([]*device.DeviceUsage, len(infos))
	for i, info := range infos {
		usage[i] = &device.DeviceUsage{
			ID: info.ID, Index: info.Index, Count: info.Count, Totalmem: info.Devmem, Totalcore: info.Devcore,
			Mode: info.Mode, Numa: info.Numa, Type: info.Type, Health: info.Health, CustomInfo: info.CustomInfo,
		}
	}
	return usage
}
