package crash

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// TestBinarySize builds the plugin the plain way: at most 45 MB.
func TestBinarySize(t *testing.T) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/Project-HAMi/hami-amd").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "deviceplugin")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./examples/deviceplugin")
	build.Dir = strings.TrimSpace(string(root))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if file.Size() > 45_000_000 {
		t.Errorf("the binary has %d bytes", file.Size())
	}
	image, err := os.Stat(lab.Binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binary: %.1f MB, with -tags grpcnotrace, as in the image: %.1f MB", float64(file.Size())/1e6, float64(image.Size())/1e6)
}

// TestCallsAndLatency counts what a pod with one slice costs: at most five calls
// to the API server, GetPreferredAllocation included.
func TestCallsAndLatency(t *testing.T) {
	n := lab.Start(t, node.Options{})
	const pods = 40
	var took, server []time.Duration
	for i := range pods {
		pod := n.Bind(n.Pod(fmt.Sprintf("p-%d", i), node.Slice("app", 1, 10, 4096)))
		n.Proxy.Reset()
		before := time.Now()
		if err := admit(n, pod); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(before))
		var calls []string
		var waited time.Duration
		for _, c := range n.Proxy.Calls() {
			if kind := kindOf(c); kind != "" {
				calls = append(calls, kind)
				waited += c.Took
			}
		}
		server = append(server, waited)
		// The plugin looks at the node every now and then too.
		if len(calls) > 5+1 {
			t.Errorf("pod %d cost %d calls: %q", i, len(calls), calls)
		}
		if i == pods-1 {
			t.Logf("calls: %q", calls)
		}
		check(n, pod, nil)
	}
	slices.Sort(took)
	slices.Sort(server)
	t.Logf("kubelet's admission of a pod with one slice, with up to %d others on the node: median %v, 9 of 10 within %v, longest %v; the API server's part: median %v",
		pods-1, took[pods/2], took[pods*9/10], took[pods-1], server[pods/2])
	u := usageOf(t, n.Plugin.PID())
	t.Logf("8 GPUs, %d pods: %.1f MiB resident, %d descriptors", pods, float64(u.resident)/(1<<20), u.descriptors)
}

// TestListSizes measures what kubelet is sent at each change of a device.
func TestListSizes(t *testing.T) {
	for name, test := range map[string]struct {
		o    node.Options
		want int
	}{
		"64 partitions": {node.Options{Machine: "mi300x-cpx-8", Env: map[string]string{"OPERATING_MODE": "partition"}}, 64},
		"640 shares":    {node.Options{Flags: []string{"-split_count=80"}}, 640},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, test.o)
			// The stream of a second client: the plugin ends it with its own.
			conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(kubelet.Folder, n.Sockets()[0]))
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := n.Timeout()
			defer cancel()
			stream, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(ctx, &pluginapi.Empty{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			size := proto.Size(list)
			if len(list.Devices) != test.want || size > 4<<20 {
				t.Errorf("%d devices in %d bytes, want %d in less than gRPC's 4 MiB", len(list.Devices), size, test.want)
			}
			u := usageOf(t, n.Plugin.PID())
			annotation := len(n.Object().Annotations["hami.io/node-amd-register"])
			t.Logf("%s: ListAndWatch %d bytes, register annotation %d bytes, %.1f MiB resident", name, size, annotation, float64(u.resident)/(1<<20))
		})
	}
}
