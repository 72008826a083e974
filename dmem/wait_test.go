package dmem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
)

// soon bounds a wait that should end by itself long before.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// short is a deadline that a wait is meant to reach.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

var onePod = PodCaps{pod, []Cap{{gpuA, 16384 * mib}}}

// The pod's cgroup appears in one of many ways after the wait has begun.
func TestCapPodWaits(t *testing.T) {
	const kind = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"
	tests := map[string]struct {
		dir   string
		start func(k *dmemtest.Kernel) error
	}{
		"the cgroup is made with its files": {podDir, func(k *dmemtest.Kernel) error {
			return errors.Join(k.Delegate("kubepods.slice/kubepods-burstable.slice"), k.Mkdir(podDir))
		}},
		"the controller is enabled after the cgroup is made": {podDir, func(k *dmemtest.Kernel) error {
			return errors.Join(k.Mkdir(podDir), k.Delegate(podDir))
		}},
		"nobody enables the controller": {podDir, func(k *dmemtest.Kernel) error { return k.Mkdir(podDir) }},
		"kubelet makes its slices only now": {"kubepods/burstable/pod" + podUID, func(k *dmemtest.Kernel) error {
			return k.Mkdir("kubepods/burstable/pod" + podUID)
		}},
		"a kubelet with a cgroup root of its own": {kind, func(k *dmemtest.Kernel) error { return k.Mkdir(kind) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, tree := node(t, dmemtest.Options{})
			must(t, k.Mkdir("kubelet.slice/kubelet-kubepods.slice"))
			done := make(chan error)
			go func() { done <- tree.CapPod(soon(t), onePod) }()
			time.Sleep(10 * time.Millisecond)
			must(t, tt.start(k))
			must(t, <-done)
			if got := content(t, k, tt.dir+"/dmem.max"); !strings.HasPrefix(got, gpuA+" 17179869184\n") {
				t.Errorf("dmem.max = %q", got)
			}
		})
	}
}

// C37: while more is in use than the limit it is tried again, and the limit
// holds once the memory is freed.
func TestC37RetriesUntilMemoryIsFreed(t *testing.T) {
	for name, below := range map[string]dmemtest.Below{"ignored": dmemtest.Ignore, "EBUSY": dmemtest.Refuse} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int32
			var k *dmemtest.Kernel
			k, tree := nodeWithPod(t, dmemtest.Options{Below: below, OnWrite: func(string, string) error {
				if writes.Add(1) == 2 {
					return k.Charge(podDir, gpuA, -20000*mib)
				}
				return nil
			}})
			must(t, k.Charge(podDir, gpuA, 20000*mib))
			must(t, tree.CapPod(soon(t), onePod))
			if got := content(t, k, podDir+"/dmem.max"); !strings.HasPrefix(got, gpuA+" 17179869184\n") {
				t.Errorf("dmem.max = %q", got)
			}
		})
	}
}

func TestCapPodDeadline(t *testing.T) {
	t.Run("the cgroup never appears", func(t *testing.T) {
		_, tree := node(t, dmemtest.Options{})
		err := tree.CapPod(short(t), onePod)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNoCgroup) || !strings.Contains(err.Error(), podUID) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the memory is never freed", func(t *testing.T) {
		k, tree := nodeWithPod(t, dmemtest.Options{Below: dmemtest.Refuse})
		must(t, k.Charge(podDir, gpuA, 20000*mib))
		err := tree.CapPod(short(t), onePod)
		var le *LimitError
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrBusy) || !errors.As(err, &le) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled with a cause", func(t *testing.T) {
		_, tree := node(t, dmemtest.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("pod is gone")
		cancel(gone)
		if err := tree.CapPod(ctx, onePod); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	})
}

