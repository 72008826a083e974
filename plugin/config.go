package plugin

import (
	"time"

	"github.com/Project-HAMi/hami-amd/partition"
)

// AllocatorPolicy is how kubelet is advised to pick GPUs for a container that
// asks for several, when the scheduler has not picked them already.
type AllocatorPolicy string

// The policies. BestEffort and Binpack are two names of one.
const (
	PolicyBestEffort AllocatorPolicy = "besteffort" // the closest GPUs
	PolicyBinpack    AllocatorPolicy = "binpack"
	PolicySpread     AllocatorPolicy = "spread" // the farthest GPUs
)

// Config is everything a plugin is told. The zero value with a NodeName is the
// default of every setting.
type Config struct {
	// NodeName is the Kubernetes name of the node (NODE_NAME). Required, except
	// in standalone mode.
	NodeName string

	// SplitCount is how many pods may share one GPU (-split_count); 0 picks it
	// per GPU: 2 on gfx12, otherwise 10.
	SplitCount int
	// OperatingMode is "cu" or "partition" (OPERATING_MODE), cu if "". The
	// node's annotation outranks it; what holds is in Snapshot.Mode.
	OperatingMode string
	// ComputePartition is the compute partition mode that idle GPUs are
	// switched to at start, in partition mode (COMPUTE_PARTITION); "" leaves
	// them as they are. The node's annotation outranks it.
	ComputePartition string
	// AllocatorPolicy is besteffort if "" (-allocator_policy).
	AllocatorPolicy AllocatorPolicy
	// DisableDmem leaves VRAM to the memory hook alone (-dmem_backend=false).
	DisableDmem bool
	// ExcludeGPUs are GPUs the node keeps for itself, as PCI addresses or DRM
	// cards (-exclude_gpus).
	ExcludeGPUs []string
	// ExcludeIDs and ExcludeIndexes do the same by the ID and the index a
	// device is registered under (filterdevices of the settings file). The ID
	// of a whole GPU, and an index, exclude all its partitions.
	ExcludeIDs     []string
	ExcludeIndexes []uint
	// MemoryScaling multiplies the VRAM each GPU registers
	// (-device_memory_scaling); 0 is 1.
	MemoryScaling float64
	// ReportNodeCapacity publishes amd.com/gpumem and amd.com/gpucores as node
	// capacity (-report_node_capacity). Off, such entries are removed.
	ReportNodeCapacity bool
	// CDISpecDir is where the CDI spec is written (-cdi_spec_dir); "" hands out
	// device nodes instead of CDI names.
	CDISpecDir string
	// MuslFailClosed refuses a slice whose image cannot load the memory hook
	// (-musl_fail_closed).
	MuslFailClosed bool
	// CtrPath is the ctr command images are looked at with (-ctr_path); "" is
	// containerd's own client.
	CtrPath string
	// ContainerdSocket is containerd's socket (-containerd_socket);
	// image.DefaultSocket if "".
	ContainerdSocket string
	// Naming decides about the resource names of partitions
	// (-resource_naming_strategy), single if "".
	Naming partition.NamingStrategy
	// Verbosity is the log level (-v): 4 adds topology parsing, 5 annotation
	// decoding. The plugin does not set it anywhere, whoever makes the logger
	// does.
	Verbosity int
	// Pulse is the time between two looks at the GPUs (-pulse); 0 is never.
	Pulse time.Duration
	// HookPath is the host directory of the memory hook (HOST_HOOK_PATH), whose
	// library is vgpu/libamvgpu.so in it; hook.DefaultHostPath if "".
	HookPath string
	// HookLogLevel is the log level of the memory hook in pods
	// (LIBHIP_LOG_LEVEL), 0 to 4; 0 leaves the library's own default.
	HookLogLevel int
	// Standalone works without HAMi and without an API server (-standalone):
	// every GPU and partition is one device, handed out whole as kubelet picks
	// it, and SplitCount is 1.
	Standalone bool

	// NodeConfigFile holds settings of single nodes that outrank the ones above
	// (-node_config_file); "" is none.
	NodeConfigFile string
	// Kubeconfig is how a main reaches the API server outside of a cluster
	// (-kubeconfig); "" is the pod's service account. Deps.Client is what the
	// plugin uses.
	Kubeconfig string

	// The roots of the host, for tests and for unusual hosts. "" is where they
	// are on a node: /sys, /dev, /sys/fs/cgroup, /var/lib/kubelet and the
	// exporter's own socket.
	SysfsRoot      string
	DevRoot        string
	CgroupRoot     string
	KubeletDir     string
	ExporterSocket string
}
