package partition

import "github.com/Project-HAMi/hami-amd/annotations"

// Registered is one device as the node offers it: the entry of the register
// annotation and what the plugin needs to hand the device out. Its slices are
// shared with the inventory and with other devices of the GPU; do not modify
// them.
type Registered struct {
	// Device is the entry of hami.io/node-amd-register.
	annotations.Device
	// GPU is the physical GPU the device is, or is a part of.
	GPU *GPU
	// Partition is the index of the compute partition the device is, or -1
	// when the device is a whole GPU.
	Partition int
	// Nodes are the KFD nodes behind the device: one for a partition and for
	// an unpartitioned GPU, all of them for a partitioned GPU that registers
	// as one device.
	Nodes []Node
	// Hard devices are granted whole and to one container at a time.
	Hard bool
	// KubeletIDs are the device IDs kubelet sees: Count shares
	// "<bdf>#<slot>", or one ID for a hard device.
	KubeletIDs []string
	// Resource is the extended resource the device belongs to, amd.com/gpu
	// unless the naming strategy is mixed.
	Resource string
	// Unhealthy says why Device.Health is false, with the remedy where there
	// is one; "" when healthy.
	Unhealthy string
}
