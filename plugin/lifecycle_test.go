package plugin

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestRegistersOnceAndServes(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi300x-spx-8")
	cfg.KubeletDir = k.root()
	r := startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 80)
	want := &pluginapi.RegisterRequest{Version: "v1beta1", Endpoint: "amd.com_gpu.sock", ResourceName: partition.ResourceGPU,
		Options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true, PreStartRequired: true}}
	k.mu.Lock()
	got := k.requests
	k.mu.Unlock()
	if len(got) != 1 || got[0].String() != want.String() {
		t.Errorf("registrations %v, want one: %v", got, want)
	}
	resp, err := k.client(partition.ResourceGPU).api.Allocate(t.Context(), &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"a", "b"}}, {DevicesIds: []string{"c"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range resp.ContainerResponses {
		ids = append(ids, c.Envs["IDS"])
	}
	if diff := cmp.Diff([]string{"a,b", "c"}, ids); diff != "" {
		t.Error(diff)
	}
	r.stop()
	if _, err := os.Lstat(filepath.Join(k.dir, "amd.com_gpu.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
}

func TestAllocateErrorReachesKubeletAndTheLog(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	r := startPlugin(t, cfg, &stubAllocator{allocate: func(context.Context, string, [][]string) (*pluginapi.AllocateResponse, error) {
		return nil, errors.New("no node lock")
	}}, nil)
	k.devices(partition.ResourceGPU, 10)
	_, err := k.client(partition.ResourceGPU).api.Allocate(t.Context(), &pluginapi.AllocateRequest{})
	if err == nil || err.Error() != "rpc error: code = Unknown desc = no node lock" {
		t.Errorf("error %v", err)
	}
	eventually(t, "the log has it", func() bool { return countOf(r.logs, "no node lock") == 1 })
}

func TestKubeletComesLate(t *testing.T) {
	k := newFakeKubelet(t)
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	r := startPlugin(t, cfg, &stubAllocator{}, nil)
	eventually(t, "the plugin waits", func() bool { return countOf(r.logs, "Waiting for kubelet") > 0 })
	k.start()
	k.devices(partition.ResourceGPU, 10)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestKubeletFolderComesLateAndIsReplaced(t *testing.T) {
	k := newFakeKubelet(t)
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	if err := os.Remove(k.dir); err != nil {
		t.Fatal(err)
	}
	r := startPlugin(t, cfg, &stubAllocator{}, nil)
	eventually(t, "the plugin complains", func() bool { return countOf(r.logs, "Serving kubelet failed") > 0 })
	for range 3 {
		if err := os.Mkdir(k.dir, 0o750); err != nil {
			t.Fatal(err)
		}
		k.start()
		k.devices(partition.ResourceGPU, 10)
		k.stop()
		eventually(t, "the folder is empty for a moment", func() bool { return os.RemoveAll(k.dir) == nil })
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	path := filepath.Join(k.dir, "amd.com_gpu.sock")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	if !exists(path) {
		t.Fatal("no stale socket")
	}
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 10)
}

// A restarted kubelet has removed the plugin's socket and knows no plugin.
func TestKubeletRestart(t *testing.T) {
	k := newFakeKubelet(t)
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	startPlugin(t, cfg, &stubAllocator{}, nil)
	for range 5 {
		k.start()
		k.devices(partition.ResourceGPU, 10)
		k.stop()
	}
}

// Somebody cleans the folder while kubelet runs on: the plugin would never be
// reached again if kubelet reconnected.
func TestRemovedSocketIsMadeAnew(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 10)
	path := filepath.Join(k.dir, "amd.com_gpu.sock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	k.until("a second registration", func() bool { return len(k.requests) >= 2 })
	k.devices(partition.ResourceGPU, 10)
	if !exists(path) {
		t.Error("no socket")
	}
}

func TestSecondPluginKeepsItsSocket(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	first := startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 10)
	// The next version takes the place of the socket while the first one ends.
	path := filepath.Join(k.dir, "amd.com_gpu.sock")
	first.stop()
	other, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	second, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	if !exists(path) {
		t.Error("the end of one server removed the socket of another")
	}
	second.Close()
}

// A newer plugin, or another one with the same socket, takes over; the older one
// does not fight for it, and is there when it has gone, cleanly or not.
func TestNewerPluginTakesOver(t *testing.T) {
	for name, end := range map[string]func(second *startedPlugin, path string){
		"ends": func(second *startedPlugin, _ string) { second.stop() },
		"dies": func(second *startedPlugin, path string) {
			second.stop()
			left := filepath.Join(filepath.Dir(path), "left.sock")
			dead, err := listen(left)
			if err != nil {
				t.Fatal(err)
			}
			dead.Close() // the file stays
			if err := os.Rename(left, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKubelet(t)
			k.start()
			cfg := machineConfig(t, "rx7900xtx")
			cfg.KubeletDir = k.root()
			first := startPlugin(t, cfg, &stubAllocator{}, nil)
			k.devices(partition.ResourceGPU, 10)
			second := startPlugin(t, cfg, &stubAllocator{}, nil)
			eventually(t, "the first stands by", func() bool { return countOf(first.logs, "standing by") == 1 })
			eventually(t, "the second is registered", func() bool { return countOf(second.logs, "Registered with kubelet") > 0 })
			k.devices(partition.ResourceGPU, 10)
			before := countOf(first.logs, "Registered with kubelet")
			end(second, filepath.Join(k.dir, "amd.com_gpu.sock"))
			eventually(t, "the first registers again", func() bool { return countOf(first.logs, "Registered with kubelet") > before })
			k.devices(partition.ResourceGPU, 10)
			if n := countOf(first.logs, "standing by"); n != 1 {
				t.Errorf("the first stood by %d times", n)
			}
		})
	}
}

func TestTooLongSocketPathIsAnError(t *testing.T) {
	long := filepath.Join(t.TempDir(), string(make([]byte, 200)))
	if _, err := listen(long); err == nil {
		t.Error("no error")
	}
	name := filepath.Join("/", string(repeat('a', 106)), "b")
	_, err := listen(name)
	if want := `socket path "` + name + `": want at most 107 bytes, found 109`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func repeat(b byte, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = b
	}
	return out
}

// Kubelet ends the stream and stays: the plugin registers again, and neither
// goroutines nor descriptors are left behind.
func TestC45StreamEndsAndPluginRegistersAgain(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	r := startPlugin(t, cfg, &stubAllocator{}, nil)
	cycle := func() {
		k.devices(partition.ResourceGPU, 10)
		c := k.client(partition.ResourceGPU)
		if c == nil {
			return // the last one is just ending
		}
		c.cancel()
		k.until("the stream has ended", func() bool { return c.ended })
	}
	cycle()
	k.devices(partition.ResourceGPU, 10)
	goroutines, fds := runtime.NumGoroutine(), descriptors(t)
	for range 20 {
		cycle()
	}
	k.devices(partition.ResourceGPU, 10)
	eventually(t, "no goroutine is left over", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "no descriptor is left over", func() bool { return descriptors(t) <= fds })
	if n := len(k.registered()); n < 21 {
		t.Errorf("%d registrations", n)
	}
	r.stop()
}

// A whole plugin's life leaves nothing behind, twenty times.
func TestC45StartAndStopLeakNothing(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi300x-cpx-8")
	cfg.KubeletDir, cfg.OperatingMode, cfg.Naming = k.root(), "partition", "mixed"
	cfg.CDISpecDir = t.TempDir()
	var goroutines, fds int
	for i := range 21 {
		r := startPlugin(t, cfg, &stubAllocator{}, nil)
		k.devices("amd.com/cpx_nps1", 64)
		r.stop()
		k.until("kubelet has seen the end", func() bool { return len(k.clients) == 0 })
		if !r.alloc.stopped {
			t.Fatal("the allocator is still running")
		}
		if i == 0 {
			goroutines, fds = runtime.NumGoroutine(), descriptors(t)
		}
	}
	eventually(t, "no goroutine is left over", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "no descriptor is left over", func() bool { return descriptors(t) <= fds })
}

func TestStopLetsAllocateFinish(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir = k.root()
	began, release := make(chan struct{}), make(chan struct{})
	alloc := &stubAllocator{}
	alloc.allocate = func(ctx context.Context, _ string, _ [][]string) (*pluginapi.AllocateResponse, error) {
		close(began)
		<-release
		alloc.mu.Lock()
		defer alloc.mu.Unlock()
		if alloc.stopped {
			return nil, errors.New("the allocator was stopped first")
		}
		return &pluginapi.AllocateResponse{}, ctx.Err()
	}
	r := startPlugin(t, cfg, alloc, nil)
	k.devices(partition.ResourceGPU, 10)
	c := k.client(partition.ResourceGPU)
	answer := make(chan error, 1)
	go func() {
		_, err := c.api.Allocate(context.Background(), &pluginapi.AllocateRequest{})
		answer <- err
	}()
	<-began
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	// The fake kubelet closes the connection with the stream, as the real one
	// does, and its caller would see a cancelled call. Time for a plugin that
	// ends the stream first to show it.
	time.Sleep(20 * time.Millisecond)
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	<-stopped
	k.until("the stream ends", func() bool { return c.ended })
}

func TestMixedNamingHasOneServerPerResource(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi300x-cpx-8")
	cfg.KubeletDir, cfg.OperatingMode, cfg.Naming = k.root(), "partition", "mixed"
	startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices("amd.com/cpx_nps1", 64)
	k.devices(partition.ResourceGPU, 0) // of an earlier run kubelet may remember some
	if diff := cmp.Diff([]string{"amd.com/cpx_nps1", partition.ResourceGPU}, k.registered()); diff != "" {
		t.Error(diff)
	}
}

func TestNoGPUAtAllIsAnEmptyList(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"none there":       func(c *Config) { c.SysfsRoot = fixturetest.Machine(t, "empty") },
		"all are excluded": func(c *Config) { c.ExcludeGPUs = []string{"0000:03:00.0"} },
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKubelet(t)
			k.start()
			cfg := machineConfig(t, "rx7900xtx")
			cfg.KubeletDir = k.root()
			change(&cfg)
			r := startPlugin(t, cfg, &stubAllocator{}, nil)
			k.devices(partition.ResourceGPU, 0)
			r.stop()
		})
	}
}
