package plugin

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// The figures are logged: go test -v -run 'Figures|C34' ./plugin.

// One sliced pod with one container costs few calls to the API server,
// GetPreferredAllocation and PreStartContainer included.
func TestFiguresCalls(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("first", node.Slice("app", 1, 25, 16384)))
	pod := n.Bind(n.Pod("second", node.Slice("app", 1, 25, 16384)))
	n.Proxy.Reset()
	if _, err := n.Admit(pod); err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, c := range n.Proxy.Calls() {
		if !c.Watch {
			calls = append(calls, fmt.Sprintf("%s %s (%d bytes)", c.Method, strings.ReplaceAll(c.Path, n.Name, "NODE"), len(c.Body)))
		}
	}
	t.Logf("%d calls: %q", len(calls), calls)
	if len(calls) > 5 {
		t.Errorf("%d calls, want at most 5: %q", len(calls), calls)
	}
	n.Check()
}

// How long kubelet waits for the plugin, with the API server on the same machine.
func TestFiguresLatency(t *testing.T) {
	n := lab.Start(t, node.Options{Direct: true})
	for i := range 8 {
		n.MustPlace(n.Pod(fmt.Sprintf("running-%d", i), node.Slice("app", 1, 25, 16384)))
	}
	plugin := pluginapi.NewDevicePluginClient(dial(n, n.Sockets()[0]))
	var available []string
	for _, gpu := range n.Inventory().GPUs {
		for slot := 1; slot < 10; slot++ {
			available = append(available, fmt.Sprintf("%s#%d", gpu.BDF, slot))
		}
	}
	const pods = 200
	var preferred, allocate, both []time.Duration
	before := cpuTime(n)
	for i := range pods {
		pod := n.Bind(n.Pod(fmt.Sprintf("pod-%d", i), node.Slice("app", 1, 10, 1024)))
		start := time.Now()
		answer, err := plugin.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
			ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: available, AllocationSize: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		half := time.Now()
		_, err = plugin.Allocate(t.Context(), &pluginapi.AllocateRequest{
			ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: answer.ContainerResponses[0].DeviceIDs}},
		})
		if err != nil {
			t.Fatal(err)
		}
		preferred, allocate, both = append(preferred, half.Sub(start)), append(allocate, time.Since(half)), append(both, time.Since(start))
		n.Delete(pod)
	}
	t.Logf("CPU time of the plugin: %v for each pod", ((cpuTime(n) - before) / pods).Round(10*time.Microsecond))
	for _, f := range []struct {
		what  string
		times []time.Duration
	}{{"GetPreferredAllocation", preferred}, {"Allocate", allocate}, {"both", both}} {
		slices.Sort(f.times)
		t.Logf("%s of %d pods: min %v, median %v, p99 %v, max %v", f.what, len(f.times), f.times[0].Round(10*time.Microsecond),
			f.times[len(f.times)/2].Round(10*time.Microsecond), f.times[len(f.times)*99/100].Round(10*time.Microsecond), f.times[len(f.times)-1].Round(10*time.Microsecond))
	}
	n.Check()
}

// cpuTime is what the plugin's process has used, in the kernel too: fields 14 and
// 15 of proc_pid_stat(5), counted after the name in brackets.
func cpuTime(n *node.Node) (used time.Duration) {
	n.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Plugin.PID()))
	if err != nil {
		n.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			n.Fatal(err)
		}
		used += time.Duration(ticks) * (time.Second / 100) // USER_HZ, 100 wherever Go runs
	}
	return used
}

// memory is a line of proc_pid_status(5), such as VmRSS.
func memory(n *node.Node, key string) string {
	n.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Plugin.PID()))
	if err != nil {
		n.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + key + `:\s+(.*)$`).FindSubmatch(data)
	if found == nil {
		n.Fatalf("no %s in the status of the plugin's process", key)
	}
	return string(found[1])
}

// firstList is the first message of a ListAndWatch stream of its own.
func firstList(n *node.Node) *pluginapi.ListAndWatchResponse {
	n.Helper()
	ctx, cancel := context.WithCancel(n.Context())
	defer cancel()
	stream, err := pluginapi.NewDevicePluginClient(dial(n, n.Sockets()[0])).ListAndWatch(ctx, &pluginapi.Empty{})
	if err != nil {
		n.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		n.Fatal(err)
	}
	return list
}

// C34: as many devices as there are reach kubelet, in a message that gRPC takes.
func TestC34ManyDevices(t *testing.T) {
	for name, tt := range map[string]struct {
		o    node.Options
		want int
	}{
		"80 shares of 8 GPUs":          {want: 80},
		"64 partitions":                {o: partitionMode("mi300x-cpx-8", 64), want: 64},
		"640 shares, 80 of each GPU":   {o: node.Options{Flags: []string{"-split_count=80"}}, want: 640},
		"32 partitions of 2 XCCs each": {o: partitionMode("mi355x-qpx-8", 32), want: 32},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, tt.o)
			n.WaitDevices("amd.com/gpu", int64(tt.want))
			if got := n.Sockets(); len(got) != 1 {
				t.Errorf("sockets %q, want one", got)
			}
			list := firstList(n)
			seen := make(map[string]bool)
			for _, d := range list.Devices {
				if seen[d.ID] || d.Health != pluginapi.Healthy || len(d.GetTopology().GetNodes()) != 1 {
					t.Errorf("device %v", d)
				}
				seen[d.ID] = true
			}
			if len(seen) != tt.want {
				t.Errorf("%d devices, want %d", len(seen), tt.want)
			}
			size := proto.Size(list)
			if size >= 4<<20 {
				t.Errorf("the message has %d bytes, gRPC takes 4 MiB", size)
			}
			t.Logf("ListAndWatch message: %d bytes; register annotation: %d bytes", size, len(n.Object().Annotations["hami.io/node-amd-register"]))
			t.Logf("idle plugin: VmRSS %s, of it RssAnon %s; VmHWM %s", memory(n, "VmRSS"), memory(n, "RssAnon"), memory(n, "VmHWM"))
		})
	}
}
