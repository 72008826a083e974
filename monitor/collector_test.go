package monitor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// everything is all that is served of a card with one slice on it.
const everything = `
# HELP hami_gpu_committed_compute_units Compute units of the device given to pods.
# TYPE hami_gpu_committed_compute_units gauge
hami_gpu_committed_compute_units{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 8
# HELP hami_gpu_committed_memory_bytes Memory of the device given to pods, in bytes.
# TYPE hami_gpu_committed_memory_bytes gauge
hami_gpu_committed_memory_bytes{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 4.294967296e+09
# HELP hami_gpu_committed_shares Containers that share the device; all that may while one of them has it whole.
# TYPE hami_gpu_committed_shares gauge
hami_gpu_committed_shares{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 1
# HELP hami_gpu_healthy 1 if the node registers the device as healthy, 0 if not.
# TYPE hami_gpu_healthy gauge
hami_gpu_healthy{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 1
# HELP hami_gpu_registered_compute_units Compute units of the device.
# TYPE hami_gpu_registered_compute_units gauge
hami_gpu_registered_compute_units{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 32
# HELP hami_gpu_registered_memory_bytes Memory of the device the scheduler may give out, in bytes.
# TYPE hami_gpu_registered_memory_bytes gauge
hami_gpu_registered_memory_bytes{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 1.7095983104e+10
# HELP hami_gpu_registered_shares Containers that may share the device.
# TYPE hami_gpu_registered_shares gauge
hami_gpu_registered_shares{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 2
# HELP hami_host_gpu_memory_total_bytes Memory of the GPU, in bytes.
# TYPE hami_host_gpu_memory_total_bytes gauge
hami_host_gpu_memory_total_bytes{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 1.7095983104e+10
# HELP hami_host_gpu_memory_used_bytes Memory of the GPU in use, in bytes.
# TYPE hami_host_gpu_memory_used_bytes gauge
hami_host_gpu_memory_used_bytes{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 2.9884416e+08
# HELP hami_host_gpu_power_usage_watts Power the GPU draws, in watts.
# TYPE hami_host_gpu_power_usage_watts gauge
hami_host_gpu_power_usage_watts{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 139
# HELP hami_host_gpu_temperature_celsius Temperature of the GPU, in degrees Celsius: edge, or junction on GPUs without that sensor.
# TYPE hami_host_gpu_temperature_celsius gauge
hami_host_gpu_temperature_celsius{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 41
# HELP hami_host_gpu_utilization_ratio Time the GPU was busy, in percent (0-100).
# TYPE hami_host_gpu_utilization_ratio gauge
hami_host_gpu_utilization_ratio{device_index="0",device_type="AMD Radeon RX 9060 XT",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",node="gpu-node",zone="vGPU"} 73
# HELP hami_vgpu_compute_units Compute units the container holds on the device; 0 is a slice of memory alone.
# TYPE hami_vgpu_compute_units gauge
hami_vgpu_compute_units{container="c0",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",namespace="ns",pod="p",vdevice_index="0",zone="vGPU"} 8
# HELP hami_vgpu_effective_compute_units Effective compute units of the container's mask: XCCs times the fewest CUs on any XCC.
# TYPE hami_vgpu_effective_compute_units gauge
hami_vgpu_effective_compute_units{container="c0",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",namespace="ns",pod="p",vdevice_index="0",zone="vGPU"} 8
# HELP hami_vgpu_memory_granted_bytes Device memory the container was granted, in bytes, whether or not anything holds it to that.
# TYPE hami_vgpu_memory_granted_bytes gauge
hami_vgpu_memory_granted_bytes{container="c0",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",namespace="ns",pod="p",vdevice_index="0",zone="vGPU"} 4.294967296e+09
# HELP hami_vgpu_memory_limit_bytes Device memory the container is held to, in bytes; absent where nothing enforces a limit.
# TYPE hami_vgpu_memory_limit_bytes gauge
hami_vgpu_memory_limit_bytes{container="c0",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",namespace="ns",pod="p",vdevice_index="0",zone="vGPU"} 4.294967296e+09
# HELP hami_vgpu_memory_used_bytes Device memory the container uses, in bytes.
# TYPE hami_vgpu_memory_used_bytes gauge
hami_vgpu_memory_used_bytes{container="c0",device_uuid="8fff7590-0000-1000-804e-19c27ab3d650",namespace="ns",pod="p",vdevice_index="0",zone="vGPU"} 1.073741824e+09
# HELP hami_vgpumonitor_collect_success 1 if everything could be collected, 0 if any part could not.
# TYPE hami_vgpumonitor_collect_success gauge
hami_vgpumonitor_collect_success{node="gpu-node",zone="vGPU"} 1
`

