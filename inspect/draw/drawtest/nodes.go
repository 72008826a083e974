package drawtest

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// gpusPerNode is how many physical GPUs every node has.
const gpusPerNode = 8

// A machine is a kind of node.
type machine struct {
	name, product, device string // device is the PCI device id, a part of the UUID
	cus, xccs, mib        int32
	parts                 int32 // partitions of each GPU; 1 is an unpartitioned one
	mode                  string
	profile               string
	buses                 [gpusPerNode]string
}

var machines = [...]machine{
	{"mi300x", "AMD Instinct MI300X", "74a1", 304, 8, 196592, 1, "", "spx_nps1", mi300xBuses},
	{"mi355x", "AMD Instinct MI355X", "75a3", 256, 8, 294896, 1, "", "spx_nps1", mi355xBuses},
	{"mi300x-cpx", "AMD Instinct MI300X", "74a1", 304, 8, 196608, 8, "cpx", "cpx_nps1", mi300xBuses},
	{"mi355x-qpx", "AMD Instinct MI355X", "75a3", 256, 8, 294912, 4, "qpx", "qpx_nps1", mi355xBuses},
}

var (
	mi300xBuses = [gpusPerNode]string{"05", "27", "47", "65", "85", "a7", "c7", "e5"}
	mi355xBuses = [gpusPerNode]string{"05", "15", "65", "75", "85", "95", "e5", "f5"}
)

// mix is the order in which nodes are of a kind.
var mix = [...]int{0, 0, 1, 2, 0, 3, 1, 0}

// devices are what the n-th node of a cluster registers.
func (m machine) devices(n int) []annotations.Device {
	var all []annotations.Device
	for i, bus := range m.buses {
		id := fmt.Sprintf("%02xff%s-0000-1000-80%02x-%012x", 0x10+i*0x1d, m.device, i*7+1, uint64(n+1)*0x9e3779b9+uint64(i)*0x1234567)
		for p := range m.parts {
			d := annotations.Device{
				ID: id, Index: uint(i) + uint(p)*gpusPerNode, Count: 10, Devmem: m.mib, Devcore: m.cus,
				Type: m.product, Numa: i / (gpusPerNode / 2), Mode: m.mode, Health: true,
				CustomInfo: annotations.CustomInfo{
					PCIBDF: bdf(bus), CUsPerWGP: 1, NumXCC: int(m.xccs), ComputeQueues: 24, PartitionProfile: m.profile,
				},
			}
			for _, peer := range m.buses {
				if peer != bus {
					d.CustomInfo.XGMIPeers = append(d.CustomInfo.XGMIPeers, bdf(peer))
				}
			}
			if m.parts > 1 {
				d.ID = fmt.Sprintf("%s-p%d", id, p)
				d.Count, d.Devmem, d.Devcore = 1, m.mib/m.parts, m.cus/m.parts
				d.CustomInfo.NumXCC = int(m.xccs / m.parts)
			}
			all = append(all, d)
		}
	}
	return all
}

func bdf(bus string) string { return "0000:" + bus + ":00.0" }

// node is the n-th node of a cluster.
func node(n int) (*corev1.Node, []annotations.Device, error) {
	m := machines[mix[n%len(mix)]]
	devices := m.devices(n)
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		return nil, nil, err
	}
	shares := int64(0)
	for _, d := range devices {
		shares += int64(d.Count)
	}
	offers := corev1.ResourceList{amd.DefaultCountName: *resource.NewQuantity(shares, resource.DecimalSI)}
	mode := "cu"
	if m.parts > 1 {
		mode = "partition"
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%02d", m.name, n+1),
			Annotations: map[string]string{annotations.NodeRegisterKey: value, annotations.OperatingModeKey: mode},
		},
		Status: corev1.NodeStatus{Capacity: offers, Allocatable: offers.DeepCopy()},
	}, slices.Clone(devices), nil
}
