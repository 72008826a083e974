package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// restartKubelet restarts kubelet, which rejects nobody.
func restartKubelet(n *node.Node, o kubelet.RestartOptions) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	rejections, err := n.Kubelet.Restart(ctx, o)
	if err != nil {
		n.Fatal(err)
	}
	for _, r := range rejections {
		n.Error(r)
	}
}

// Kubelet removes the sockets when it starts. The plugin registers again, what
// runs keeps what it has, and new pods are served.
func TestKubeletRestart(t *testing.T) {
	n := lab.Start(t, node.Options{})
	s := n.MustPlace(n.Pod("before", node.Slice("app", 1, 25, 16384)))
	ids := n.IDs(s, "app")
	for i := range 3 {
		restartKubelet(n, kubelet.RestartOptions{})
		n.WaitDevices("amd.com/gpu", 80)
		if diff := cmp.Diff(ids, n.IDs(s, "app")); diff != "" {
			t.Errorf("kubelet's IDs of the pod (-want +got):\n%s", diff)
		}
		n.CheckPlaced(n.Place(n.Pod(fmt.Sprintf("after-%d", i), node.Slice("app", 1, 25, 16384))))
	}
}

// Kubelet and the plugin restart in any order, while the other is away.
func TestKubeletAndPluginRestart(t *testing.T) {
	n := lab.Start(t, node.Options{})
	s := n.MustPlace(n.Pod("before", node.Slice("app", 1, 25, 16384)))
	n.StopPlugin()
	if total, healthy := n.Kubelet.Capacity("amd.com/gpu"); total != 80 || healthy != 0 {
		t.Errorf("without the plugin kubelet has %d healthy of %d devices, want 0 of 80", healthy, total)
	}
	restartKubelet(n, kubelet.RestartOptions{})
	n.StartPlugin()
	n.CheckPlaced(n.Place(n.Pod("after", node.Slice("app", 1, 25, 16384))))

	// While kubelet is away the plugin starts and waits.
	n.KillPlugin()
	if err := n.Kubelet.Stop(); err != nil {
		t.Fatal(err)
	}
	n.LaunchPlugin()
	n.Eventually("the plugin waits for kubelet", func() error {
		if !strings.Contains(n.PluginLog(), "Waiting for kubelet") {
			return fmt.Errorf("it does not say so")
		}
		return nil
	})
	restartKubelet(n, kubelet.RestartOptions{BeforePods: func() error { n.WaitReady(); return nil }})
	n.CheckPlaced(n.Place(n.Pod("last", node.Slice("app", 1, 25, 16384))))
	if n.IDs(s, "app") == nil {
		t.Error("the first pod lost its devices")
	}
}

// C45: streams end in every way, and the plugin comes back each time, without
// leaving descriptors behind.
func TestC45StreamsEnd(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("pod", node.Slice("app", 1, 25, 16384)))
	before := descriptors(n)
	for i := range 20 {
		restartKubelet(n, kubelet.RestartOptions{})
		n.WaitDevices("amd.com/gpu", 80)
		if i%5 != 0 {
			continue
		}
		// Somebody registers the plugin's socket a second time: kubelet ends
		// the old stream, and by that drops the new one.
		if err := register(n, n.Sockets()[0]); err != nil {
			t.Error(err)
		}
		n.WaitDevices("amd.com/gpu", 80)
	}
	n.Eventually("descriptors are closed", func() error {
		if now := descriptors(n); now > before {
			return fmt.Errorf("%d are open, %d were", now, before)
		}
		return nil
	})
	n.CheckPlaced(n.Place(n.Pod("after", node.Slice("app", 1, 25, 16384))))
}

// descriptors is how many files the plugin has open.
func descriptors(n *node.Node) int {
	n.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.Plugin.PID()))
	if err != nil {
		n.Fatal(err)
	}
	return len(entries)
}

// register registers a socket for amd.com/gpu with kubelet.
func register(n *node.Node, socket string) error {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	_, err := pluginapi.NewRegistrationClient(dial(n, "kubelet.sock")).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: socket, ResourceName: "amd.com/gpu",
		Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

// dial connects to a socket in kubelet's folder for the time of the test.
func dial(n *node.Node, socket string) *grpc.ClientConn {
	n.Helper()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(kubelet.Folder, socket))
		}))
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { conn.Close() })
	return conn
}

// Kubelet aligns devices with NUMA nodes by what the plugin says of each, yet
// what a container gets are the GPUs that were granted, wherever they are.
func TestTopologyManager(t *testing.T) {
	n := lab.Start(t, node.Options{Topology: kubelet.Options{TopologyPolicy: "single-numa-node", NUMANodes: []int{0, 1}}})
	s := n.MustPlace(n.Pod("aligned", node.Slice("app", 2, 25, 16384)))
	numa := make(map[int]bool)
	for _, id := range n.IDs(s, "app") {
		for _, gpu := range n.Inventory().GPUs {
			if strings.HasPrefix(id, string(gpu.BDF)+"#") {
				numa[*gpu.NUMANode] = true
			}
		}
	}
	if len(numa) != 1 {
		t.Errorf("kubelet's IDs %q are on %d NUMA nodes, want one", n.IDs(s, "app"), len(numa))
	}
	n.Check()

	// Eight IDs are to be had on one node, eight GPUs are not.
	wide := n.MustPlace(n.Pod("wide", node.Slice("app", 8, 10, 1024)))
	if devices := wide.Containers["app"].Devices; len(devices) != 1+2*8 {
		t.Errorf("devices %v, want those of eight GPUs", devices)
	}
	n.Check()
}

// Kubelet rejects a pod that no NUMA node has enough devices for and does not
// ask the plugin, which releases the pod's lock all the same.
func TestTopologyManagerRejects(t *testing.T) {
	n := lab.Start(t, node.Options{
		Flags:    []string{"-split_count=1"},
		Topology: kubelet.Options{TopologyPolicy: "single-numa-node", NUMANodes: []int{0, 1}},
	})
	s, err := n.Place(n.Pod("apart", node.Slice("app", 8, 10, 1024)))
	var rejection *kubelet.Rejection
	if !errors.As(err, &rejection) || rejection.Reason != "TopologyAffinityError" {
		t.Fatalf("eight GPUs of one NUMA node: %v, want a TopologyAffinityError", err)
	}
	n.Settle()
	if phase := n.Notes(s.Pod)[annotations.BindPhaseKey]; phase == "success" {
		t.Errorf("bind phase %q of a pod that was rejected", phase)
	}
	n.CheckPlaced(n.Place(n.Pod("after", node.Slice("app", 4, 10, 1024))))
}
