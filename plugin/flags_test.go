package plugin

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/image"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

func environment(extra ...string) func(string) string {
	env := map[string]string{"NODE_NAME": testNode}
	for _, e := range extra {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	return func(name string) string { return env[name] }
}

// defaults are what the specification says of a command line without flags.
func defaults() Config {
	return Config{
		NodeName: testNode, OperatingMode: "cu", AllocatorPolicy: PolicyBestEffort, MemoryScaling: 1,
		ContainerdSocket: image.DefaultSocket, Naming: partition.NamingSingle, Verbosity: 2, HookPath: hook.DefaultHostPath,
		SysfsRoot: "/sys", DevRoot: "/dev", CgroupRoot: "/sys/fs/cgroup", KubeletDir: "/var/lib/kubelet",
		ExporterSocket: exporter.DefaultSocket,
	}
}

func TestParseConfig(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := defaults()
		change(&c)
		return c
	}
	for name, test := range map[string]struct {
		args, env []string
		want      Config
	}{
		"nothing but the node": {want: defaults()},
		"every flag of the specification": {
			args: []string{"-split_count=4", "-allocator_policy=spread", "-dmem_backend=false", "-exclude_gpus=0000:06:00.0, card1,",
				"-device_memory_scaling=1.5", "-report_node_capacity=true", "-cdi_spec_dir=/var/run/cdi", "-musl_fail_closed", "-ctr_path=/usr/bin/ctr",
				"-containerd_socket=/run/c.sock", "-resource_naming_strategy=mixed", "-v=5", "-pulse=10"},
			env: []string{"OPERATING_MODE=partition", "COMPUTE_PARTITION=cpx", "HOST_HOOK_PATH=/opt/hami", "LIBHIP_LOG_LEVEL=4"},
			want: with(func(c *Config) {
				c.SplitCount, c.AllocatorPolicy, c.DisableDmem, c.ExcludeGPUs = 4, PolicySpread, true, []string{"0000:06:00.0", "card1"}
				c.MemoryScaling, c.ReportNodeCapacity, c.CDISpecDir, c.MuslFailClosed, c.CtrPath = 1.5, true, "/var/run/cdi", true, "/usr/bin/ctr"
				c.ContainerdSocket, c.Naming, c.Verbosity, c.Pulse = "/run/c.sock", partition.NamingMixed, 5, 10*time.Second
				c.OperatingMode, c.ComputePartition, c.HookPath, c.HookLogLevel = "partition", "cpx", "/opt/hami", 4
			})},
		"the value in the next argument": {args: []string{"--pulse", "3"}, want: with(func(c *Config) { c.Pulse = 3 * time.Second })},
		"a path that is switched off":    {args: []string{"-ctr_path="}, want: defaults()},
		"variables without a value":      {env: []string{"OPERATING_MODE=", "LIBHIP_LOG_LEVEL="}, want: defaults()},
		"no node in standalone mode": {args: []string{"-standalone"}, env: []string{"NODE_NAME="},
			want: with(func(c *Config) { c.Standalone, c.NodeName = true, "" })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig(test.args, environment(test.env...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		want      string
		usage     bool
	}{
		"an unknown flag":              {args: []string{"-splitcount=2"}, want: "wrong usage: flag provided but not defined: -splitcount", usage: true},
		"a flag without its value":     {args: []string{"-pulse"}, want: "wrong usage: flag needs an argument: -pulse", usage: true},
		"an argument":                  {args: []string{"now"}, want: `wrong usage: argument "now": want flags only`, usage: true},
		"a variable as a flag":         {args: []string{"-NODE_NAME=a"}, want: "wrong usage: flag provided but not defined: -NODE_NAME", usage: true},
		"no node":                      {env: []string{"NODE_NAME="}, want: "NODE_NAME is not set: want the Kubernetes name of the node"},
		"a node that is none":          {env: []string{"NODE_NAME=a/b"}, want: `node name "a/b": want a Kubernetes node name`},
		"a negative split count":       {args: []string{"-split_count=-1"}, want: "split count -1: want 0 to 1024"},
		"half a pod":                   {args: []string{"-split_count=2.5"}, want: `-split_count "2.5": want a whole number`},
		"a switch in other words":      {args: []string{"-dmem_backend=on"}, want: `-dmem_backend "on": want true or false`},
		"a policy that does not exist": {args: []string{"-allocator_policy=random"}, want: `allocator policy "random": want "besteffort", "binpack" or "spread"`},
		"an empty policy is the default, an empty scaling is not": {args: []string{"-allocator_policy=", "-device_memory_scaling="},
			want: `-device_memory_scaling "": want a number above 0`},
		"no memory":               {args: []string{"-device_memory_scaling=0"}, want: `-device_memory_scaling "0": want a number above 0`},
		"no number":               {args: []string{"-device_memory_scaling=NaN"}, want: `-device_memory_scaling "NaN": want a number above 0`},
		"endless memory":          {args: []string{"-device_memory_scaling=Inf"}, want: "memory scaling +Inf: want a number above 0"},
		"a GPU by its index":      {args: []string{"-exclude_gpus=1"}, want: `"1"`},
		"a strategy of its own":   {args: []string{"-resource_naming_strategy=many"}, want: `resource naming strategy "many": want "single" or "mixed"`},
		"a pulse with a unit":     {args: []string{"-pulse=10s"}, want: `-pulse "10s": want whole seconds, 0 to 86400`},
		"a pulse before now":      {args: []string{"-pulse=-1"}, want: `-pulse "-1": want whole seconds, 0 to 86400`},
		"a pulse of years":        {args: []string{"-pulse=9223372036"}, want: `-pulse "9223372036": want whole seconds, 0 to 86400`},
		"a relative directory":    {args: []string{"-cdi_spec_dir=cdi"}, want: `CDI spec directory "cdi": want an absolute path`},
		"a verbosity below 0":     {args: []string{"-v=-1"}, want: "log verbosity -1: want 0 to 10"},
		"a mode of other vendors": {env: []string{"OPERATING_MODE=mig"}, want: `"mig"`},
		"a partition nobody has":  {env: []string{"COMPUTE_PARTITION=zpx"}, want: `"zpx"`},
		"a level beyond debug":    {env: []string{"LIBHIP_LOG_LEVEL=5"}, want: "log level 5 of the memory hook: want 0 to 4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig(test.args, environment(test.env...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("error %q has several lines", err)
			}
			if got := errors.Is(err, ErrUsage); got != test.usage {
				t.Errorf("ErrUsage is %v, want %v", got, test.usage)
			}
		})
	}
	for _, help := range []string{"-h", "--help"} {
		if _, err := ParseConfig([]string{help}, environment()); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: error %v, want %v", help, err, flag.ErrHelp)
		}
	}
}

// The usage has every setting with its default and meaning, and each default
// is what an empty command line gives.
func TestUsage(t *testing.T) {
	usage := Usage("amd-device-plugin")
	args := []string{}
	env := []string{}
	for _, s := range Settings() {
		if !strings.Contains(usage, "\n      "+s.Meaning+"\n") || !strings.Contains(usage, "  "+s.Name) {
			t.Errorf("usage lacks %s", s.Name)
		}
		switch {
		case s.Name == "NODE_NAME":
		case s.IsVariable():
			env = append(env, s.Name+"="+s.Default)
		default:
			args = append(args, s.Name+"="+s.Default)
		}
	}
	got, err := ParseConfig(args, environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
