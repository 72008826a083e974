package plugin

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/partition"
)

// env answers for an environment that has these variables only.
func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

var named = map[string]string{"NODE_NAME": "node-1"}

// with adds to the smallest environment that is accepted.
func with(pairs ...string) map[string]string {
	vars := map[string]string{"NODE_NAME": "node-1"}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return vars
}

func TestParseArgs(t *testing.T) {
	plain := Config{NodeName: "node-1", Verbosity: 2}
	change := func(f func(*Config)) Config { c := plain; f(&c); return c }
	tests := map[string]struct {
		args []string
		env  map[string]string
		want Config
	}{
		"nothing but the node's name": {want: plain},
		"every flag": {
			args: []string{"-split_count=4", "-allocator_policy", "spread", "-dmem_backend=false", "-exclude_gpus", "0000:06:00.0, card1,",
				"-device_memory_scaling=1.5", "-report_node_capacity", "-cdi_spec_dir=/var/run/cdi", "-musl_fail_closed=true",
				"-ctr_path=/usr/bin/ctr", "-containerd_socket=/run/k3s/containerd/containerd.sock", "-resource_naming_strategy=mixed",
				"-v=5", "-pulse=10", "-kubeconfig=/k", "-kubelet_dir=/kl", "-sysfs_root=/s", "-dev_root=/d", "-cgroup_root=/c", "-exporter_socket=/e"},
			want: Config{NodeName: "node-1", SplitCount: 4, AllocatorPolicy: PolicySpread, DisableDmem: true,
				ExcludeGPUs: []string{"0000:06:00.0", "card1"}, MemoryScaling: 1.5, ReportNodeCapacity: true, CDISpecDir: "/var/run/cdi",
				MuslFailClosed: true, CtrPath: "/usr/bin/ctr", ContainerdSocket: "/run/k3s/containerd/containerd.sock",
				Naming: partition.NamingMixed, Verbosity: 5, Pulse: 10 * time.Second,
				Kubeconfig: "/k", KubeletDir: "/kl", SysfsRoot: "/s", DevRoot: "/d", CgroupRoot: "/c", ExporterSocket: "/e"},
		},
		"every variable": {
			env: with("OPERATING_MODE", "partition", "COMPUTE_PARTITION", "cpx", "HOST_HOOK_PATH", "/opt/hami", "LIBHIP_LOG_LEVEL", "4"),
			want: change(func(c *Config) {
				c.OperatingMode, c.ComputePartition, c.HookPath, c.HookLogLevel = "partition", "cpx", "/opt/hami", 4
			}),
		},
		"two dashes":                        {args: []string{"--split_count", "7"}, want: change(func(c *Config) { c.SplitCount = 7 })},
		"the last of two flags":             {args: []string{"-v=4", "-v=0"}, want: change(func(c *Config) { c.Verbosity = 0 })},
		"binpack is besteffort":             {args: []string{"-allocator_policy=binpack"}, want: change(func(c *Config) { c.AllocatorPolicy = PolicyBinpack })},
		"a switch without a value":          {args: []string{"-musl_fail_closed"}, want: change(func(c *Config) { c.MuslFailClosed = true })},
		"an empty list of GPUs":             {args: []string{"-exclude_gpus="}, want: plain},
		"CDI turned off":                    {args: []string{"-cdi_spec_dir="}, want: plain},
		"a variable that is set to nothing": {env: with("OPERATING_MODE", "", "LIBHIP_LOG_LEVEL", ""), want: plain},
		"no node name in standalone mode":   {args: []string{"-standalone"}, env: map[string]string{}, want: Config{Standalone: true, Verbosity: 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			vars := test.env
			if vars == nil {
				vars = named
			}
			got, err := ParseArgs(test.args, env(vars))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseArgsRefuses(t *testing.T) {
	tests := map[string]struct {
		args  []string
		env   map[string]string
		want  string
		usage bool
	}{
		"an unknown flag":                 {args: []string{"-splitcount=4"}, want: "bad command line: flag provided but not defined: -splitcount", usage: true},
		"an unknown flag after a bad one": {args: []string{"-nope", "-pulse=x"}, want: "bad command line: flag provided but not defined: -nope", usage: true},
		"an argument":                     {args: []string{"serve"}, want: `bad command line: unexpected argument "serve"`, usage: true},
		"a switch with its value apart":   {args: []string{"-dmem_backend", "false"}, want: `bad command line: unexpected argument "false"`, usage: true},
		"a flag without its value":        {args: []string{"-pulse"}, want: "bad command line: flag needs an argument: -pulse", usage: true},

		"no node name":                    {env: map[string]string{}, want: "NODE_NAME is not set: want the Kubernetes name of this node"},
		"a node name that is none":        {env: map[string]string{"NODE_NAME": "Node 1"}, want: `node name "Node 1": want a Kubernetes node name: lower-case letters, digits, "-" and "."`},
		"a negative split count":          {args: []string{"-split_count=-1"}, want: "split count -1: want 0 to 1024"},
		"a huge split count":              {args: []string{"-split_count=1025"}, want: "split count 1025: want 0 to 1024"},
		"a split count that is no number": {args: []string{"-split_count=0x10"}, want: `-split_count: want a whole number, found "0x10"`},
		"an operating mode in upper case": {env: with("OPERATING_MODE", "CU"), want: `variable OPERATING_MODE: operating mode "CU": want "cu" or "partition"`},
		"an unknown compute partition":    {env: with("COMPUTE_PARTITION", "opx"), want: `variable COMPUTE_PARTITION: compute partition "opx": want one of "spx", "dpx", "tpx", "qpx" or "cpx"`},
		"an unknown policy":               {args: []string{"-allocator_policy=best"}, want: `allocator policy "best": want "besteffort", "binpack" or "spread"`},
		"a switch that is neither":        {args: []string{"-dmem_backend=maybe"}, want: `-dmem_backend: want true or false, found "maybe"`},
		"a short PCI address":             {args: []string{"-exclude_gpus=06:00.0"}, want: `exclude "06:00.0": want a PCI address such as "0000:06:00.0" or a DRM card such as "card1"`},
		"a memory scaling of 0":           {args: []string{"-device_memory_scaling=0"}, want: `-device_memory_scaling: want a number above 0, found "0"`},
		"a memory scaling that is NaN":    {args: []string{"-device_memory_scaling=nan"}, want: `-device_memory_scaling: want a number above 0, found "nan"`},
		"an endless memory scaling":       {args: []string{"-device_memory_scaling=Inf"}, want: `-device_memory_scaling: want a number above 0, found "Inf"`},
		"a negative pulse":                {args: []string{"-pulse=-1"}, want: `-pulse: want whole seconds, 0 to 86400, found "-1"`},
		"a pulse with a unit":             {args: []string{"-pulse=10s"}, want: `-pulse: want whole seconds, 0 to 86400, found "10s"`},
		"a pulse beyond all time":         {args: []string{"-pulse=99999999999"}, want: `-pulse: want whole seconds, 0 to 86400, found "99999999999"`},
		"an unknown naming strategy":      {args: []string{"-resource_naming_strategy=double"}, want: `-resource_naming_strategy: resource naming strategy "double": want "single" or "mixed"`},
		"a negative verbosity":            {args: []string{"-v=-1"}, want: "log verbosity -1: want 0 to 10"},
		"a verbosity beyond all levels":   {args: []string{"-v=11"}, want: "log verbosity 11: want 0 to 10"},
		"a pulse of more than a day":      {args: []string{"-pulse=86401"}, want: `-pulse: want whole seconds, 0 to 86400, found "86401"`},
		"a relative root":                 {args: []string{"-sysfs_root=sys"}, want: `sysfs root "sys": want an absolute path`},
		"a kubelet directory too deep for a socket": {args: []string{"-kubelet_dir=/" + strings.Repeat("k", 80)},
			want: `kubelet directory "/kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"... (81 bytes): want a socket path of at most 107 bytes in it, 113 are needed`},
		"a relative CDI directory":          {args: []string{"-cdi_spec_dir=cdi"}, want: `CDI spec directory "cdi": want an absolute path`},
		"a relative containerd socket":      {args: []string{"-containerd_socket=c.sock"}, want: `containerd socket "c.sock": want an absolute path`},
		"a hook level that is too high":     {env: with("LIBHIP_LOG_LEVEL", "5"), want: "LIBHIP_LOG_LEVEL 5: want 0 to 4"},
		"a hook level that is a word":       {env: with("LIBHIP_LOG_LEVEL", "debug"), want: `LIBHIP_LOG_LEVEL: want a whole number, found "debug"`},
		"a relative hook path":              {env: with("HOST_HOOK_PATH", "usr/local"), want: `HOST_HOOK_PATH: hook host path: want an absolute path, have "usr/local"`},
		"a very long value is cut short":    {args: []string{"-pulse=" + strings.Repeat("1", 100)}, want: `-pulse: want whole seconds, 0 to 86400, found "` + strings.Repeat("1", 64) + `"... (100 bytes)`},
		"a value with a line break, quoted": {args: []string{"-pulse=1\n2"}, want: `-pulse: want whole seconds, 0 to 86400, found "1\n2"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			vars := test.env
			if vars == nil {
				vars = named
			}
			got, err := ParseArgs(test.args, env(vars))
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if err.Error() != test.want {
				t.Errorf("error\n%v, want\n%s", err, test.want)
			}
			if errors.Is(err, ErrUsage) != test.usage {
				t.Errorf("a usage error is %t, want %t", !test.usage, test.usage)
			}
			if diff := cmp.Diff(Config{}, got); diff != "" {
				t.Errorf("a configuration came with the error:\n%s", diff)
			}
		})
	}
}

func TestHelpIsNeitherErrorNorConfig(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"-help"}, {"--help"}, {"-v=4", "-h"}} {
		if _, err := ParseArgs(args, env(nil)); !errors.Is(err, flag.ErrHelp) || errors.Is(err, ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// What the help text calls a default is what holds without the setting.
func TestDefaultsAreWhatTheySay(t *testing.T) {
	var args []string
	vars := map[string]string{"NODE_NAME": "node-1"}
	for _, s := range Settings() {
		switch {
		case s.Default == "":
		case s.Flag != "":
			args = append(args, "-"+s.Flag+"="+s.Default)
		default:
			vars[s.Variable] = s.Default
		}
	}
	spelled, err := ParseArgs(args, env(vars))
	if err != nil {
		t.Fatal(err)
	}
	given, err := ParseArgs(nil, env(named))
	if err != nil {
		t.Fatal(err)
	}
	// The same said in two ways.
	for _, c := range []*Config{&spelled, &given} {
		c.OperatingMode, c.HookPath = orDefault(c.OperatingMode, "cu"), orDefault(c.HookPath, "/usr/local")
		c.AllocatorPolicy = AllocatorPolicy(orDefault(string(c.AllocatorPolicy), "besteffort"))
		c.Naming = partition.NamingStrategy(orDefault(string(c.Naming), "single"))
		if c.MemoryScaling == 0 {
			c.MemoryScaling = 1
		}
		c.SysfsRoot, c.DevRoot, c.KubeletDir = c.sysfs(), c.dev(), orDefault(c.KubeletDir, filepath.Dir(c.pluginDir()))
		c.CgroupRoot = orDefault(c.CgroupRoot, "/sys/fs/cgroup")
		c.ExporterSocket = orDefault(c.ExporterSocket, "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket")
	}
	if diff := cmp.Diff(spelled, given); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsAreComplete(t *testing.T) {
	var flags, vars []string
	values := map[string]bool{}
	for _, s := range Settings() {
		if (s.Flag == "") == (s.Variable == "") {
			t.Errorf("%+v: want a flag or a variable", s)
		}
		if s.Usage == "" || !strings.HasSuffix(s.Usage, ".") {
			t.Errorf("%s: usage %q: want a sentence", s.name(), s.Usage)
		}
		if s.Value != "" && values[s.Value] {
			t.Errorf("%s: two settings of one chart value", s.Value)
		}
		values[s.Value] = true
		if s.Flag != "" && !s.Host {
			flags = append(flags, s.Flag)
		} else if s.Variable != "" {
			vars = append(vars, s.Variable)
		}
	}
	slices.Sort(flags)
	slices.Sort(vars)
	want := []string{"allocator_policy", "cdi_spec_dir", "containerd_socket", "ctr_path", "device_memory_scaling", "dmem_backend",
		"exclude_gpus", "musl_fail_closed", "node_config_file", "pulse", "report_node_capacity", "resource_naming_strategy",
		"split_count", "standalone", "v"}
	if diff := cmp.Diff(want, flags); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"COMPUTE_PARTITION", "HOST_HOOK_PATH", "LIBHIP_LOG_LEVEL", "NODE_NAME", "OPERATING_MODE"}, vars); diff != "" {
		t.Error(diff)
	}
}

func TestUsage(t *testing.T) {
	var b strings.Builder
	Usage(&b, "k8s-device-plugin")
	got := b.String()
	for _, s := range Settings() {
		if n := len(regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(s.name())+`( |$)`).FindAllString(got, -1)); n != 1 {
			t.Errorf("%s is there %d times", s.name(), n)
		}
	}
	for line := range strings.Lines(got) {
		if len(line) > 120 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
	}
	golden := filepath.Join("testdata", "usage.golden")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

func ExampleParseArgs() {
	cfg, err := ParseArgs([]string{"-split_count=4", "-pulse=10", "-exclude_gpus=0000:06:00.0,card1"},
		func(name string) string { return map[string]string{"NODE_NAME": "gpu-node"}[name] })
	fmt.Println(cfg.NodeName, cfg.SplitCount, cfg.Pulse, cfg.ExcludeGPUs, err)

	_, err = ParseArgs([]string{"-splitcount=4"}, func(string) string { return "" })
	fmt.Println(errors.Is(err, ErrUsage), err)
	// Output:
	// gpu-node 4 10s [0000:06:00.0 card1] <nil>
	// true bad command line: flag provided but not defined: -splitcount
}
