package chartcheck

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// setting is one value of the plugin's specification.
type setting struct {
	value   string
	initial any
	// flag is the flag or variable that carries the value, without the "-" of
	// a flag; "" where it is no setting of the plugin's.
	flag string
	// set changes the value as --set does, and given is what the plugin then
	// gets; "" is a flag that is not given.
	set, given string
	// unset is what it gets by default.
	unset string
}

func settings() []setting {
	return []setting{
		{value: "dp.image.repository", initial: "ghcr.io/project-hami/amd-device-plugin"},
		{value: "dp.image.tag", initial: ""},
		{"dp.splitCount", 0.0, "split_count", "dp.splitCount=4", "4", "0"},
		{"dp.operatingMode", "cu", "OPERATING_MODE", "dp.operatingMode=partition", "partition", "cu"},
		{"dp.computePartition", "", "COMPUTE_PARTITION", "dp.computePartition=cpx", "cpx", ""},
		{"dp.allocatorPolicy", "besteffort", "allocator_policy", "dp.allocatorPolicy=spread", "spread", "besteffort"},
		{"dp.dmemBackend", true, "dmem_backend", "dp.dmemBackend=false", "false", "true"},
		{"dp.excludeGPUs", []any{}, "exclude_gpus", "dp.excludeGPUs={0000:06:00.0,card1}", "0000:06:00.0,card1", ""},
		{"dp.deviceMemoryScaling", 1.0, "device_memory_scaling", "dp.deviceMemoryScaling=1.5", "1.5", "1"},
		{"dp.reportNodeCapacity", false, "report_node_capacity", "dp.reportNodeCapacity=true", "true", "false"},
		{"dp.cdi.enabled", false, "cdi_spec_dir", "dp.cdi.enabled=true", "/var/run/cdi", ""},
		{"dp.cdi.specDir", "/var/run/cdi", "cdi_spec_dir", "dp.cdi.enabled=true,dp.cdi.specDir=/etc/cdi", "/etc/cdi", ""},
		{"dp.muslFailClosed.enabled", false, "musl_fail_closed", "dp.muslFailClosed.enabled=true", "true", ""},
		{"dp.muslFailClosed.ctrPath", "/var/lib/rancher/rke2/bin/ctr", "ctr_path",
			"dp.muslFailClosed.enabled=true,dp.muslFailClosed.ctrPath=/usr/bin/ctr", "/usr/bin/ctr", ""},
		{"dp.muslFailClosed.containerdSocket", "/run/k3s/containerd/containerd.sock", "containerd_socket",
			"dp.muslFailClosed.enabled=true,dp.muslFailClosed.containerdSocket=/run/k3s/containerd/other.sock", "/run/k3s/containerd/other.sock", ""},
		{value: "dp.muslFailClosed.containerdSocketDir", initial: "/run/k3s/containerd"},
		{value: "dp.muslFailClosed.containerdDataDir", initial: "/var/lib/rancher/rke2/agent/containerd"},
		{"dp.nodeConfig", []any{}, "node_config_file", "dp.nodeConfig=:[{\"name\": \"node-1\", \"splitCount\": 4}]", "/etc/amd-gpu/config.json", ""},
		{"dp.resourceNamingStrategy", "single", "resource_naming_strategy", "dp.resourceNamingStrategy=mixed", "mixed", "single"},
		{"dp.hipLogLevel", 0.0, "LIBHIP_LOG_LEVEL", "dp.hipLogLevel=4", "4", "0"},
		{"dp.logVerbosity", 2.0, "v", "dp.logVerbosity=5", "5", "2"},
		{"dp.healthPulse", 10.0, "pulse", "dp.healthPulse=0", "0", "10"},
		{value: "dp.hookInstaller.enabled", initial: true},
		{value: "monitor.enabled", initial: false},
		{"dp.hostHookPath", "/usr/local", "HOST_HOOK_PATH", "dp.hostHookPath=/opt/hami", "/opt/hami", "/usr/local"},
	}
}

// given returns what a container gets for a flag or variable.
func given(c corev1.Container, flag string) string {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "-"+flag+"="); ok {
			return value
		}
	}
	for _, env := range c.Env {
		if env.Name == flag {
			return env.Value
		}
	}
	return ""
}

