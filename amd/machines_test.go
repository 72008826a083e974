package amd

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// The machines the tests schedule on, as their nodes register them.

// mi300x is eight MI300X in SPX mode, all linked to one another, four on each
// NUMA node. Ids are prefix and number.
func mi300x(prefix string) []annotations.Device {
	devices := make([]annotations.Device, 8)
	for i := range devices {
		devices[i] = annotations.Device{
			ID: fmt.Sprintf("%s%d", prefix, i), Index: uint(i), Count: 10, Devmem: 196288, Devcore: 304,
			Type: "AMD Instinct MI300X", Numa: i / 4, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(i), NumXCC: 8, XGMIPeers: others(8, i)},
		}
	}
	return devices
}

// cpx is the same machine in CPX mode: 64 hard partitions.
func cpx(prefix string) []annotations.Device {
	devices := make([]annotations.Device, 64)
	for i := range devices {
		gpu := i / 8
		devices[i] = annotations.Device{
			ID: fmt.Sprintf("%s%d-p%d", prefix, gpu, i%8), Index: uint(i), Count: 1, Devmem: 24536, Devcore: 38,
			Type: "AMD Instinct MI300X", Mode: "cpx", Numa: gpu / 4, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(gpu), NumXCC: 1, XGMIPeers: others(8, gpu)},
		}
	}
	return devices
}

// machines by the names the scenarios use.
var machines = map[string]func() []annotations.Device{
	"8 x MI300X":                   func() []annotations.Device { return mi300x("g") },
	"8 x MI300X CPX":               func() []annotations.Device { return cpx("g") },
	"2 hives of 4 x MI210":         mi210,
	"4 x RX 7900 XTX":              rx7900,
	"4 x MI355X, half in QPX":      mi355xMixed,
	"4 x MI355X, first two in QPX": mi355xSPXLast,
	"MI355X in QPX and a VF":       qpxAndVF,
	"RX 9060 XT":                   rx9060,
	"MI308X CPX partition":         func() []annotations.Device { return []annotations.Device{mi308x()} },
	"none":                         func() []annotations.Device { return nil },
}

// mi210 is eight MI210 in two XGMI hives of four, one on each NUMA node, as in
// the captured machine of that kind.
func mi210() []annotations.Device {
	devices := make([]annotations.Device, 8)
	for i := range devices {
		var peers []string
		for j := range devices {
			if j != i && j/4 == i/4 {
				peers = append(peers, bdf(j))
			}
		}
		devices[i] = annotations.Device{
			ID: fmt.Sprintf("m%d", i), Index: uint(i), Count: 10, Devmem: 65520, Devcore: 104,
			Type: "AMD Instinct MI210", Numa: i / 4, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(i), XGMIPeers: peers},
		}
	}
	return devices
}

// rx7900 is four RDNA cards on PCIe, whose CUs come in pairs.
func rx7900() []annotations.Device {
	devices := make([]annotations.Device, 4)
	for i := range devices {
		devices[i] = annotations.Device{
			ID: fmt.Sprintf("x%d", i), Index: uint(i), Count: 10, Devmem: 24560, Devcore: 96,
			Type: "AMD Radeon RX 7900 XTX", Numa: i % 2, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(i), CUsPerWGP: 2},
		}
	}
	return devices
}

// mi355xMixed is four MI355X in partition mode: s0 and s1 in SPX, q2 and q3 in
// QPX with four partitions each.
func mi355xMixed() []annotations.Device {
	var devices []annotations.Device
	for gpu := range 4 {
		whole := annotations.Device{
			ID: fmt.Sprintf("s%d", gpu), Index: uint(len(devices)), Count: 1, Devmem: 294896, Devcore: 256,
			Type: "AMD Instinct MI355X", Mode: "spx", Numa: gpu / 2, Health: true,
			CustomInfo: annotations.CustomInfo{PCIBDF: bdf(gpu), NumXCC: 8, XGMIPeers: others(4, gpu)},
		}
		if gpu < 2 {
			devices = append(devices, whole)
			continue
		}
		for k := range 4 {
			part := whole
			part.ID, part.Index = fmt.Sprintf("q%d-p%d", gpu, k), uint(len(devices))
			part.Devmem, part.Devcore, part.Mode, part.CustomInfo.NumXCC = 73728, 64, "qpx", 2
			devices = append(devices, part)
		}
	}
	return devices
}

// mi355xSPXLast is the same the other way round: the larger are tried first.
func mi355xSPXLast() []annotations.Device {
	devices := mi355xMixed()
	devices = append(devices[2:len(devices):len(devices)], devices[:2]...)
	for i := range devices {
		devices[i].Index, devices[i].Numa = uint(i), 1-devices[i].Numa
	}
	return devices
}

// qpxAndVF is a GPU in QPX beside a virtual function, which cannot be
// partitioned and stays soft.
func qpxAndVF() []annotations.Device {
	devices := mi355xMixed()[2:6]
	vf := mi300x("vf")[0]
	vf.ID, vf.Index = "vf", 9
	return append(devices, vf)
}

func rx9060() []annotations.Device {
	return []annotations.Device{{
		ID: "x0", Count: 2, Devmem: 16304, Devcore: 32, Type: "AMD Radeon RX 9060 XT", Numa: -1, Health: true,
		CustomInfo: annotations.CustomInfo{PCIBDF: bdf(0), CUsPerWGP: 2},
	}}
}

func mi308x() annotations.Device {
	return annotations.Device{
		ID: "p0", Count: 10, Devmem: 24536, Devcore: 20, Type: "AMD Instinct MI308X", Health: true,
		CustomInfo: annotations.CustomInfo{PCIBDF: bdf(0), NumXCC: 1},
	}
}

func bdf(gpu int) string { return fmt.Sprintf("0000:%02x:00.0", 5+16*gpu) }

// others are the addresses of all of n GPUs but one.
func others(n, but int) []string {
	var peers []string
	for i := range n {
		if i != but {
			peers = append(peers, bdf(i))
		}
	}
	return peers
}

func usages(devices []annotations.Device) []Usage {
	u := make([]Usage, len(devices))
	for i := range devices {
		u[i] = UsageOf(&devices[i])
	}
	return u
}

// full marks every device as used up by one container.
func full(u []Usage) []Usage {
	for i := range u {
		u[i].Used, u[i].UsedMiB, u[i].UsedCUs = 1, u[i].MemoryMiB, u[i].CUs
	}
	return u
}

func from(u []Usage) func(int, *Usage) { return func(i int, to *Usage) { *to = u[i] } }

func newDevices(tb testing.TB, config Config) *Devices {
	tb.Helper()
	d, err := New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func newNode(tb testing.TB, name string, devices []annotations.Device) *corev1.Node {
	tb.Helper()
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{annotations.NodeRegisterKey: value},
	}}
}
