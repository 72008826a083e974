package plugin

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/image"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

// ErrUsage is returned for a command line that is not one of the plugin's. A
// program answers with the Usage and exits with 2; every other error of
// ParseConfig is one line and means exit 1.
var ErrUsage = errors.New("wrong usage")

// Setting is one flag or environment variable of the plugin.
type Setting struct {
	Name     string // as it is written: "-pulse" or "NODE_NAME"
	Default  string
	Meaning  string
	set      func(*Config, string) error
	isSwitch bool // "-name" alone is "-name=true"
}

// IsVariable tells an environment variable from a flag.
func (s Setting) IsVariable() bool { return !strings.HasPrefix(s.Name, "-") }

// Settings lists all flags and variables, the flags first.
func Settings() []Setting {
	return []Setting{
		number("-split_count", "0", "how many pods may share one GPU; 0 picks it per GPU, 2 on gfx12 and otherwise 10",
			func(c *Config) *int { return &c.SplitCount }),
		text("-allocator_policy", string(PolicyBestEffort), "how kubelet picks GPUs for a container with several: besteffort or binpack (the closest), spread (the farthest)",
			func(c *Config, v string) { c.AllocatorPolicy = AllocatorPolicy(v) }),
		boolean("-dmem_backend", "true", "also cap a slice's VRAM with the kernel's dmem cgroup controller",
			func(c *Config, v bool) { c.DisableDmem = !v }),
		text("-exclude_gpus", "", "GPUs the node keeps for itself, separated by commas: PCI addresses (0000:06:00.0) or DRM cards (card1)",
			func(c *Config, v string) { c.ExcludeGPUs = separated(v) }),
		{Name: "-device_memory_scaling", Default: "1", Meaning: "multiplies the VRAM each GPU registers; above 1 slices may use managed memory", set: setScaling},
		boolean("-report_node_capacity", "false", "publish amd.com/gpumem (MiB) and amd.com/gpucores as node capacity; off removes them again",
			func(c *Config, v bool) { c.ReportNodeCapacity = v }),
		text("-cdi_spec_dir", "", "hand out GPUs as CDI devices, whose spec is written into this directory; empty hands out device nodes",
			func(c *Config, v string) { c.CDISpecDir = v }),
		boolean("-musl_fail_closed", "false", "refuse a slice whose image cannot load the memory hook (experimental)",
			func(c *Config, v bool) { c.MuslFailClosed = v }),
		text("-ctr_path", "", "the ctr command that images are looked at with; empty is the plugin's own containerd client",
			func(c *Config, v string) { c.CtrPath = v }),
		text("-containerd_socket", image.DefaultSocket, "containerd's socket",
			func(c *Config, v string) { c.ContainerdSocket = v }),
		text("-resource_naming_strategy", string(partition.NamingSingle), "single: all is amd.com/gpu; mixed: partitions are named after their mode, such as amd.com/cpx_nps4",
			func(c *Config, v string) { c.Naming = partition.NamingStrategy(v) }),
		number("-v", "2", "log level; 4 adds topology parsing and 5 annotation decoding",
			func(c *Config) *int { return &c.Verbosity }),
		{Name: "-pulse", Default: "0", Meaning: "seconds between two looks at the GPUs and their health; 0 is never", set: setPulse},
		boolean("-standalone", "false", "work without HAMi and without an API server: whole devices as kubelet picks them",
			func(c *Config, v bool) { c.Standalone = v }),
		text("-node_config_file", "", "file with settings of single nodes, which outrank flags and variables",
			func(c *Config, v string) { c.NodeConfigFile = v }),
		text("-kubeconfig", "", "how to reach the API server; empty is the pod's service account",
			func(c *Config, v string) { c.Kubeconfig = v }),
		text("-sysfs_root", defaultSysfsRoot, "the host's sysfs", func(c *Config, v string) { c.SysfsRoot = v }),
		text("-dev_root", defaultDevRoot, "the host's device nodes", func(c *Config, v string) { c.DevRoot = v }),
		text("-cgroup_root", defaultCgroupRoot, "the host's cgroup v2 tree", func(c *Config, v string) { c.CgroupRoot = v }),
		text("-kubelet_dir", defaultKubeletDir, "kubelet's directory, the parent of device-plugins", func(c *Config, v string) { c.KubeletDir = v }),
		text("-exporter_socket", exporter.DefaultSocket, "health socket of the AMD Device Metrics Exporter", func(c *Config, v string) { c.ExporterSocket = v }),

		text("NODE_NAME", "", "Kubernetes name of the node; required, except with -standalone",
			func(c *Config, v string) { c.NodeName = v }),
		text(partition.OperatingModeVariable, string(partition.ModeCU), "cu slices whole GPUs by CU, partition offers compute partitions; the annotation hami.io/amd-operating-mode of the node outranks it",
			func(c *Config, v string) { c.OperatingMode = v }),
		text(partition.ComputePartitionVariable, "", "in partition mode, what idle GPUs are switched to at start (spx, dpx, qpx or cpx); the annotation hami.io/amd-compute-partition outranks it",
			func(c *Config, v string) { c.ComputePartition = v }),
		text("HOST_HOOK_PATH", hook.DefaultHostPath, "host directory of the memory hook, which is vgpu/libamvgpu.so in it",
			func(c *Config, v string) { c.HookPath = v }),
		number("LIBHIP_LOG_LEVEL", "0", "log level of the memory hook in pods: 1 error, 2 warn, 3 info, 4 debug; 0 keeps the library's default",
			func(c *Config) *int { return &c.HookLogLevel }),
	}
}

