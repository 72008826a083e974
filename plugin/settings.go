package plugin

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/partition"
)

// Setting is one thing a user can tell the plugin, by a flag or by an
// environment variable.
type Setting struct {
	// Flag is the name of the flag without the dash. It or Variable is "".
	Flag string
	// Variable is the name of the environment variable.
	Variable string
	// Value is the value of the Helm chart that gives it; "" for settings the
	// chart leaves alone.
	Value string
	// Default is what holds when nothing is given.
	Default string
	// Usage says what the setting does, in the words of the help text.
	Usage string
	// Host is true for settings about where things are on the host, which
	// differ on unusual nodes and in tests.
	Host bool

	boolean bool
	set     func(*Config, string) error
}

// Settings are all settings in the order of the help text. The flag set, the
// help text and the checks of the chart come from this one list.
func Settings() []Setting {
	all := append(sharing(), running()...)
	return append(all, places()...)
}

// sharing are the settings that decide what the node offers and to whom.
func sharing() []Setting {
	return []Setting{
		{Flag: "split_count", Value: "dp.splitCount", Default: "0",
			Usage: "How many pods may share one GPU. 0 picks it per GPU: 2 on gfx12, otherwise 10. Any other value applies to every GPU.",
			set:   intSetting(func(c *Config) *int { return &c.SplitCount })},
		{Variable: "OPERATING_MODE", Value: "dp.operatingMode", Default: "cu",
			Usage: "cu slices whole GPUs by CU. partition uses the hardware compute partitions of Instinct GPUs. The node annotation hami.io/amd-operating-mode outranks it.",
			set:   textSetting(func(c *Config) *string { return &c.OperatingMode })},
		{Variable: "COMPUTE_PARTITION", Value: "dp.computePartition",
			Usage: "In partition mode, the compute partition (spx, dpx, qpx or cpx; tpx on a GPU that has it) that idle GPUs are switched to at startup. The node annotation hami.io/amd-compute-partition outranks it.",
			set:   textSetting(func(c *Config) *string { return &c.ComputePartition })},
		{Flag: "allocator_policy", Value: "dp.allocatorPolicy", Default: "besteffort",
			Usage: "How kubelet picks GPUs for multi-GPU pods: besteffort (the same as binpack, the closest GPUs) or spread (the farthest GPUs).",
			set:   func(c *Config, s string) error { c.AllocatorPolicy = AllocatorPolicy(s); return nil }},
		{Flag: "dmem_backend", Value: "dp.dmemBackend", Default: "true", boolean: true,
			Usage: "Also cap a slice's VRAM with the kernel dmem cgroup controller.",
			set:   func(c *Config, s string) error { on, err := parseBool(s); c.DisableDmem = !on; return err }},
		{Flag: "exclude_gpus", Value: "dp.excludeGPUs",
			Usage: "GPUs this node keeps for itself, as PCI addresses (0000:06:00.0) or DRM cards (card1), separated by commas. With none left, the stale registration is cleared.",
			set:   func(c *Config, s string) error { c.ExcludeGPUs = list(s); return nil }},
		{Flag: "device_memory_scaling", Value: "dp.deviceMemoryScaling", Default: "1",
			Usage: "Multiplies the VRAM each GPU registers. Above 1, pods get HIP_OVERSUBSCRIBE=true and hipMalloc is served from managed memory (needs XNACK on CDNA).",
			set:   setScaling},
		{Flag: "report_node_capacity", Value: "dp.reportNodeCapacity", Default: "false", boolean: true,
			Usage: "Publish the healthy GPUs' memory (amd.com/gpumem, MiB) and compute units (amd.com/gpucores) as node capacity and allocatable. Turning it off removes the entries again.",
			set:   boolSetting(func(c *Config) *bool { return &c.ReportNodeCapacity })},
		{Flag: "resource_naming_strategy", Value: "dp.resourceNamingStrategy", Default: "single",
			Usage: "single makes every GPU and partition an amd.com/gpu. mixed names partitions after their mode, for example amd.com/cpx_nps4.",
			set:   setNaming},
	}
}