func TestEverything(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	fixturetest.Write(t, r.sysfs, deviceDir(r.devices[0].GPU.BDF)+"/gpu_busy_percent", "73\n")
	pod := r.pod("p", []annotations.Grant{r.grant(0, 4096, 8)})
	r.masks(pod, map[string]map[string]cumask.Set{"c0": {r.devices[0].ID: cumask.Range(8, 15)}})
	r.start(pod)
	r.limit(podCgroupOf(pod), r.region(0), 4*gib)
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), gib))
	if err := testutil.CollectAndCompare(r.Collector, strings.NewReader(everything)); err != nil {
		t.Error(err)
	}
	r.wantProblems()
}

// The names and labels that the specification and HAMi's NVIDIA monitor fix.
func TestNamesAndLabels(t *testing.T) {
	const (
		container = "namespace pod container vdevice_index device_uuid"
		host      = "node device_index device_uuid device_type"
	)
	want := map[string]string{
		"hami_vgpu_memory_used_bytes": container, "hami_vgpu_memory_limit_bytes": container,
		"hami_host_gpu_memory_used_bytes": host, "hami_host_gpu_memory_total_bytes": host,
		"hami_host_gpu_utilization_ratio": host, "hami_host_gpu_temperature_celsius": host,
		"hami_host_gpu_power_usage_watts":  host,
		"hami_vgpumonitor_collect_success": "node",
		// These are this module's own.
		"hami_vgpu_compute_units": container, "hami_vgpu_effective_compute_units": container,
		"hami_vgpu_memory_granted_bytes":   container,
		"hami_gpu_registered_memory_bytes": host, "hami_gpu_committed_memory_bytes": host,
		"hami_gpu_registered_compute_units": host, "hami_gpu_committed_compute_units": host,
		"hami_gpu_registered_shares": host, "hami_gpu_committed_shares": host, "hami_gpu_healthy": host,
	}
	d := newDescs()
	got := make(map[string]string)
	for _, desc := range d.all() {
		text := desc.String()
		name, _, _ := strings.Cut(strings.SplitAfter(text, `fqName: "`)[1], `"`)
		labels, _, _ := strings.Cut(strings.SplitAfter(text, "variableLabels: {")[1], "}")
		got[name] = strings.ReplaceAll(labels, ",", " ")
		if !strings.Contains(text, `constLabels: {zone="vGPU"}`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	r := newRig(t, "rx9060xt", partition.ModeCU)
	if problems, err := testutil.CollectAndLint(r.Collector); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestNewRefuses(t *testing.T) {
	cluster := &fakeCluster{}
	for name, o := range map[string]Options{
		"no name":            {Cluster: cluster},
		"no cluster":         {NodeName: "n"},
		"a negative timeout": {NodeName: "n", Cluster: cluster, Timeout: -1},
	} {
		if c, err := New(o); err == nil || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	c, err := New(Options{NodeName: "n", Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	if c.sysfs != "/sys" || c.cgroups.files.dir != "/sys/fs/cgroup" || c.hookPath != "/usr/local" || c.timeout != DefaultTimeout {
		t.Errorf("defaults: %+v", c)
	}
}

// Nothing at all is known: no GPU, no pod, no cgroups.
func TestNodeWithoutGPUs(t *testing.T) {
	r := newRig(t, "empty", partition.ModeCU)
	r.wantSeries("hami_vgpumonitor_collect_success{node=\"gpu-node\"} 1\n")
	r.wantProblems()
}

// One series for each GPU, whatever the number of its partitions.
func TestHostSeriesAreOfGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		machine string
		mode    partition.OperatingMode
	}{
		"shared":                        {"mi300x-spx-8", partition.ModeCU},
		"hard, of one partition":        {"mi300x-spx-8", partition.ModePartition},
		"eight partitions":              {"mi300x-cpx-8", partition.ModePartition},
		"four partitions":               {"mi355x-qpx-8", partition.ModePartition},
		"four without nodes of the XCP": {"mi355x-qpx-8-noxcp", partition.ModePartition},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.machine, tt.mode)
			var want []string
			for i := range 8 {
				d := r.devices[i*len(r.devices)/8]
				want = append(want, `hami_host_gpu_temperature_celsius{device_index="`+string(rune('0'+i))+`",device_type="`+d.Type+
					`",device_uuid="`+d.GPU.UUID()+`",node="gpu-node"} 44`+"\n")
			}
			if diff := cmp.Diff(strings.Join(want, ""), r.text("hami_host_gpu_temperature_celsius")); diff != "" {
				t.Errorf("temperatures (-want +got):\n%s", diff)
			}
		})
	}
}

// A container without the right to use the GPUs: KFD hides them, and the
// registration names them.
func TestHostSeriesWithoutKFD(t *testing.T) {
	for _, mode := range []partition.OperatingMode{partition.ModeCU, partition.ModePartition} {
		r := newRig(t, "mi300x-cpx-8", mode)
		want := r.text()
		nodes := "devices/virtual/kfd/kfd/topology/nodes"
		fixturetest.Remove(t, r.sysfs, nodes)
		fixturetest.Write(t, r.sysfs, nodes+"/0/gpu_id", "0\n")
		if diff := cmp.Diff(want, r.text()); diff != "" {
			t.Errorf("%s: (-with KFD +without):\n%s", mode, diff)
		}
	}
}

// sensorMetrics are those that go by the physical GPU.
var sensorMetrics = []string{
	"hami_host_gpu_memory_used_bytes", "hami_host_gpu_memory_total_bytes", "hami_host_gpu_utilization_ratio",
	"hami_host_gpu_temperature_celsius", "hami_host_gpu_power_usage_watts",
}

// What the annotation does not name, discovery does.
func TestHostSeriesOfUnregisteredGPUs(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	want := r.text(sensorMetrics...)
	for name, value := range map[string]string{"none": "", "a part": r.registered(t, 0, 3), "not this node's": "[]"} {
		r.cluster.node.Annotations[annotations.NodeRegisterKey] = value
		if diff := cmp.Diff(want, r.text(sensorMetrics...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		r.wantProblems()
	}
	delete(r.cluster.node.Annotations, annotations.NodeRegisterKey)
	if got := r.text(sensorMetrics...); got != want {
		t.Errorf("without the annotation:\n%s", got)
	}
}

// registered is the annotation with the given devices alone.
func (r *rig) registered(t *testing.T, indices ...int) string {
	t.Helper()
	var list []annotations.Device
	for _, i := range indices {
		list = append(list, r.devices[i].Device)
	}
	value, err := annotations.EncodeDevices(list)
	r.must(err)
	return value
}

// What is broken of the node costs its own series.
func TestBrokenNode(t *testing.T) {
	const gone = `{"id":"gone-0","index":8,"count":10,"devmem":1024,"devcore":8,"type":"AMD X","health":true,"custominfo":{"pciBDF":"0000:ff:00.0"}}`
	for name, tt := range map[string]struct {
		value    string
		problems []string
	}{
		"a registered GPU is gone": {"[" + gone + "]", []string{"gpu 0000:ff:00.0: "}},
		"no JSON":                  {"broken", []string{"annotation hami.io/node-amd-register: "}},
		"an address that climbs": {
			`[{"id":"x","custominfo":{"pciBDF":"../../0000:05:00.0"}}]`, []string{`registered device "x": `},
		},
		"no address": {`[{"id":"x"}]`, []string{`registered device "x": `}},
		"two GPUs called the same": {
			`[{"id":"x-p0","custominfo":{"pciBDF":"0000:05:00.0"}},{"id":"x-p1","custominfo":{"pciBDF":"0000:27:00.0"}}]`,
			slices.Repeat([]string{"is there twice"}, 5),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "mi300x-spx-8", partition.ModeCU)
			pod := r.pod("p", []annotations.Grant{r.grant(5, 1024, 8)})
			r.start(pod)
			r.cluster.node.Annotations[annotations.NodeRegisterKey] = tt.value
			r.wantProblems(tt.problems...)
			if n := strings.Count(r.text("hami_host_gpu_power_usage_watts"), "\n"); n < 7 {
				t.Errorf("power of %d GPUs, want the others'", n)
			}
			r.wantSeries(`hami_vgpu_memory_used_bytes{container="c0",device_uuid="D5",namespace="ns",pod="p",vdevice_index="0"} 0`+"\n", "hami_vgpu_memory_used_bytes")
		})
	}
}

// An annotation that says nothing leaves the devices as they were.
func TestBrokenRegistrationKeepsTheLast(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	r.cluster.node.Annotations[annotations.NodeRegisterKey] = `[{"id":"named-otherwise","type":"AMD Y","custominfo":{"pciBDF":"` + string(r.devices[0].GPU.BDF) + `"}}]`
	want := r.text("hami_host_gpu_power_usage_watts")
	if !strings.Contains(want, "named-otherwise") {
		t.Fatal(want)
	}
	r.cluster.node.Annotations[annotations.NodeRegisterKey] = "broken"
	for range 2 {
		if got := r.text("hami_host_gpu_power_usage_watts"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		r.wantProblems("annotation hami.io/node-amd-register: ")
	}
}

// Sensors that cannot be read cost no other GPU's.
func TestBrokenGPU(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	fixturetest.Write(t, r.sysfs, deviceDir(r.devices[2].GPU.BDF)+"/gpu_busy_percent", "busy\n")
	if n := strings.Count(r.text("hami_host_gpu_utilization_ratio"), "\n"); n != 7 {
		t.Errorf("utilization of %d GPUs, want 7", n)
	}
	if n := strings.Count(r.text("hami_host_gpu_memory_used_bytes"), "\n"); n != 8 {
		t.Errorf("memory of %d GPUs, want 8", n)
	}
	r.wantProblems("gpu " + string(r.devices[2].GPU.BDF) + ": gpu_busy_percent: ")
}

// The API server is away: what was known is served, and said to be old.
func TestClusterErrors(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	r.start(r.pod("p", []annotations.Grant{r.grant(0, 4096, 8)}))
	want := r.text("hami_vgpu_compute_units", "hami_host_gpu_power_usage_watts")
	r.cluster.podsErr, r.cluster.nodeErr = errors.New("pods as last seen"), errors.New("node as last seen")
	r.wantProblems("node as last seen", "pods as last seen")
	if got := r.text("hami_vgpu_compute_units", "hami_host_gpu_power_usage_watts"); got != want || strings.Count(got, "\n") != 2 {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	r.cluster.pods, r.cluster.node = nil, nil
	r.wantProblems("node as last seen", "pods as last seen")
	if got := r.text("hami_host_gpu_power_usage_watts"); strings.Count(got, "\n") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// The tree of cgroups and sysfs are not where they should be.
func TestMissingRoots(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	c, err := New(Options{NodeName: nodeName, Cluster: r.cluster, SysfsRoot: t.TempDir() + "/s", CgroupRoot: t.TempDir() + "/c", Problems: r.problems})
	r.must(err)
	r.Collector = c
	r.wantProblems("discover gpus: ", "cgroup tree ", "gpu "+string(r.devices[0].GPU.BDF)+": ")
}

// A metric that a registry would refuse costs itself alone.
func TestOutputRefusesWhatRegistriesRefuse(t *testing.T) {
	d := newDescs()
	out := &output{ch: make(chan<- prometheus.Metric, 9), seen: make(map[series]bool)}
	out.put(d.success, 1, "a")
	out.put(d.success, 1, "a")
	out.put(d.success, 1, "\xff")
	out.put(d.success, 1)
	out.put(d.success, 1, "b")
	if len(out.ch) != 2 || len(out.problems) != 3 {
		t.Errorf("%d metrics, want 2; problems %v", len(out.ch), out.problems)
	}
	for range 2 * maxProblems {
		out.problem(errors.New("x"))
	}
	if n := len(out.problems); n != maxProblems+1 || out.problems[n-1].Error() != "and more" {
		t.Errorf("%d problems, the last %v", n, out.problems[n-1])
	}
}
