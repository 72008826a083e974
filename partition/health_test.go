package partition

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// devFolder makes the device nodes of an inventory, as plain files.
func devFolder(t *testing.T, inv *Inventory) string {
	t.Helper()
	dev := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dev, "dri"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"kfd"}
	for _, g := range inv.GPUs {
		for _, n := range g.Nodes {
			names = append(names, renderNode(n.RenderMinor), cardNode(*n.Card))
		}
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dev
}

func TestHealthOfDeviceNodes(t *testing.T) {
	inv := machine(mi300x, 2, QPX, "nps1") // render minors 128 to 131 and 136 to 139
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dev string) {
			if err := os.Remove(filepath.Join(dev, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fails := func(minor int, err error) func(string, string) error {
		return func(_, name string) error {
			if name == renderNode(minor) {
				return &os.PathError{Op: "openat", Path: name, Err: err}
			}
			return nil
		}
	}
	nothing := func(*testing.T, string) {}
	tests := map[string]struct {
		prepare func(*testing.T, string)
		open    func(dev, name string) error
		gpus    map[BDF]string
		minors  map[int]string
		notes   []string
	}{
		"all there":                         {prepare: nothing},
		"a render node is missing":          {prepare: remove("dri/renderD137"), minors: map[int]string{137: "opening DEV/dri/renderD137: no such file or directory"}},
		"the card of a GPU is missing":      {prepare: remove("dri/card0"), gpus: map[BDF]string{"0000:05:00.0": "DEV/dri/card0 does not exist"}, minors: map[int]string{128: "DEV/dri/card0 does not exist"}},
		"the card of a partition":           {prepare: remove("dri/card2"), minors: map[int]string{130: "DEV/dri/card2 does not exist"}},
		"no KFD":                            {prepare: remove("kfd"), gpus: map[BDF]string{"0000:05:00.0": "DEV/kfd does not exist", "0000:15:00.0": "DEV/kfd does not exist"}},
		"a fatal memory error":              {prepare: nothing, open: fails(128, syscall.Errno(133)), minors: map[int]string{128: "opening DEV/dri/renderD128: amdgpu disabled the GPU after a fatal memory error"}},
		"off the bus":                       {prepare: nothing, open: fails(128, syscall.ENODEV), minors: map[int]string{128: "opening DEV/dri/renderD128: no such device"}},
		"an odd error":                      {prepare: nothing, open: fails(128, os.ErrInvalid), minors: map[int]string{128: "opening DEV/dri/renderD128: openat dri/renderD128: invalid argument"}},
		"the checker may not open it":       {prepare: nothing, open: fails(128, syscall.EACCES), notes: []string{"opening DEV/dri/renderD128: permission denied: this says nothing about the GPU"}},
		"a device cgroup forbids it":        {prepare: nothing, open: fails(128, syscall.EPERM), notes: []string{"opening DEV/dri/renderD128: operation not permitted: this says nothing about the GPU"}},
		"the checker is out of descriptors": {prepare: nothing, open: fails(128, syscall.EMFILE), notes: []string{"opening DEV/dri/renderD128: too many open files: this says nothing about the GPU"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dev := devFolder(t, inv)
			test.prepare(t, dev)
			h := &HealthChecker{Dev: dev, open: test.open}
			got := h.Check(t.Context(), inv)
			for k := range got.RenderMinors {
				got.RenderMinors[k] = strings.ReplaceAll(got.RenderMinors[k], dev, "DEV")
			}
			for k := range got.GPUs {
				got.GPUs[k] = strings.ReplaceAll(got.GPUs[k], dev, "DEV")
			}
			for i := range got.Notes {
				got.Notes[i] = strings.ReplaceAll(got.Notes[i], dev, "DEV")
			}
			want := Health{GPUs: map[BDF]string{}, RenderMinors: map[int]string{}, Notes: test.notes}
			if test.gpus != nil {
				want.GPUs = test.gpus
			}
			if test.minors != nil {
				want.RenderMinors = test.minors
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

// /dev/kfd and the cards are never opened: a FIFO in their place would tell.
func TestHealthOpensRenderNodesOnly(t *testing.T) {
	inv := machine(mi300x, 1, SPX, "nps1")
	dev := devFolder(t, inv)
	var opened []string
	h := &HealthChecker{Dev: dev, open: func(_, name string) error { opened = append(opened, name); return nil }}
	h.Check(t.Context(), inv)
	if diff := cmp.Diff([]string{"dri/renderD128"}, opened); diff != "" {
		t.Error(diff)
	}
	// The real open does not wait for the other end of a pipe.
	if err := os.Remove(filepath.Join(dev, "dri/renderD128")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dev, "dri/renderD128"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := (&HealthChecker{Dev: dev}).Check(t.Context(), inv); len(got.RenderMinors) != 0 {
		t.Errorf("%v", got.RenderMinors)
	}
}

// A GPU that hangs in open is unhealthy after the timeout, is not opened a
// second time meanwhile, and is healthy once the open returns.
func TestHealthOfAHangingGPU(t *testing.T) {
	inv := machine(mi300x, 2, SPX, "nps1")
	var mu sync.Mutex
	opens := map[string]int{}
	release := make(chan struct{})
	h := &HealthChecker{Dev: devFolder(t, inv), Timeout: time.Millisecond}
	h.open = func(_, name string) error {
		mu.Lock()
		opens[name]++
		mu.Unlock()
		if name == renderNode(136) {
			<-release
		}
		return nil
	}
	for range 3 {
		got := h.Check(t.Context(), inv)
		if why := got.RenderMinors[136]; !strings.HasSuffix(why, "renderD136 did not return within 1ms") {
			t.Errorf("reason %q", why)
		}
	}
	mu.Lock()
	if opens[renderNode(136)] != 1 || opens[renderNode(128)] < 1 {
		t.Errorf("opens: %v", opens)
	}
	mu.Unlock()
	close(release)
	h.Timeout = time.Minute
	if got := h.Check(t.Context(), inv); len(got.RenderMinors) != 0 {
		t.Errorf("after it returned: %v", got.RenderMinors)
	}
}

func TestHealthCheckCancelledSaysNothing(t *testing.T) {
	inv := machine(mi300x, 1, SPX, "nps1")
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	h := &HealthChecker{Dev: devFolder(t, inv), open: func(string, string) error { cancel(); <-release; return nil }}
	got := h.Check(ctx, inv)
	if len(got.GPUs)+len(got.RenderMinors) != 0 || len(got.Notes) != 1 || !strings.HasSuffix(got.Notes[0], "renderD128: context canceled") {
		t.Errorf("%+v", got)
	}
}

func TestHealthCheckerIsSafeForConcurrentUse(t *testing.T) {
	inv := machine(mi300x, 8, CPX, "nps1")
	h := &HealthChecker{Dev: devFolder(t, inv)}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if got := h.Check(t.Context(), inv); len(got.GPUs)+len(got.RenderMinors)+len(got.Notes) != 0 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	wg.Wait()
}

// What a check found is what registers: one partition, or the whole GPU.
func TestHealthInRegistration(t *testing.T) {
	inv := machine(mi300x, 2, QPX, "nps1")
	found := Health{
		GPUs:         map[BDF]string{"0000:15:00.0": "ECC errors"},
		RenderMinors: map[int]string{130: "opening failed", 136: "", 999: "no such device here"},
	}
	reasons := func(opts RegisterOptions) map[string]string {
		opts.Unhealthy, opts.UnhealthyRenderMinors = found.GPUs, found.RenderMinors
		out := map[string]string{}
		for _, d := range mustRegister(t, inv, opts) {
			if !d.Health {
				out[d.KubeletIDs[0]] = d.Unhealthy
			}
		}
		return out
	}
	want := map[string]string{"0000:05:00.0-p2": "opening failed"}
	for k := range 4 {
		want[fmt.Sprintf("0000:15:00.0-p%d", k)] = "ECC errors"
	}
	if diff := cmp.Diff(want, reasons(RegisterOptions{Mode: ModePartition})); diff != "" {
		t.Errorf("partition mode (-want +got):\n%s", diff)
	}

	inv = machine(mi300x, 3, SPX, "nps1")
	inv.GPUs[0].Nodes[0].RenderMinor = 130
	found.GPUs["0000:25:00.0"] = ""
	want = map[string]string{"0000:05:00.0#0": "opening failed", "0000:15:00.0#0": "ECC errors", "0000:25:00.0#0": "a health check failed"}
	if diff := cmp.Diff(want, reasons(RegisterOptions{})); diff != "" {
		t.Errorf("cu mode (-want +got):\n%s", diff)
	}
}
