package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestLayOut(t *testing.T) {
	for machine, want := range map[string]struct{ gpus, files int }{
		"mi300x-spx-8": {gpus: 8, files: 1 + 8*2},
		"mi355x-qpx-8": {gpus: 8, files: 1 + 8*4*2}, // a card and a render node for each partition
		"empty":        {gpus: 0, files: 1},
	} {
		t.Run(machine, func(t *testing.T) {
			n, err := layOut(filepath.Join(t.TempDir(), "node"), machine)
			if err != nil {
				t.Fatal(err)
			}
			inventory, err := partition.Discover(n.sysfs())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(inventory.GPUs); got != want.gpus {
				t.Errorf("%d GPUs, want %d", got, want.gpus)
			}
			checker := partition.HealthChecker{Dev: n.dev()}
			health := checker.Check(t.Context(), inventory)
			if len(health.GPUs)+len(health.RenderMinors)+len(health.Notes) > 0 {
				t.Errorf("not healthy: %v", health)
			}
			if got := len(deviceFiles(inventory)); got != want.files {
				t.Errorf("%d device files, want %d", got, want.files)
			}
			if _, err := hook.InspectFile(n.library()); err != nil {
				t.Error(err)
			}
			command := n.command("/tmp/kc")
			for _, value := range []string{n.sysfs(), n.dev(), n.cgroup(), n.kubelet(), n.hook(), "/tmp/kc"} {
				if !strings.Contains(command, "="+value) {
					t.Errorf("%s is not in the command %s", value, command)
				}
			}
			if alone := n.command(""); !strings.Contains(alone, " -standalone ") || strings.Contains(alone, "kubeconfig") {
				t.Errorf("without an API server: %s", alone)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	there := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no machine":           {[]string{"-dir", "node"}, 2, "machines: "},
		"no directory":         {[]string{"mi300x-spx-8"}, 2, "machines: "},
		"an unknown flag":      {[]string{"-kubelet", "x"}, 2, "machines: "},
		"an unknown machine":   {[]string{"-dir", filepath.Join(there, "node"), "mi999"}, 1, `localnode: machine "mi999": want one of `},
		"a directory in use":   {[]string{"-dir", there, "empty"}, 1, "file exists"},
		"no such kubeconfig":   {[]string{"-dir", filepath.Join(there, "node"), "-kubeconfig", filepath.Join(there, "kc"), "empty"}, 1, "kubeconfig "},
		"a path for no socket": {[]string{"-dir", filepath.Join(there, strings.Repeat("x", 100)), "empty"}, 1, "choose a shorter directory"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), test.args, &stdout, &stderr); code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			if !strings.Contains(stderr.String(), test.want) {
				t.Errorf("%q, want %q in it", stderr.String(), test.want)
			}
		})
	}
}

// lines collects what is written, and tells when a line is there.
type lines struct {
	mu   sync.Mutex
	text string
	more chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	select {
	case l.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	for {
		l.mu.Lock()
		text := l.text
		l.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-l.more:
		case <-t.Context().Done():
			t.Fatalf("no %q in %q", want, text)
		}
	}
}

// fakePlugin lists what comes out of a channel, until it is closed.
type fakePlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	lists chan []*pluginapi.Device
}

func (p *fakePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p *fakePlugin) ListAndWatch(_ *pluginapi.Empty, s grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for devices := range p.lists {
		if err := s.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
	}
	return nil
}

func TestKubeletSaysWhatPluginsRegister(t *testing.T) {
	dir, err := os.MkdirTemp("", "k") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	out := &lines{more: make(chan struct{}, 1)}
	k, err := listen(dir, nil, out)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.serve(ctx) }()

	l, err := net.Listen("unix", filepath.Join(dir, "amd.com_gpu.sock"))
	if err != nil {
		t.Fatal(err)
	}
	p := &fakePlugin{lists: make(chan []*pluginapi.Device)}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	go server.Serve(l)
	t.Cleanup(server.Stop)

	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	registration := pluginapi.NewRegistrationClient(conn)
	request := &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: "amd.com_gpu.sock", ResourceName: "amd.com/gpu"}
	if _, err := registration.Register(ctx, request); err != nil {
		t.Fatal(err)
	}
	p.lists <- []*pluginapi.Device{{ID: "a#0", Health: "Healthy"}, {ID: "a#1", Health: "Healthy"}}
	out.wait(t, "2 devices, 2 of them healthy\n")
	p.lists <- []*pluginapi.Device{{ID: "a#0", Health: "Unhealthy"}, {ID: "a#1", Health: "Healthy"}}
	out.wait(t, "2 devices, 1 of them healthy\n")
	close(p.lists)
	out.wait(t, "gone\n")

	for name, r := range map[string]*pluginapi.RegisterRequest{
		"another version":  {Version: "v1alpha", Endpoint: request.Endpoint, ResourceName: "amd.com/gpu"},
		"a path elsewhere": {Version: pluginapi.Version, Endpoint: "../x.sock", ResourceName: "amd.com/gpu"},
		"nobody behind it": {Version: pluginapi.Version, Endpoint: "x.sock", ResourceName: "amd.com/gpu"},
	} {
		if _, err := registration.Register(ctx, r); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := `amd.com/gpu registered by amd.com_gpu.sock
amd.com/gpu: 2 devices, 2 of them healthy
amd.com/gpu: 2 devices, 1 of them healthy
amd.com/gpu is gone
`
	if diff := cmp.Diff(want, out.text); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}
