package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

func numaNode(id int64) *pluginapi.TopologyInfo {
	return &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: id}}}
}

func TestKubeletDevices(t *testing.T) {
	sick := map[partition.BDF]string{"0000:83:00.0": "ECC"}
	tests := map[string]struct {
		machine  string
		opts     partition.RegisterOptions
		resource string
		n        int
		first    *pluginapi.Device
		last     *pluginapi.Device
	}{
		"shares of soft devices": {machine: "mi300x-spx-8", n: 80,
			first: &pluginapi.Device{ID: "0000:05:00.0#0", Health: "Healthy", Topology: numaNode(0)},
			last:  &pluginapi.Device{ID: "0000:e5:00.0#9", Health: "Healthy", Topology: numaNode(1)}},
		"partitions": {machine: "mi355x-qpx-8", opts: partition.RegisterOptions{Mode: partition.ModePartition}, n: 32,
			first: &pluginapi.Device{ID: "0000:05:00.0-p0", Health: "Healthy", Topology: numaNode(1)},
			last:  &pluginapi.Device{ID: "0000:f5:00.0-p3", Health: "Healthy", Topology: numaNode(4)}},
		"hard whole GPUs once": {machine: "mi355x-spx-8", opts: partition.RegisterOptions{Mode: partition.ModePartition}, n: 8,
			first: &pluginapi.Device{ID: "0000:05:00.0", Health: "Healthy", Topology: numaNode(1)},
			last:  &pluginapi.Device{ID: "0000:f5:00.0", Health: "Healthy", Topology: numaNode(4)}},
		"an unhealthy GPU": {machine: "mi300x-spx-8", opts: partition.RegisterOptions{SplitCount: 1, Unhealthy: map[partition.BDF]string{"0000:05:00.0": "ECC"}}, n: 8,
			first: &pluginapi.Device{ID: "0000:05:00.0#0", Health: "Unhealthy", Topology: numaNode(0)},
			last:  &pluginapi.Device{ID: "0000:e5:00.0#0", Health: "Healthy", Topology: numaNode(1)}},
		"another resource has none of them": {machine: "mi300x-spx-8", opts: partition.RegisterOptions{Unhealthy: sick}, resource: "amd.com/cpx_nps1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resource := test.resource
			if resource == "" {
				resource = partition.ResourceGPU
			}
			got := kubeletDevices(machineSnapshot(t, test.machine, test.opts).Devices, resource)
			if len(got) != test.n {
				t.Fatalf("%d devices, want %d", len(got), test.n)
			}
			if test.n == 0 {
				return
			}
			for _, pair := range [][2]*pluginapi.Device{{test.first, got[0]}, {test.last, got[len(got)-1]}} {
				if diff := cmp.Diff(pair[0], pair[1], protocmp.Transform()); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A single-socket machine says -1, another GPU has no numa_node at all: all
// devices are there, none with a topology.
func TestC33UnknownNUMANodeIsLeftOut(t *testing.T) {
	sysfs := fixturetest.Machine(t, "mi300x-cpx-8")
	inv, err := partition.Discover(sysfs)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range inv.GPUs {
		file := "bus/pci/devices/" + string(g.BDF) + "/numa_node"
		if i == 1 {
			fixturetest.Remove(t, sysfs, file)
		} else {
			fixturetest.Write(t, sysfs, file, "-1\n")
		}
	}
	if inv, err = partition.Discover(sysfs); err != nil {
		t.Fatal(err)
	}
	reg, err := inv.Register(partition.RegisterOptions{Mode: partition.ModePartition})
	if err != nil {
		t.Fatal(err)
	}
	reg.Devices[8].GPU.NUMANode = ptr(-1) // an inventory of somebody else's making
	list := kubeletDevices(reg.Devices, partition.ResourceGPU)
	if len(list) != 64 {
		t.Errorf("%d devices, want 64", len(list))
	}
	for _, d := range list {
		if d.Topology != nil {
			t.Errorf("%s has topology %v", d.ID, d.Topology)
		}
	}
}

// manyGPUs is a node of n soft GPUs, like the first one of a machine.
func manyGPUs(tb testing.TB, n int) *snapshot {
	tb.Helper()
	one := machineSnapshot(tb, "rx7900xtx", partition.RegisterOptions{SplitCount: 10}).Devices[0]
	var devices []partition.Registered
	for i := range n {
		r := one
		g := *one.GPU
		g.BDF = partition.BDF(fmt.Sprintf("0000:%02x:00.0", i+1))
		g.Nodes = append([]partition.Node(nil), g.Nodes...)
		g.Nodes[0].ID = i + 1
		g.Nodes[0].Links = nil
		r.GPU, r.ID, r.KubeletIDs = &g, fmt.Sprintf("gpu-%02d", i), nil
		for slot := range 10 {
			r.KubeletIDs = append(r.KubeletIDs, fmt.Sprintf("%s#%d", g.BDF, slot))
		}
		devices = append(devices, r)
	}
	return newSnapshot(devices, nil, partition.ModeCU, nil)
}

// 64 partitions, and 64 GPUs with ten shares each, reach kubelet whole, in the
// first message, well below the 4 MiB a gRPC message may have.
func TestC34ManyDevicesReachKubelet(t *testing.T) {
	tests := map[string]struct {
		prepare func(*Config)
		machine string
		n       int
	}{
		"64 partitions": {machine: "mi300x-cpx-8", n: 64, prepare: func(c *Config) { c.OperatingMode = "partition" }},
		"640 shares":    {machine: "mi300x-spx-8", n: 640, prepare: func(c *Config) { c.SplitCount = 80 }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := newFakeKubelet(t)
			k.start()
			cfg := machineConfig(t, test.machine)
			cfg.KubeletDir = k.root()
			test.prepare(&cfg)
			r := startPlugin(t, cfg, &stubAllocator{}, nil)
			list := k.devices(partition.ResourceGPU, test.n)
			checkList(t, list, test.n)
			k.mu.Lock()
			c := k.clients[partition.ResourceGPU]
			if len(c.lists[0]) != test.n {
				t.Errorf("the first message has %d devices", len(c.lists[0]))
			}
			t.Logf("%d bytes", c.size)
			if c.size > 1<<16 {
				t.Errorf("%d bytes", c.size)
			}
			k.mu.Unlock()
			if diff := cmp.Diff([]string{partition.ResourceGPU}, k.registered()); diff != "" {
				t.Error(diff)
			}
			r.stop()
		})
	}
	t.Run("64 GPUs of ten shares", func(t *testing.T) {
		list := kubeletDevices(manyGPUs(t, 64).Devices, partition.ResourceGPU)
		checkList(t, list, 640)
		if size := proto.Size(&pluginapi.ListAndWatchResponse{Devices: list}); size > 1<<16 {
			t.Errorf("%d bytes", size)
		}
	})
}

func checkList(t *testing.T, list []*pluginapi.Device, n int) {
	t.Helper()
	seen := make(map[string]bool)
	for _, d := range list {
		if d.Health != pluginapi.Healthy || len(d.ID) > 63 || strings.ContainsAny(d.ID, "/ ") {
			t.Errorf("device %v", d)
		}
		seen[d.ID] = true
	}
	if len(seen) != n {
		t.Errorf("%d distinct IDs, want %d", len(seen), n)
	}
}

func BenchmarkListOf640(b *testing.B) {
	devices := manyGPUs(b, 64).Devices
	b.ReportAllocs()
	for b.Loop() {
		kubeletDevices(devices, partition.ResourceGPU)
	}
}
