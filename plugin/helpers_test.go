package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

var registerDefaults = partition.RegisterOptions{NodeName: "node-1"}

// stubAllocator stands in for the API server's side of the plugin.
type stubAllocator struct {
	allocate func(ctx context.Context, resource string, containers [][]string) (*pluginapi.AllocateResponse, error)
	pending  func(resource string, sizes []int) pending

	mu       sync.Mutex
	changes  []change
	starts   [][]string
	startErr error
	stopped  bool
}

type change struct{ prev, next *snapshot }

func (a *stubAllocator) Allocate(ctx context.Context, resource string, containers [][]string) (*pluginapi.AllocateResponse, error) {
	if a.allocate != nil {
		return a.allocate(ctx, resource, containers)
	}
	resp := &pluginapi.AllocateResponse{}
	for _, ids := range containers {
		resp.ContainerResponses = append(resp.ContainerResponses,
			&pluginapi.ContainerAllocateResponse{Envs: map[string]string{"IDS": strings.Join(ids, ",")}})
	}
	return resp, nil
}

func (a *stubAllocator) Pending(_ context.Context, resource string, sizes []int) pending {
	if a.pending != nil {
		return a.pending(resource, sizes)
	}
	return pending{}
}

func (a *stubAllocator) Starts(_ string, ids []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts = append(a.starts, ids)
	return a.startErr
}

func (a *stubAllocator) Run(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	return nil
}

func (a *stubAllocator) DevicesChanged(prev, next *snapshot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = append(a.changes, change{prev, next})
}

func (a *stubAllocator) changed() []change {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.changes)
}

// devFolder makes the device nodes of all GPUs of a sysfs, as plain files.
func devFolder(tb testing.TB, sysfs string) string {
	tb.Helper()
	inv, err := partition.Discover(sysfs)
	if err != nil {
		tb.Fatal(err)
	}
	dev := tb.TempDir()
	names := []string{"kfd"}
	for _, g := range inv.GPUs {
		if g.Card != nil {
			names = append(names, fmt.Sprintf("dri/card%d", *g.Card))
		}
		for _, n := range g.Nodes {
			names = append(names, fmt.Sprintf("dri/renderD%d", n.RenderMinor))
			if n.Card != nil {
				names = append(names, fmt.Sprintf("dri/card%d", *n.Card))
			}
		}
	}
	for _, name := range names {
		fixturetest.Write(tb, dev, name, "")
	}
	return dev
}

// machineConfig is the configuration of a plugin on a machine of testdata.
func machineConfig(tb testing.TB, machine string) Config {
	tb.Helper()
	sysfs := fixturetest.Machine(tb, machine)
	return Config{NodeName: "node-1", SysfsRoot: sysfs, DevRoot: devFolder(tb, sysfs),
		ExporterSocket: filepath.Join(tb.TempDir(), "none.socket")}
}

// impatient are times for tests.
func impatient() times {
	return times{poll: 50 * time.Millisecond, retryMin: time.Millisecond, retryMax: 20 * time.Millisecond,
		settled: time.Second, register: patience, drain: patience}
}

// startedPlugin is a plugin at work.
type startedPlugin struct {
	plugin *Plugin
	alloc  *stubAllocator
	stop   func() // ends it and waits
	logs   ktesting.Buffer
}

func nodeObject(name string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

// testLogger keeps what is logged, level 4 included.
func testLogger(tb testing.TB) (Deps, ktesting.Buffer) {
	log := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(4)))
	return Deps{Log: log}, log.GetSink().(ktesting.Underlier).GetBuffer()
}

// startPlugin starts a plugin with a stub for an allocator. It ends with the test.
func startPlugin(tb testing.TB, cfg Config, alloc *stubAllocator, annotations map[string]string) *startedPlugin {
	tb.Helper()
	deps, logs := testLogger(tb)
	r := &startedPlugin{alloc: alloc, logs: logs}
	deps.Client = newCannedServer(nodeObject(cfg.NodeName, annotations)).client(tb)
	var err error
	if r.plugin, err = New(cfg, deps); err != nil {
		tb.Fatal(err)
	}
	r.plugin.times = impatient()
	r.plugin.build = func(Config, Deps, snapshotSource) (allocator, error) { return alloc, nil }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var runErr error
	go func() {
		defer close(done)
		runErr = r.plugin.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if runErr != nil {
			tb.Error(runErr)
		}
	})
	tb.Cleanup(r.stop)
	return r
}

// machineSnapshot registers a machine of testdata.
func machineSnapshot(tb testing.TB, machine string, opts partition.RegisterOptions) *snapshot {
	tb.Helper()
	inv, err := partition.Discover(fixturetest.Machine(tb, machine))
	if err != nil {
		tb.Fatal(err)
	}
	reg, err := inv.Register(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return newSnapshot(reg.Devices, inv, opts.Mode, nil)
}

// countOf counts the lines of a log that contain a text.
func countOf(logs ktesting.Buffer, text string) int {
	n := 0
	for line := range strings.Lines(logs.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// quietLog is a logger for tests that do not look at the log.
func quietLog(tb testing.TB) klog.Logger {
	deps, _ := testLogger(tb)
	return deps.Log
}
