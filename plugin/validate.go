package plugin

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Where things are on a node.
const (
	defaultSysfsRoot  = "/sys"
	defaultDevRoot    = "/dev"
	defaultKubeletDir = "/var/lib/kubelet"
)

// maxVerbosity and maxHookLogLevel are the last levels that have a meaning.
const (
	maxVerbosity    = 10
	maxHookLogLevel = 4
)

// Validate reports the first setting that cannot be, whatever the hardware. It
// reads no files; those of NodeConfigFile are checked by New.
func (c Config) Validate() error {
	if c.NodeName == "" && !c.Standalone {
		return errors.New("NODE_NAME is not set: want the Kubernetes name of the node")
	}
	if _, _, _, err := partition.ResolveOperatingMode(c.OperatingMode, ""); err != nil {
		return err
	}
	if _, _, _, err := partition.ResolveComputePartition(partition.ModePartition, c.ComputePartition, ""); err != nil {
		return err
	}
	if err := c.registerOptions("").Validate(); err != nil {
		return err
	}
	switch c.AllocatorPolicy {
	case "", PolicyBestEffort, PolicyBinpack, PolicySpread:
	default:
		return fmt.Errorf("allocator policy %q: want %q, %q or %q", c.AllocatorPolicy, PolicyBestEffort, PolicyBinpack, PolicySpread)
	}
	switch {
	case c.Verbosity < 0 || c.Verbosity > maxVerbosity:
		return fmt.Errorf("log verbosity %d: want 0 to %d", c.Verbosity, maxVerbosity)
	case c.HookLogLevel < 0 || c.HookLogLevel > maxHookLogLevel:
		return fmt.Errorf("log level %d of the memory hook: want 0 to %d", c.HookLogLevel, maxHookLogLevel)
	case c.Pulse < 0:
		return fmt.Errorf("pulse %v: want 0 or more", c.Pulse)
	}
	for _, p := range []struct{ what, path string }{
		{"CDI spec directory", c.CDISpecDir}, {"path of ctr", c.CtrPath}, {"containerd socket", c.ContainerdSocket},
		{"host hook path", c.HookPath}, {"node config file", c.NodeConfigFile}, {"sysfs root", c.SysfsRoot}, {"device root", c.DevRoot},
		{"cgroup root", c.CgroupRoot}, {"kubelet directory", c.KubeletDir}, {"exporter socket", c.ExporterSocket},
	} {
		if p.path != "" && (!filepath.IsAbs(p.path) || strings.ContainsRune(p.path, 0)) {
			return fmt.Errorf("%s %q: want an absolute path", p.what, p.path)
		}
	}
	return nil
}

// registerOptions are what discovery is told, in an operating mode.
func (c Config) registerOptions(mode partition.OperatingMode) partition.RegisterOptions {
	return partition.RegisterOptions{
		Mode: mode, NodeName: c.NodeName, SplitCount: c.SplitCount, MemoryScaling: c.MemoryScaling,
		Exclude: c.ExcludeGPUs, Naming: c.Naming,
	}
}

// withDefaults fills in what the zero value stands for.
func (c Config) withDefaults() Config {
	for _, p := range []struct {
		field   *string
		initial string
	}{
		{&c.HookPath, hook.DefaultHostPath}, {&c.SysfsRoot, defaultSysfsRoot}, {&c.DevRoot, defaultDevRoot},
		{&c.CgroupRoot, defaultCgroupRoot}, {&c.KubeletDir, defaultKubeletDir},
	} {
		if *p.field == "" {
			*p.field = p.initial
		}
	}
	if c.AllocatorPolicy == "" {
		c.AllocatorPolicy = PolicyBestEffort
	}
	if c.Standalone {
		c.SplitCount = 1
	}
	return c
}