func text(name, initial, meaning string, set func(*Config, string)) Setting {
	return Setting{Name: name, Default: initial, Meaning: meaning, set: func(c *Config, v string) error {
		set(c, v)
		return nil
	}}
}

func boolean(name, initial, meaning string, set func(*Config, bool)) Setting {
	return Setting{Name: name, Default: initial, Meaning: meaning, isSwitch: true, set: func(c *Config, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("want true or false")
		}
		set(c, b)
		return nil
	}}
}

func number(name, initial, meaning string, field func(*Config) *int) Setting {
	return Setting{Name: name, Default: initial, Meaning: meaning, set: func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return errors.New("want a whole number")
		}
		*field(c) = n
		return nil
	}}
}

func setScaling(c *Config, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0) {
		return errors.New("want a number above 0")
	}
	c.MemoryScaling = f
	return nil
}

func setPulse(c *Config, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > maxPulse {
		return fmt.Errorf("want whole seconds, 0 to %d", maxPulse)
	}
	c.Pulse = time.Duration(n) * time.Second
	return nil
}

// maxPulse is a day; more is a mistake in the unit.
const maxPulse = 24 * 60 * 60

// separated splits a list at its commas and drops what is blank.
func separated(s string) []string {
	var list []string
	for _, f := range strings.Split(s, ",") {
		if f = strings.TrimSpace(f); f != "" {
			list = append(list, f)
		}
	}
	return list
}

// ParseConfig reads the command line (without the program's name) and the
// environment, in which "" is a variable that is not set. The error is
// flag.ErrHelp for -h and -help, wraps ErrUsage for a flag that does not exist
// or an argument that is none, and otherwise names the value that is wrong or
// missing, in one line.
func ParseConfig(args []string, getenv func(string) string) (Config, error) {
	settings := Settings()
	values := make([]string, len(settings))
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for i, s := range settings {
		values[i] = s.Default
		keep := func(v string) error { values[i] = v; return nil }
		switch {
		case s.IsVariable():
			if v := getenv(s.Name); v != "" {
				values[i] = v
			}
		case s.isSwitch:
			flags.BoolFunc(s.Name[1:], s.Meaning, keep)
		default:
			flags.Func(s.Name[1:], s.Meaning, keep)
		}
	}
	// The values are only kept here, so what fails is the usage.
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return Config{}, err
	case err != nil:
		return Config{}, fmt.Errorf("%w: %v", ErrUsage, err)
	case flags.NArg() > 0:
		return Config{}, fmt.Errorf("%w: argument %q: want flags only", ErrUsage, flags.Arg(0))
	}
	var c Config
	for i, s := range settings {
		if err := s.set(&c, values[i]); err != nil {
			return Config{}, fmt.Errorf("%s %q: %w", s.Name, values[i], err)
		}
	}
	return c, c.Validate()
}

// Usage is the text for -h.
func Usage(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is the kubelet device plugin for AMD GPUs that HAMi shares.\n\nUsage: %s [flags]\n\nFlags:\n", program, program)
	variables := false
	for _, s := range Settings() {
		if s.IsVariable() && !variables {
			variables = true
			b.WriteString("\nEnvironment variables:\n")
		}
		fmt.Fprintf(&b, "  %s", s.Name)
		if s.Default != "" {
			fmt.Fprintf(&b, " (default %s)", s.Default)
		}
		fmt.Fprintf(&b, "\n      %s\n", s.Meaning)
	}
	return b.String()
}
