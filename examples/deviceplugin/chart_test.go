package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/plugin"
)

// manifests reads a file of manifests into the types of the Kubernetes API,
// and fails at members those do not have. Custom resources, of the Prometheus
// Operator, are left out.
func manifests(t *testing.T, file string) []runtime.Object {
	t.Helper()
	stream, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	var out []runtime.Object
	for document := range strings.SplitSeq(string(stream), "---\n") {
		if strings.TrimSpace(document) == "" || strings.Contains("\n"+document, "\napiVersion: monitoring.coreos.com/") {
			continue
		}
		object, _, err := codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, object)
	}
	return out
}

// The DaemonSets of the manifests.
const (
	pluginSet   = "amd-gpu-device-plugin-daemonset"
	monitorSet  = "k8s-vgpu-monitor"
	labellerSet = "amdgpu-labeller-daemonset"
)

// daemonSet is the one of a name in a file of manifests.
func daemonSet(t *testing.T, file, name string) *appsv1.DaemonSet {
	t.Helper()
	for _, object := range manifests(t, file) {
		if ds, ok := object.(*appsv1.DaemonSet); ok && ds.Name == name {
			return ds
		}
	}
	t.Fatalf("%s: no DaemonSet %s", file, name)
	return nil
}

// rendered are the containers of the plugin that the chart was rendered to, by
// the name of the values.
func rendered(t *testing.T) map[string]corev1.Container {
	t.Helper()
	files, err := filepath.Glob("testdata/rendered/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d rendered files, %v", len(files), err)
	}
	out := map[string]corev1.Container{}
	for _, file := range files {
		containers := daemonSet(t, file, pluginSet).Spec.Template.Spec.Containers
		if len(containers) != 1 {
			t.Fatalf("%s: want one container, found %d", file, len(containers))
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = containers[0]
	}
	return out
}

// environment is what a container on node-1 sees.
func environment(c corev1.Container) func(string) string {
	return func(name string) string {
		for _, env := range c.Env {
			switch {
			case env.Name != name:
			case env.ValueFrom == nil:
				return env.Value
			case env.ValueFrom.FieldRef != nil && env.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
				return "node-1"
			}
		}
		return ""
	}
}

