package plugin_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/plugin"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// A plugin of your own, under HAMi.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	client, err := plugin.NewClient("") // or CoreV1().RESTClient() of a clientset
	if err != nil {
		log.Fatal(err)
	}
	p, err := plugin.New(plugin.Config{
		NodeName:   os.Getenv("NODE_NAME"),
		SplitCount: 4,
		Pulse:      10 * time.Second,
	}, plugin.Deps{Client: client, Log: klog.Background()})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A node without HAMi and without an API server, as kubelet sees it. The node
// is a recorded machine in a temporary folder.
func Example_standalone() {
	dir, err := fixture.MkdirTemp()
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	machine, err := testdata.Machine("mi300x-spx-8")
	if err != nil {
		log.Fatal(err)
	}
	if err := fixture.Unpack(machine, dir); err != nil {
		log.Fatal(err)
	}
	sockets := filepath.Join(dir, "kubelet", "device-plugins")
	if err := os.MkdirAll(sockets, 0o755); err != nil {
		log.Fatal(err)
	}

	p, err := plugin.New(plugin.Config{
		Standalone: true, SysfsRoot: filepath.Join(dir, "sys"), KubeletDir: filepath.Join(dir, "kubelet"),
	}, plugin.Deps{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()

	kubelet, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(sockets, "amd.com_gpu.sock"))
		}))
	if err != nil {
		log.Fatal(err)
	}
	api := pluginapi.NewDevicePluginClient(kubelet)
	stream, err := api.ListAndWatch(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.Devices), "devices, the first is", list.Devices[0].ID, list.Devices[0].Health)
	answer, err := api.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{list.Devices[0].ID}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, device := range answer.ContainerResponses[0].Devices {
		fmt.Println(device.HostPath)
	}
	stop()
	fmt.Println("ended with", <-ended, kubelet.Close())
	// Output:
	// 8 devices, the first is 0000:05:00.0#0 Healthy
	// /dev/kfd
	// /dev/dri/card1
	// /dev/dri/renderD128
	// ended with <nil> <nil>
}

// The README shows the first example as it is here, and links to what exists.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(readme), "```go\n")
	code, _, ok2 := strings.Cut(code, "```")
	if !ok || !ok2 {
		t.Fatal("the README shows no Go")
	}
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "\t" + line
		}
	}
	if !strings.Contains(string(source), strings.Join(lines, "\n")) {
		t.Errorf("the README's Go is not that of the example:\n%s", code)
	}
	var links []string
	for _, part := range strings.Split(string(readme), "](")[1:] {
		target, _, _ := strings.Cut(part, ")")
		if strings.Contains(target, "://") {
			continue
		}
		target, _, _ = strings.Cut(target, "#")
		links = append(links, target)
		if _, err := os.Stat(target); err != nil {
			t.Errorf("a link to %s: %v", target, err)
		}
	}
	if !slices.Contains(links, "../examples/deviceplugin") {
		t.Errorf("links %q", links)
	}
}
