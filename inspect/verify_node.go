package inspect

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// annotationsLimit is what all annotations of an object together may have
// (apimachinery's TotalAnnotationSizeLimitB).
const annotationsLimit = 256 << 10

func (c *Cluster) verifyNode(n *Node) {
	if n.fault != nil {
		n.report(RegisterUnreadable, "%v", n.fault)
	}
	size := 0
	for key, value := range n.object.Annotations {
		size += len(key) + len(value)
	}
	if size > annotationsLimit/4*3 {
		n.report(AnnotationsLarge, "its annotations have %d bytes, want well below %d", size, annotationsLimit)
	}
	if n.fault == nil {
		c.verifyCapacity(n)
		n.verifyModes()
	}
	n.verifyCordon()
}

// verifyCapacity compares the shares that kubelet counts with those that are
// registered.
func (c *Cluster) verifyCapacity(n *Node) {
	status := &n.object.Status
	if len(status.Capacity) == 0 && len(status.Allocatable) == 0 {
		return // written by hand
	}
	name := corev1.ResourceName(c.read.Devices.Config().ResourceCountName)
	quantity := status.Capacity[name]
	// A float holds every number of shares exactly and is quick for 1e999999999,
	// which Quantity would write out.
	capacity := quantity.AsApproximateFloat64()
	var shares int64
	healthy := false
	for _, g := range n.GPUs {
		shares += int64(max(g.Device.Count, 0))
		healthy = healthy || g.Device.Health
	}
	resources := status.Allocatable
	if len(resources) == 0 {
		resources = status.Capacity
	}
	switch {
	case len(n.GPUs) == 0 && capacity > 0:
		n.report(NotRegistered, "kubelet offers %.0f %s, and annotation %s registers no device", capacity, name, annotations.NodeRegisterKey)
	case len(n.GPUs) == 0:
	case healthy && !c.read.Devices.Healthy(resources):
		n.report(NotOffered, "%s registered, and kubelet offers no %s", plural(len(n.GPUs), "device"), name)
	case capacity > 0 && capacity != float64(shares):
		n.report(CapacityDiffers, "kubelet counts %.0f %s, the registered devices have %d shares", capacity, name, shares)
	}
}

// verifyModes compares the settings of the node with how its GPUs are
// registered.
func (n *Node) verifyModes() {
	value, given := n.object.Annotations[annotations.OperatingModeKey]
	if given && value != "" {
		switch mode, err := partition.ParseOperatingMode(value); {
		case err != nil:
			n.report(OperatingModeInvalid, "annotation %s: %v", annotations.OperatingModeKey, err)
		case mode == partition.ModeCU && n.Mode == modePartition:
			n.report(OperatingModeDiffers, "annotation %s wants %q, and compute partitions are registered", annotations.OperatingModeKey, mode)
		case mode == partition.ModePartition && n.Mode == modeCU && slices.ContainsFunc(n.GPUs, (*GPU).divisible):
			n.report(OperatingModeDiffers, "annotation %s wants %q, and GPUs that can be partitioned are registered as shared ones", annotations.OperatingModeKey, mode)
		}
	}
	if value = n.object.Annotations[annotations.ComputePartitionKey]; value == "" {
		return
	}
	want, err := partition.ParseComputePartition(value)
	switch {
	case err != nil:
		n.report(ComputePartitionBad, "annotation %s: %v", annotations.ComputePartitionKey, err)
	case n.Mode == modeCU:
		n.report(ComputePartitionUnused, "annotation %s wants %q, which has no effect in operating mode %q", annotations.ComputePartitionKey, want, modeCU)
	default:
		for _, g := range n.GPUs {
			if g.Hard && g.Device.Mode != string(want) && g.canBe(string(want)) {
				n.report(ComputePartitionUnused, "annotation %s wants %q, and device %s is registered as %q", annotations.ComputePartitionKey, want, short(g.Device.ID), g.Device.Mode)
				return // one for all of them
			}
		}
	}
}

// divisible reports whether the node says that the GPU has more than one
// partition type. An SR-IOV virtual function has those of its parent and cannot
// change between them; its product name ends in "VF".
func (g *GPU) divisible() bool {
	if strings.HasSuffix(g.Device.Type, " VF") {
		return false
	}
	types := map[string]bool{}
	for _, p := range g.Device.CustomInfo.PartitionProfiles {
		types[strings.ToLower(p.Type)] = true
	}
	return len(types) > 1
}

// canBe reports whether the GPU can be in a partition type, as far as is known.
func (g *GPU) canBe(mode string) bool {
	profiles := g.Device.CustomInfo.PartitionProfiles
	return len(profiles) == 0 || slices.ContainsFunc(profiles, func(p annotations.PartitionProfile) bool {
		return strings.EqualFold(p.Type, mode)
	})
}

// verifyCordon looks for ids that nobody has. The annotation is all vendors':
// an id in another vendor's register annotation is that vendor's.
func (n *Node) verifyCordon() {
	value, given := n.object.Annotations[annotations.DeviceCordonKey]
	if !given {
		return
	}
	cordon, err := annotations.ParseCordon(value)
	if err != nil {
		n.report(CordonUnreadable, "annotation %v", err)
		return
	}
	if n.fault != nil {
		return
	}
	ids := make([]string, 0, len(cordon))
	for id := range cordon {
		if n.GPU(id) == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if !n.otherVendor(id) {
			n.report(CordonUnknownDevice, "annotation %s names device %s, which the node does not register", annotations.DeviceCordonKey, short(id))
		}
		if len(n.Problems) == maxProblems {
			return
		}
	}
}

// otherVendor reports whether an id is in "hami.io/node-nvidia-register" or the
// like.
func (n *Node) otherVendor(id string) bool {
	for key, value := range n.object.Annotations {
		if key != annotations.NodeRegisterKey && strings.HasPrefix(key, "hami.io/node-") && strings.Contains(value, id) {
			return true
		}
	}
	return false
}