// The plugin understands every flag and variable of the chart, as meant.
func TestPluginUnderstandsTheChart(t *testing.T) {
	// The defaults, told one by one; that of -pulse is the chart's own.
	usual, err := plugin.ParseArgs([]string{"-allocator_policy=besteffort", "-device_memory_scaling=1", "-resource_naming_strategy=single", "-pulse=10"},
		func(name string) string {
			return map[string]string{"NODE_NAME": "node-1", "OPERATING_MODE": "cu", "HOST_HOOK_PATH": "/usr/local"}[name]
		})
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*plugin.Config)) plugin.Config {
		c := usual
		change(&c)
		return c
	}
	want := map[string]plugin.Config{
		"default": usual,
		"k0s":     usual,
		"everything": with(func(c *plugin.Config) {
			c.SplitCount = 4
			c.OperatingMode, c.ComputePartition = "partition", "qpx"
			c.AllocatorPolicy = plugin.PolicySpread
			c.ExcludeGPUs = []string{"0000:06:00.0", "card1"}
			c.MemoryScaling = 1.5
			c.ReportNodeCapacity = true
			c.Naming = partition.NamingMixed
			c.CDISpecDir = "/var/run/cdi"
			c.MuslFailClosed = true
			c.CtrPath = "/var/lib/rancher/rke2/bin/ctr"
			c.ContainerdSocket = "/run/k3s/containerd/containerd.sock"
			c.HookLogLevel, c.Verbosity = 3, 5
			c.HookPath = "/opt/hami"
			c.NodeConfigFile = "/etc/amd-gpu/config.json"
		}),
		"least": with(func(c *plugin.Config) { c.DisableDmem, c.Pulse = true, 0 }),
		"k3s": with(func(c *plugin.Config) {
			c.MuslFailClosed = true
			c.CtrPath = "/var/lib/rancher/k3s/data/current/bin/ctr"
			c.ContainerdSocket = "/run/k3s/containerd/containerd.sock"
		}),
		"containerd": with(func(c *plugin.Config) {
			c.MuslFailClosed = true
			c.CDISpecDir = "/etc/cdi"
			c.ContainerdSocket = "/run/containerd/containerd.sock"
		}),
		"monitor":                  with(func(c *plugin.Config) { c.HookPath = "/opt/hami" }),
		"monitor-least":            usual,
		"monitor-prometheus":       usual,
		"monitor-prometheus-least": usual,
		"cu-compute-partition":     with(func(c *plugin.Config) { c.ComputePartition = "cpx" }),
	}
	containers := rendered(t)
	for name, c := range containers {
		t.Run(name, func(t *testing.T) {
			got, err := plugin.ParseArgs(c.Args, environment(c))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
	if len(containers) != len(want) {
		t.Errorf("%d rendered files, %d wanted configs", len(containers), len(want))
	}
}

// The monitor understands its flags: -h behind them is reached.
func TestMonitorUnderstandsTheChart(t *testing.T) {
	for _, name := range []string{"monitor", "monitor-least"} {
		c := daemonSet(t, "testdata/rendered/"+name+".yaml", monitorSet).Spec.Template.Spec.Containers[0]
		if got := environment(c)("NODE_NAME"); got != "node-1" {
			t.Errorf("NODE_NAME is %q, want the node's name", got)
		}
		args := slices.Concat([]string{"run", "../monitor"}, c.Args, []string{"-h"})
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", c.Args, err, out)
		}
	}
}

// Everything the plugin can be told can be said in the chart, with the same
// default, but for what only tests and unusual hosts need.
func TestChartHasEverySetting(t *testing.T) {
	source, err := os.ReadFile("chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(source, &values); err != nil {
		t.Fatal(err)
	}
	// given are the flags and variables of a container.
	given := func(c corev1.Container) map[string]string {
		out := map[string]string{}
		for _, arg := range c.Args {
			name, value, _ := strings.Cut(arg, "=")
			out[name] = value
		}
		for _, env := range c.Env {
			out[env.Name] = env.Value
		}
		return out
	}
	usual, all := given(rendered(t)["default"]), given(rendered(t)["everything"])
	for _, s := range plugin.Settings() {
		name, value := s.Variable, s.Value
		if s.Flag != "" {
			name = "-" + s.Flag
		}
		if value == "" && name != "NODE_NAME" { // which the field of the node's name gives
			if _, ok := all[name]; ok || !s.Host && s.Flag != "standalone" {
				t.Errorf("%s: in the chart %t", name, ok)
			}
			continue
		}
		if _, ok := all[name]; !ok {
			t.Errorf("%s is never given", name)
		}
		if _, ok := at(values, value); value != "" && !ok {
			t.Errorf("%s is said to be the value %s, which the chart does not have", name, value)
		}
		if got, ok := usual[name]; ok && got != s.Default && name != "-pulse" {
			t.Errorf("%s is %q by default, the plugin's default is %q", name, got, s.Default)
		}
	}
}

// at finds a value by its name, such as "dp.cdi.enabled".
func at(values map[string]any, name string) (any, bool) {
	first, rest, more := strings.Cut(name, ".")
	v, ok := values[first]
	if !more || !ok {
		return v, ok
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return at(inner, rest)
}

// The plugin understands the settings of single nodes too: what stops it here
// is that there is no node.
func TestPluginUnderstandsTheNodeConfig(t *testing.T) {
	for _, object := range manifests(t, "testdata/rendered/everything.yaml") {
		config, ok := object.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		for _, node := range []string{"node-1", "node-2"} {
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(config.Data["config.json"]), 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			code := run(context.Background(), "plugin", []string{"-standalone", "-node_config_file=" + file, "-sysfs_root=/nonexistent"},
				func(name string) string { return map[string]string{"NODE_NAME": node}[name] }, &stdout, &stderr)
			if code != 1 || !strings.HasPrefix(stderr.String(), "plugin: discovering GPUs: ") {
				t.Errorf("%s: exit %d, %s", node, code, stderr.String())
			}
		}
		return
	}
	t.Error("no ConfigMap")
}

// The largest values the schema lets through are the largest the plugin takes.
func TestSchemaBoundsAreThePlugins(t *testing.T) {
	source, err := os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type property struct {
		Ref         string `json:"$ref"`
		Maximum     *int
		Enum        []string
		Properties  map[string]property
		Definitions map[string]property
	}
	var schema property
	if err := json.Unmarshal(source, &schema); err != nil {
		t.Fatal(err)
	}
	dp := schema.Properties["dp"].Properties
	for name, p := range dp {
		if definition, ok := strings.CutPrefix(p.Ref, "#/definitions/"); ok {
			dp[name] = schema.Definitions[definition]
		}
	}
	parse := func(name, value string) error {
		env := map[string]string{"NODE_NAME": "node-1"}
		var args []string
		if strings.HasPrefix(name, "-") {
			args = []string{name + "=" + value}
		} else {
			env[name] = value
		}
		_, err := plugin.ParseArgs(args, func(name string) string { return env[name] })
		return err
	}
	for value, name := range map[string]string{
		"splitCount": "-split_count", "logVerbosity": "-v", "healthPulse": "-pulse", "hipLogLevel": "LIBHIP_LOG_LEVEL",
	} {
		if dp[value].Maximum == nil {
			t.Errorf("%s has no maximum", value)
			continue
		}
		maximum := *dp[value].Maximum
		if err := parse(name, fmt.Sprint(maximum)); err != nil {
			t.Errorf("%s: the schema allows %d, the plugin says: %v", value, maximum, err)
		}
		if parse(name, fmt.Sprint(maximum+1)) == nil {
			t.Errorf("%s: the schema refuses %d, the plugin does not", value, maximum+1)
		}
	}
	for value, name := range map[string]string{
		"operatingMode": "OPERATING_MODE", "computePartition": "COMPUTE_PARTITION", "allocatorPolicy": "-allocator_policy",
		"resourceNamingStrategy": "-resource_naming_strategy",
	} {
		if len(dp[value].Enum) == 0 {
			t.Errorf("%s has no list of values", value)
		}
		for _, v := range dp[value].Enum {
			if err := parse(name, v); err != nil {
				t.Errorf("%s: the schema allows %q, the plugin says: %v", value, v, err)
			}
		}
	}
}

// The manifest of ROCm's node labeller is known to Kubernetes and names the
// node as the labeller wants it.
func TestLabeller(t *testing.T) {
	const file = "k8s-ds-amdgpu-labeller.yaml"
	if n := len(manifests(t, file)); n != 4 {
		t.Errorf("%d objects, want 4", n)
	}
	pod := daemonSet(t, file, labellerSet).Spec.Template
	if got := environment(pod.Spec.Containers[0])("DS_NODE_NAME"); got != "node-1" {
		t.Errorf("DS_NODE_NAME is %q, want the node's name", got)
	}
	if got := pod.Labels["hami.io/webhook"]; got != "ignore" {
		t.Errorf("hami.io/webhook is %q, want ignore", got)
	}
}