// running are the settings of how containers are given their GPUs and how the
// plugin works.
func running() []Setting {
	return []Setting{
		{Flag: "cdi_spec_dir", Value: "dp.cdi.specDir",
			Usage: "Inject GPUs through CDI: write the amd.com/gpu spec to this directory, usually /var/run/cdi, and answer with CDI device names. Empty is off.",
			set:   textSetting(func(c *Config) *string { return &c.CDISpecDir })},
		{Flag: "musl_fail_closed", Value: "dp.muslFailClosed.enabled", Default: "false", boolean: true,
			Usage: "Refuse a slice whose image cannot load the memory hook. Experimental.",
			set:   boolSetting(func(c *Config) *bool { return &c.MuslFailClosed })},
		{Flag: "ctr_path", Value: "dp.muslFailClosed.ctrPath",
			Usage: "The ctr command to inspect images with. Empty asks containerd itself.",
			set:   textSetting(func(c *Config) *string { return &c.CtrPath })},
		{Flag: "containerd_socket", Value: "dp.muslFailClosed.containerdSocket",
			Usage: "The containerd whose images are inspected. Empty is /run/containerd/containerd.sock.",
			set:   textSetting(func(c *Config) *string { return &c.ContainerdSocket })},
		{Flag: "pulse", Value: "dp.healthPulse", Default: "0",
			Usage: "Seconds between GPU health checks. 0 disables them.", set: setPulse},
		{Flag: "v", Value: "dp.logVerbosity", Default: "2",
			Usage: "Log verbosity. 4 adds topology parsing and 5 adds annotation decoding.",
			set:   intSetting(func(c *Config) *int { return &c.Verbosity })},
		{Flag: "standalone", Default: "false", boolean: true,
			Usage: "Work without HAMi and without an API server: GPUs are handed out whole, as kubelet picks them, and split_count is 1.",
			set:   boolSetting(func(c *Config) *bool { return &c.Standalone })},
		{Flag: "node_config_file", Value: "dp.nodeConfig",
			Usage: "A JSON or YAML file with settings of single nodes, which outrank the flags and variables.",
			set:   textSetting(func(c *Config) *string { return &c.NodeConfigFile })},
		{Variable: "NODE_NAME",
			Usage: "The Kubernetes name of this node. Required, except with -standalone.",
			set:   textSetting(func(c *Config) *string { return &c.NodeName })},
		{Variable: "HOST_HOOK_PATH", Value: "dp.hostHookPath", Default: "/usr/local",
			Usage: "Host directory for the hook. Workloads always see it at /usr/local/vgpu/libamvgpu.so.",
			set:   textSetting(func(c *Config) *string { return &c.HookPath })},
		{Variable: "LIBHIP_LOG_LEVEL", Value: "dp.hipLogLevel", Default: "0",
			Usage: "Log level of the memory hook in pods (1 error, 2 warn, 3 info, 4 debug). 0 keeps the library default.",
			set:   intSetting(func(c *Config) *int { return &c.HookLogLevel })},
	}
}

// places are the settings about the host.
func places() []Setting {
	row := func(flag, otherwise, usage string, field func(*Config) *string) Setting {
		return Setting{Flag: flag, Default: otherwise, Usage: usage, Host: true, set: textSetting(field)}
	}
	return []Setting{
		row("kubeconfig", "", "How to reach the API server. Empty is the pod's service account.", func(c *Config) *string { return &c.Kubeconfig }),
		row("kubelet_dir", "/var/lib/kubelet", "Kubelet's directory; its sockets are in device-plugins.", func(c *Config) *string { return &c.KubeletDir }),
		row("sysfs_root", "/sys", "Where sysfs is mounted.", func(c *Config) *string { return &c.SysfsRoot }),
		row("dev_root", "/dev", "Where the health checks find the device nodes.", func(c *Config) *string { return &c.DevRoot }),
		row("cgroup_root", "/sys/fs/cgroup", "Where cgroup v2 is mounted.", func(c *Config) *string { return &c.CgroupRoot }),
		row("exporter_socket", "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket",
			"The socket of the AMD Device Metrics Exporter, which is asked about GPU health where it exists.", func(c *Config) *string { return &c.ExporterSocket }),
	}
}

func textSetting(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, s string) error { *field(c) = s; return nil }
}

func intSetting(field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, s string) (err error) { *field(c), err = parseInt(s); return err }
}

func boolSetting(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, s string) (err error) { *field(c), err = parseBool(s); return err }
}

func parseInt(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("want a whole number, found %s", excerpt(s))
	}
	return int(n), nil
}

func parseBool(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("want true or false, found %s", excerpt(s))
	}
	return b, nil
}

func setPulse(c *Config, s string) error {
	const most = int(maxPulse / time.Second)
	n, err := parseInt(s)
	if err != nil || n < 0 || n > most {
		return fmt.Errorf("want whole seconds, 0 to %d, found %s", most, excerpt(s))
	}
	c.Pulse = time.Duration(n) * time.Second
	return nil
}

func setScaling(c *Config, s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) || math.IsInf(f, 0) {
		return fmt.Errorf("want a number above 0, found %s", excerpt(s))
	}
	c.MemoryScaling = f
	return nil
}

func setNaming(c *Config, s string) (err error) {
	c.Naming, err = partition.ParseNamingStrategy(s)
	return err
}

// list splits at commas and drops blanks.
func list(s string) []string {
	var out []string
	for entry := range strings.SplitSeq(s, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}

// excerpt shows text that somebody else chose, in a message: escaped and short.
func excerpt(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
}
