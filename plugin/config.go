package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/hook"
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

// The last levels that mean anything, and the longest pulse: more than a day is
// a mistake in the unit.
const (
	maxVerbosity    = 10
	maxHookLogLevel = 4
	maxPulse        = 24 * time.Hour
)

// Config is everything a plugin is told. The zero value with a NodeName is the
// default of every setting but Verbosity.
type Config struct {
	// NodeName is the Kubernetes name of the node (NODE_NAME). Required, except
	// in standalone mode.
	NodeName string

	// SplitCount is how many pods may share one GPU (-split_count); 0 picks it
	// per GPU: 2 on gfx12, otherwise 10.
	SplitCount int
	// OperatingMode is "cu" or "partition" (OPERATING_MODE), cu if "". The
	// node's annotation outranks it.
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

// Validate reports the first setting that cannot be, whatever the hardware. It
// reads nothing.
func (c Config) Validate() error {
	if c.NodeName == "" && !c.Standalone {
		return errors.New("NodeName is not set: want the Kubernetes name of this node")
	}
	if _, _, _, err := partition.ResolveOperatingMode(c.OperatingMode, ""); err != nil {
		return err
	}
	if _, _, _, err := partition.ResolveComputePartition("", c.ComputePartition, ""); err != nil {
		return err
	}
	if err := c.registerOptions("").Validate(); err != nil {
		return err
	}
	if _, err := hook.HostLibrary(c.HookPath); err != nil {
		return fmt.Errorf("HOST_HOOK_PATH: %w", err)
	}
	switch c.AllocatorPolicy {
	case "", PolicyBestEffort, PolicyBinpack, PolicySpread:
	default:
		return fmt.Errorf("allocator policy %s: want %q, %q or %q", excerpt(string(c.AllocatorPolicy)), PolicyBestEffort, PolicyBinpack, PolicySpread)
	}
	switch {
	case c.HookLogLevel < 0 || c.HookLogLevel > maxHookLogLevel:
		return fmt.Errorf("LIBHIP_LOG_LEVEL %d: want 0 to %d", c.HookLogLevel, maxHookLogLevel)
	case c.Verbosity < 0 || c.Verbosity > maxVerbosity:
		return fmt.Errorf("log verbosity %d: want 0 to %d", c.Verbosity, maxVerbosity)
	case c.Pulse < 0 || c.Pulse > maxPulse:
		return fmt.Errorf("health pulse %v: want 0 to %v", c.Pulse, maxPulse)
	}
	for _, p := range []struct{ what, path string }{
		{"CDI spec directory", c.CDISpecDir}, {"path of ctr", c.CtrPath}, {"containerd socket", c.ContainerdSocket},
		{"sysfs root", c.SysfsRoot}, {"device root", c.DevRoot}, {"cgroup root", c.CgroupRoot},
		{"kubelet directory", c.KubeletDir}, {"exporter socket", c.ExporterSocket},
	} {
		if p.path != "" && (!filepath.IsAbs(p.path) || strings.ContainsRune(p.path, 0)) {
			return fmt.Errorf("%s %s: want an absolute path", p.what, excerpt(p.path))
		}
	}
	if socket := filepath.Join(c.pluginDir(), endpoint(partition.ResourceGPU)); len(socket) > maxSocketPath {
		return fmt.Errorf("kubelet directory %s: want a socket path of at most %d bytes in it, %d are needed", excerpt(c.KubeletDir), maxSocketPath, len(socket))
	}
	return nil
}

// registerOptions are the settings that decide what the node offers in an
// operating mode.
func (c Config) registerOptions(mode partition.OperatingMode) partition.RegisterOptions {
	o := partition.RegisterOptions{
		Mode: mode, NodeName: c.NodeName, SplitCount: c.SplitCount, MemoryScaling: c.MemoryScaling,
		Exclude: c.ExcludeGPUs, Naming: c.Naming,
	}
	if c.Standalone && c.SplitCount >= 0 {
		o.SplitCount = 1 // nothing limits what two containers on one GPU use
	}
	return o
}

// The places of the host, where nothing else is configured.
func (c Config) sysfs() string { return orDefault(c.SysfsRoot, "/sys") }
func (c Config) dev() string   { return orDefault(c.DevRoot, "/dev") }

// pluginDir is the folder of kubelet's device manager.
func (c Config) pluginDir() string {
	return filepath.Join(orDefault(c.KubeletDir, "/var/lib/kubelet"), "device-plugins")
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
