package annotations

// Keys on a node.
const (
	// NodeRegisterKey holds the GPUs of a node: written by the device plugin,
	// read by the scheduler. See DecodeDevices.
	NodeRegisterKey = "hami.io/node-amd-register"
	// NodeLockKey is HAMi's node lock, one for all vendors: taken by the
	// scheduler when it binds a pod, released by the plugin. See NodeLock.
	NodeLockKey = "hami.io/mutex.lock"
	// DeviceCordonKey lists devices that get no new pods. See ParseCordon.
	DeviceCordonKey = "hami.io/device-cordon"
	// OperatingModeKey chooses between sharing by CUs ("cu") and hard
	// partitions ("partition") on this node. Read once at plugin start.
	OperatingModeKey = "hami.io/amd-operating-mode"
	// ComputePartitionKey names the compute partition type ("spx", "dpx",
	// "qpx", "cpx") the plugin should set on this node's GPUs.
	ComputePartitionKey = "hami.io/amd-compute-partition"
)

// Keys on a pod that carry devices. All are pod-device strings or JSON maps,
// see DecodePod, DecodeCUs and DecodeContainerCUs.
const (
	// ToAllocateKey holds the grants the plugin has still to serve: the
	// scheduler writes them, the plugin empties them one container at a time.
	ToAllocateKey = "hami.io/amd-devices-to-allocate"
	// AllocatedKey holds the same grants and never changes after scheduling.
	AllocatedKey = "hami.io/amd-devices-allocated"
	// CUAllocatedKey holds the union of the pod's CUs on each device.
	CUAllocatedKey = "hami.io/amd-cu-allocated"
	// CUContainersKey holds each container's own CUs and kubelet device IDs.
	CUContainersKey = "hami.io/amd-cu-containers"
)

// Keys on a pod that follow it from the scheduler to the plugin.
const (
	// VGPUNodeKey names the node the scheduler chose, as annotation and label.
	VGPUNodeKey = "hami.io/vgpu-node"
	// VGPUTimeKey is when the scheduler chose, in Unix seconds.
	VGPUTimeKey = "hami.io/vgpu-time"
	// BindTimeKey is when the scheduler bound the pod, in Unix seconds.
	BindTimeKey = "hami.io/bind-time"
	// BindPhaseKey is how far binding got. See BindPhase.
	BindPhaseKey = "hami.io/bind-phase"
)

// Keys on a pod that its author sets to steer scheduling.
const (
	// GPUSchedulerPolicyKey chooses among the GPUs of a node. See Policies.
	GPUSchedulerPolicyKey = "hami.io/gpu-scheduler-policy"
	// NodeSchedulerPolicyKey chooses among nodes: PolicyBinpack or PolicySpread.
	NodeSchedulerPolicyKey = "hami.io/node-scheduler-policy"
	// ScoringWeightsKey weighs slots, cores and memory. See ParseWeights.
	ScoringWeightsKey = "hami.io/device-scoring-weights"
	// UseTypeKey lists words: a GPU's type must contain one of them, in upper or
	// lower case ("MI300X,MI355X").
	UseTypeKey = "amd.com/use-gputype"
	// NoUseTypeKey lists words: a GPU's type must contain none of them.
	NoUseTypeKey = "amd.com/nouse-gputype"
	// UseUUIDKey lists the only device ids (Device.ID) a pod may get.
	UseUUIDKey = "amd.com/use-gpu-uuid"
	// NoUseUUIDKey lists device ids a pod must not get.
	NoUseUUIDKey = "amd.com/nouse-gpu-uuid"
	// NUMABindKey ("true") keeps a container's GPUs on one NUMA node.
	NUMABindKey = "amd.com/numa-bind"
)