// What cannot pass is not waited for.
func TestCapPodGivesUpAtOnce(t *testing.T) {
	tests := map[string]struct {
		pod     PodCaps
		prepare func(k *dmemtest.Kernel)
		want    error
	}{
		"an unknown region": {pod: PodCaps{pod, []Cap{{"drm/0000:99:00.0/vram", 1}}}, want: ErrNoRegion},
		"a read-only mount": {pod: onePod, prepare: func(k *dmemtest.Kernel) { k.SetReadOnly(true) }, want: syscall.EROFS},
		"a uid that climbs": {pod: PodCaps{Pod{UID: "../x"}, onePod.Caps}},
		"a region twice":    {pod: PodCaps{pod, []Cap{{gpuA, 1}, {gpuA, 1}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, tree := nodeWithPod(t, dmemtest.Options{})
			if tt.prepare != nil {
				tt.prepare(k)
			}
			ctx := soon(t)
			err := tree.CapPod(ctx, tt.pod)
			if err == nil || ctx.Err() != nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// After a restart all live pods are limited again; the ones in trouble do not
// keep the others from it.
func TestCapPodsAfterARestart(t *testing.T) {
	k, tree := node(t, dmemtest.Options{Below: dmemtest.Refuse})
	var pods []PodCaps
	for i := range 20 {
		p := Pod{fmt.Sprintf("0000000%02d-1111-2222-3333-444444444444", i), []QoS{Guaranteed, Burstable, BestEffort}[i%3]}
		pods = append(pods, PodCaps{p, []Cap{{gpuA, uint64(i+1) * mib}}})
		dir, err := PodPath(Systemd, p)
		must(t, err)
		if i == 7 {
			continue // has no cgroup
		}
		must(t, k.Mkdir(dir))
		must(t, k.Delegate(dir))
		if i == 9 {
			must(t, k.Charge(dir, gpuA, 100*mib))
		}
	}
	pods = append(pods, PodCaps{Pod: Pod{UID: "whole-gpu"}})

	for i, err := range tree.CapPods(short(t), pods) {
		switch i {
		case 7:
			if !errors.Is(err, ErrNoCgroup) {
				t.Errorf("pod 7: %v, want no cgroup", err)
			}
		case 9:
			if !errors.Is(err, ErrBusy) {
				t.Errorf("pod 9: %v, want busy", err)
			}
		default:
			if err != nil {
				t.Errorf("pod %d: %v", i, err)
			}
		}
	}
	for i, p := range pods[:20] {
		dir, err := PodPath(Systemd, p.Pod)
		must(t, err)
		if i == 7 || i == 9 {
			continue
		}
		if got, want := content(t, k, dir+"/dmem.max"), fmt.Sprintf("%s %d\n", gpuA, (i+1)*mib); !strings.HasPrefix(got, want) {
			t.Errorf("pod %d: dmem.max = %q, want %q", i, got, want)
		}
	}
}

// A machine that has no inotify instance left polls.
func TestWatchPolls(t *testing.T) {
	w := &watch{tick: time.Millisecond}
	w.add(".")
	must(t, w.wait(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.tick = time.Hour
	if err := w.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	w.close()
}

// A notifier that stops working is replaced by polling.
func TestWatchFallsBackToPolling(t *testing.T) {
	w := newWatch(t.TempDir())
	if w.notifier == nil {
		t.Fatal("no inotify on this machine")
	}
	w.close()
	must(t, w.wait(t.Context()))
	if w.notifier != nil {
		t.Error("a closed notifier is still in use")
	}
	w.close()
}

// Waiting leaves no goroutine behind, whether it succeeded, failed or was
// cancelled.
func TestCapPodsLeavesNoGoroutine(t *testing.T) {
	_, tree := nodeWithPod(t, dmemtest.Options{})
	other := PodCaps{Pod{UID: "11111111-2222-3333-4444-555555555555"}, onePod.Caps}
	must(t, tree.CapPod(soon(t), onePod))
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = tree.CapPods(ctx, []PodCaps{onePod, other})
		cancel()
	}
	var stacks string
	for range 1000 {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if strings.Count(stacks, "hami-amd/dmem.") <= strings.Count(stacks, "TestCapPodsLeavesNoGoroutine") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("goroutines of the package remain:\n%s", stacks)
}

// A changed limit on a tree of plain files: find the pod, read, write, read.
func BenchmarkCapPod(b *testing.B) {
	tree := plainTree(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := PodCaps{pod, []Cap{{gpuA, uint64(i%1000+1) * mib}}}
		if err := tree.CapPod(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// The usual case after a restart: the limit already holds.
func BenchmarkCapPodAgain(b *testing.B) {
	tree := plainTree(b)
	must(b, tree.CapPod(b.Context(), onePod))
	b.ReportAllocs()
	for b.Loop() {
		if err := tree.CapPod(b.Context(), onePod); err != nil {
			b.Fatal(err)
		}
	}
}

// plainTree is a tree of plain files with the cgroup of pod.
func plainTree(b *testing.B) *Tree {
	dir := b.TempDir()
	must(b, os.MkdirAll(filepath.Join(dir, podDir), 0o755))
	must(b, os.WriteFile(filepath.Join(dir, podDir, "dmem.max"), []byte(gpuA+" max\n"), 0o644))
	tree, err := Open(dir)
	must(b, err)
	b.Cleanup(func() { tree.Close() })
	return tree
}
