package partition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A HealthChecker finds GPUs whose device nodes are missing or cannot be
// opened.
//
// Render nodes are opened read-only and closed again: amdgpu refuses with
// EHWPOISON after a fatal memory error, with ENODEV when the GPU fell off the
// bus, and with ENOENT for a partition that its mode does not have. That wakes
// a GPU that sleeps. The other nodes are only looked at: whoever opens
// /dev/kfd is a user of KFD until the last one closes, and no GPU can change
// its compute partition mode then; whoever opens /dev/dri/card<N> first becomes
// the display's master.
//
// An open of a GPU that hangs may never return. It is waited for up to
// Timeout, counts as unhealthy from then on, and is not repeated before it
// returned, so that no more than one is under way per render node.
//
// It is safe for concurrent use.
type HealthChecker struct {
	// Dev is the folder of device nodes, "/dev" if "".
	Dev string
	// Timeout bounds one Check; 0 means 5 s.
	Timeout time.Duration

	// open opens and closes the render node at a path below Dev; nil does so.
	// Tests put another in place.
	open func(dev, name string) error

	mu      sync.Mutex
	pending map[int]*opening // opens under way, by render minor
}

// opening is one open of a render node. err may be read once done is closed.
type opening struct {
	minor int
	path  string
	done  chan struct{}
	err   error
}

// Health is the result of one check. GPUs and RenderMinors have the shape of
// RegisterOptions.Unhealthy and RegisterOptions.UnhealthyRenderMinors.
type Health struct {
	GPUs         map[BDF]string
	RenderMinors map[int]string
	// Notes are checks that say nothing about the GPU, one line each: the
	// checker itself lacks a permission or a resource.
	Notes []string
}

// Check looks at the device nodes of all GPUs of the inventory. It always gives
// a result: what could not be checked when ctx ends is not unhealthy.
func (h *HealthChecker) Check(ctx context.Context, inv *Inventory) Health {
	dev, timeout := h.Dev, h.Timeout
	if dev == "" {
		dev = "/dev"
	}
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	out := Health{GPUs: make(map[BDF]string), RenderMinors: make(map[int]string)}
	checkPresence(dev, inv, &out)

	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, o := range h.start(dev, inv) {
		select {
		case <-o.done:
		case <-limited.Done():
		}
		select {
		case <-o.done: // also where both were ready
			out.add(o)
		default:
			if ctx.Err() != nil {
				out.Notes = append(out.Notes, fmt.Sprintf("opening %s: %v", o.path, ctx.Err()))
			} else {
				out.RenderMinors[o.minor] = fmt.Sprintf("opening %s did not return within %v", o.path, timeout)
			}
		}
	}
	return out
}

// checkPresence looks for the nodes that a container is given beside the
// render nodes. It opens none of them.
func checkPresence(dev string, inv *Inventory, out *Health) {
	missing := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dev, name))
		return errors.Is(err, fs.ErrNotExist)
	}
	noKFD := missing("kfd")
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		switch {
		case noKFD:
			out.GPUs[g.BDF] = filepath.Join(dev, "kfd") + " does not exist"
		case g.Card != nil && missing(cardNode(*g.Card)):
			out.GPUs[g.BDF] = filepath.Join(dev, cardNode(*g.Card)) + " does not exist"
		}
		for j := range g.Nodes {
			n := &g.Nodes[j]
			if n.Card != nil && missing(cardNode(*n.Card)) {
				out.RenderMinors[n.RenderMinor] = filepath.Join(dev, cardNode(*n.Card)) + " does not exist"
			}
		}
	}
}

// start opens every render node of the inventory, but those of which an
// earlier open is still under way. The order is ascending.
func (h *HealthChecker) start(dev string, inv *Inventory) []*opening {
	open := h.open
	if open == nil {
		open = openRenderNode
	}
	var minors []int
	for i := range inv.GPUs {
		for j := range inv.GPUs[i].Nodes {
			minors = append(minors, inv.GPUs[i].Nodes[j].RenderMinor)
		}
	}
	slices.Sort(minors)

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		h.pending = make(map[int]*opening)
	}
	var out []*opening
	for _, minor := range slices.Compact(minors) {
		o := h.pending[minor]
		if o == nil {
			o = &opening{minor: minor, path: filepath.Join(dev, renderNode(minor)), done: make(chan struct{})}
			h.pending[minor] = o
			go func() {
				o.err = open(dev, renderNode(o.minor))
				h.mu.Lock()
				delete(h.pending, o.minor)
				h.mu.Unlock()
				close(o.done)
			}()
		}
		out = append(out, o)
	}
	return out
}

// add files the result of one open that returned.
func (out *Health) add(o *opening) {
	if o.err == nil {
		return
	}
	var errno syscall.Errno
	if !errors.As(o.err, &errno) {
		out.RenderMinors[o.minor] = fmt.Sprintf("opening %s: %v", o.path, o.err)
		return
	}
	text := fmt.Sprintf("opening %s: %v", o.path, errno)
	if errno == ehwpoison {
		text = fmt.Sprintf("opening %s: amdgpu disabled the GPU after a fatal memory error", o.path)
	}
	if ours(errno) {
		out.Notes = append(out.Notes, text+": this says nothing about the GPU")
		return
	}
	out.RenderMinors[o.minor] = text
}

// ehwpoison is EHWPOISON of Linux on amd64 and arm64, which package syscall has
// no text for.
const ehwpoison = syscall.Errno(133)

// ours reports whether an error is about the process that opens: its
// permissions, its device cgroup, its limits.
func ours(errno syscall.Errno) bool {
	switch errno {
	case syscall.EPERM, syscall.EACCES, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN:
		return true
	}
	return false
}

func openRenderNode(dev, name string) error {
	root, err := os.OpenRoot(dev)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func renderNode(minor int) string { return "dri/renderD" + strconv.Itoa(minor) }
func cardNode(n int) string       { return "dri/card" + strconv.Itoa(n) }
