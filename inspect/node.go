package inspect

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// Modes of a node, the words of hami.io/amd-operating-mode.
const (
	modeCU        = "cu"
	modePartition = "partition"
)

// resourcePrefix starts the names of AMD's extended resources.
const resourcePrefix = "amd.com/"

// addNode reads one node. Of two of the same name the first counts.
func (c *Cluster) addNode(object *corev1.Node) {
	if _, again := c.nodes[object.Name]; again {
		return
	}
	n := &Node{Name: object.Name, object: object, gpus: map[string]*GPU{}}
	c.nodes[n.Name] = n
	if !concernsAMD(object) {
		return
	}
	c.Nodes = append(c.Nodes, n)
	if value, locked := object.Annotations[annotations.NodeLockKey]; locked {
		var lock annotations.NodeLock
		if lock, n.lockErr = annotations.ParseNodeLock(value); n.lockErr == nil {
			n.Lock = &lock
		}
	}
	devices, err := annotations.DecodeDevices(object.Annotations[annotations.NodeRegisterKey])
	n.fault = err
	cordon, _ := annotations.ParseCordon(object.Annotations[annotations.DeviceCordonKey])
	for i := range devices {
		g := newGPU(n.Name, devices[i])
		g.Cordoned = cordon.Has(g.Device.ID)
		n.GPUs = append(n.GPUs, g)
		n.gpus[g.Device.ID] = g
		n.Mode = cmp.Or(n.Mode, modeCU)
		if g.Hard {
			n.Mode = modePartition
		}
	}
}

func newGPU(node string, device annotations.Device) *GPU {
	usage := amd.UsageOf(&device)
	return &GPU{
		Device: device, Geometry: device.Geometry(), Node: node, Hard: usage.Hard(),
		Physical: cmp.Or(device.CustomInfo.PCIBDF, device.ID),
	}
}

// concernsAMD tells nodes with AMD GPUs from others. The node lock and the
// cordon are all vendors' and say nothing.
func concernsAMD(node *corev1.Node) bool {
	for _, key := range [...]string{annotations.NodeRegisterKey, annotations.OperatingModeKey, annotations.ComputePartitionKey} {
		if _, ok := node.Annotations[key]; ok {
			return true
		}
	}
	for _, list := range [...]corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name := range list {
			if strings.HasPrefix(string(name), resourcePrefix) {
				return true
			}
		}
	}
	return false
}