// The values of the specification are there, have its defaults, and reach the
// plugin as its flags and variables.
func TestSpecification(t *testing.T) {
	chartValues := chartutil.Values(load(t).Values)
	for _, s := range settings() {
		t.Run(s.value, func(t *testing.T) {
			initial, err := chartValues.PathValue(s.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.initial, initial); diff != "" {
				t.Errorf("default (-want +got):\n%s", diff)
			}
			if s.flag == "" {
				return
			}
			for line, want := range map[string]string{"": s.unset, s.set: s.given} {
				c := pluginContainer(t, find[*appsv1.DaemonSet](t, set(t, line)))
				if got := given(c, s.flag); got != want {
					t.Errorf("with %q: %s is %q, want %q", line, s.flag, got, want)
				}
			}
		})
	}
}

// GPUs to exclude can be given as the flag has them.
func TestExcludedGPUsAsText(t *testing.T) {
	for line, want := range map[string]string{
		"dp.excludeGPUs=":                    "",
		"dp.excludeGPUs=0000:06:00.0":        "0000:06:00.0",
		`dp.excludeGPUs=0000:06:00.0\,card1`: "0000:06:00.0,card1",
	} {
		if got := given(pluginContainer(t, find[*appsv1.DaemonSet](t, set(t, line))), "exclude_gpus"); got != want {
			t.Errorf("with %q: -exclude_gpus is %q, want %q", line, got, want)
		}
	}
}

// The image is the chart's release unless a tag is set, for the installer too.
func TestImage(t *testing.T) {
	for line, want := range map[string]string{
		"": "ghcr.io/project-hami/amd-device-plugin:" + load(t).Metadata.AppVersion,
		"dp.image.repository=localhost:5000/plugin,dp.image.tag=dev": "localhost:5000/plugin:dev",
	} {
		pod := find[*appsv1.DaemonSet](t, set(t, line)).Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if c.Image != want {
				t.Errorf("with %q: %s runs %s, want %s", line, c.Name, c.Image, want)
			}
		}
	}
}

// mount says where a container sees what, with "ro" or a propagation behind it.
func mounts(t *testing.T, ds *appsv1.DaemonSet, c corev1.Container) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range c.VolumeMounts {
		var source string
		for _, v := range ds.Spec.Template.Spec.Volumes {
			switch {
			case v.Name != m.Name:
			case v.HostPath != nil && v.HostPath.Type != nil:
				source = v.HostPath.Path + " " + string(*v.HostPath.Type)
			case v.EmptyDir != nil:
				source = "empty"
			}
		}
		if m.ReadOnly {
			source += " ro"
		}
		if m.MountPropagation != nil {
			source += " " + string(*m.MountPropagation)
		}
		out[m.MountPath] = source
	}
	return out
}

func TestMounts(t *testing.T) {
	always := map[string]string{
		"/var/lib/kubelet/device-plugins": "/var/lib/kubelet/device-plugins Directory",
		"/sys":                            "/sys Directory",
		"/dev":                            "/dev Directory",
		"/usr/local/vgpu":                 "/usr/local/vgpu DirectoryOrCreate",
		"/var/lib/amd-metrics-exporter":   "/var/lib/amd-metrics-exporter DirectoryOrCreate ro",
		"/sys/fs/cgroup":                  "/sys/fs/cgroup Directory",
	}
	for name, test := range map[string]struct {
		set  string
		with map[string]string // "" is one that is not there
	}{
		"default": {},
		"no dmem": {"dp.dmemBackend=false", map[string]string{"/sys/fs/cgroup": ""}},
		"CDI":     {"dp.cdi.enabled=true", map[string]string{"/var/run/cdi": "/var/run/cdi DirectoryOrCreate"}},
		"a hook in another place": {"dp.hostHookPath=/opt/hami/", map[string]string{
			"/usr/local/vgpu": "", "/opt/hami/vgpu": "/opt/hami/vgpu DirectoryOrCreate"}},
		"no installer": {"dp.hookInstaller.enabled=false", nil},
		"another kubelet": {"dp.kubeletDir=/var/lib/k0s/kubelet", map[string]string{
			"/var/lib/kubelet/device-plugins": "/var/lib/k0s/kubelet/device-plugins Directory"}},
		"looks into images": {"dp.muslFailClosed.enabled=true", map[string]string{
			"/run/k3s/containerd":                    "/run/k3s/containerd Directory ro HostToContainer",
			"/var/lib/rancher/rke2/agent/containerd": "/var/lib/rancher/rke2/agent/containerd Directory ro HostToContainer",
			"/var/lib/rancher/rke2/bin/ctr":          "/var/lib/rancher/rke2/bin/ctr File ro",
			"/tmp":                                   "empty",
		}},
		"looks into images without ctr": {"dp.muslFailClosed.enabled=true,dp.muslFailClosed.ctrPath=", map[string]string{
			"/run/k3s/containerd":                    "/run/k3s/containerd Directory ro HostToContainer",
			"/var/lib/rancher/rke2/agent/containerd": "/var/lib/rancher/rke2/agent/containerd Directory ro HostToContainer",
			"/tmp":                                   "empty",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for _, from := range []map[string]string{always, test.with} {
				for path, source := range from {
					if want[path] = source; source == "" {
						delete(want, path)
					}
				}
			}
			ds := find[*appsv1.DaemonSet](t, set(t, test.set))
			if diff := cmp.Diff(want, mounts(t, ds, pluginContainer(t, ds))); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
		})
	}
}

// The installer writes where the plugin reads.
func TestHookInstaller(t *testing.T) {
	for _, path := range []string{"/usr/local", "/opt/hami"} {
		ds := find[*appsv1.DaemonSet](t, set(t, "dp.hostHookPath="+path))
		installer := ds.Spec.Template.Spec.InitContainers[0]
		if got := given(installer, "host_hook_path"); got != path {
			t.Errorf("-host_hook_path is %q, want %q", got, path)
		}
		want := map[string]string{path + "/vgpu": path + "/vgpu DirectoryOrCreate"}
		if diff := cmp.Diff(want, mounts(t, ds, installer)); diff != "" {
			t.Errorf("mounts (-want +got):\n%s", diff)
		}
	}
	ds := find[*appsv1.DaemonSet](t, set(t, "dp.hookInstaller.enabled=false"))
	if n := len(ds.Spec.Template.Spec.InitContainers); n != 0 {
		t.Errorf("%d init containers without the installer", n)
	}
}

// The settings of single nodes are in the file the plugin is told of, and a
// change of them makes new pods.
func TestNodeConfig(t *testing.T) {
	one := set(t, `dp.nodeConfig=:[{"name": "node-1", "splitCount": 4}]`)
	other := set(t, `dp.nodeConfig=:[{"name": "node-1", "splitCount": 5}]`)
	want := map[string]string{"config.json": `{"nodeconfig":[{"name":"node-1","splitCount":4}]}`}
	if diff := cmp.Diff(want, find[*corev1.ConfigMap](t, one).Data); diff != "" {
		t.Errorf("config map (-want +got):\n%s", diff)
	}
	ds := find[*appsv1.DaemonSet](t, one)
	mounted := ""
	for _, v := range ds.Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && v.ConfigMap.Name == find[*corev1.ConfigMap](t, one).Name {
			for _, m := range pluginContainer(t, ds).VolumeMounts {
				if m.Name == v.Name {
					mounted = m.MountPath
				}
			}
		}
	}
	if got := given(pluginContainer(t, ds), "node_config_file"); got != mounted+"/config.json" {
		t.Errorf("the plugin is told of %q, the file is in %q", got, mounted)
	}
	const sum = "checksum/node-config"
	before := ds.Spec.Template.Annotations[sum]
	after := find[*appsv1.DaemonSet](t, other).Spec.Template.Annotations[sum]
	if before == "" || before == after {
		t.Errorf("%s is %q before and %q after a change", sum, before, after)
	}
}

// The plugin learns the node's name from the pod.
func TestNodeName(t *testing.T) {
	for _, env := range pluginContainer(t, find[*appsv1.DaemonSet](t, nil)).Env {
		if env.Name == "NODE_NAME" {
			if env.ValueFrom == nil || env.ValueFrom.FieldRef == nil || env.ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
				t.Errorf("NODE_NAME is %v, want spec.nodeName", env)
			}
			return
		}
	}
	t.Error("no NODE_NAME")
}

// A default label of the nodes can be replaced: Helm merges maps, and null takes
// a key out.
func TestNodeSelector(t *testing.T) {
	const instinct = "feature.node.kubernetes.io/pci-1200_1002.present"
	for name, tt := range map[string]struct {
		selector values
		want     map[string]string
	}{
		"the default": {nil, map[string]string{instinct: "true", "kubernetes.io/arch": "amd64"}},
		"one more":    {values{"gpu": "amd"}, map[string]string{instinct: "true", "kubernetes.io/arch": "amd64", "gpu": "amd"}},
		"replaced":    {values{instinct: nil, "gpu": "amd"}, map[string]string{"kubernetes.io/arch": "amd64", "gpu": "amd"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := values{"node_selector_enabled": true}
			if tt.selector != nil {
				v["node_selector"] = map[string]any(tt.selector)
			}
			got := find[*appsv1.DaemonSet](t, v).Spec.Template.Spec.NodeSelector
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("node selector (-want +got):\n%s", diff)
			}
		})
	}
}
