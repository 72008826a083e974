package partition

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// unprivileged runs f without the right to read every file: root gives it up
// for the files' sake on this thread alone.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0)
	}
	f()
}

// In a container that was given some of the GPUs, KFD lists all nodes and
// reads of the others fail.
func TestNodesThatAreNotVisible(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // temporary folders are private
		t.Fatal(err)
	}
	for _, id := range []string{"2", "3", "4", "5", "6", "7", "9"} {
		if err := os.Chmod(filepath.Join(root, topologyDir, "nodes", id, "properties"), 0); err != nil {
			t.Fatal(err)
		}
	}
	var inv *Inventory
	var err error
	unprivileged(t, func() { inv, err = Discover(root) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0000:c7:00.0 p0: node 8"}, placed(inv)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The seven are told by their functions, which operators know.
	if len(inv.Skipped) != 7 {
		t.Errorf("want 7 skipped, found %d", len(inv.Skipped))
	}
	for _, s := range inv.Skipped {
		if _, err := ParseBDF(s.Device); err != nil || !errors.Is(s.Reason, ErrNotVisible) {
			t.Errorf("%s: want ErrNotVisible, found %v", s.Device, s.Reason)
		}
	}
	const want = "0000:05:00.0: card1: no kfd node that can be read: not visible to this process"
	if got := skippedLines(inv)[0]; got != want {
		t.Errorf("want %q, found %q", want, got)
	}

	// Where there are no functions to tell, the nodes are.
	fixturetest.Remove(t, root, "bus")
	fixturetest.Remove(t, root, "class/drm")
	unprivileged(t, func() { inv, err = Discover(root) })
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.GPUs) != 1 || len(inv.Skipped) != 7 || inv.Skipped[0].Device != "node 2" || !errors.Is(inv.Skipped[0].Reason, ErrNotVisible) {
		t.Errorf("found %d GPUs and %v", len(inv.GPUs), skippedLines(inv))
	}
}

// The kernel's refusal in such a container is EPERM.
func TestEPERMIsNotVisible(t *testing.T) {
	err := visible(&os.PathError{Op: "read", Path: "nodes/3/properties", Err: syscall.EPERM})
	if !errors.Is(err, ErrNotVisible) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("found %v", err)
	}
	if err := visible(syscall.EIO); errors.Is(err, ErrNotVisible) {
		t.Errorf("found %v", err)
	}
}

// A named pipe in place of a file does not stop discovery.
func TestNamedPipes(t *testing.T) {
	for name, path := range map[string]string{
		"properties":  nodeFile(2, "properties"),
		"memory bank": nodeFile(2, "mem_banks/0/properties"),
		"numa_node":   "bus/pci/devices/0000:05:00.0/numa_node",
		"function":    "bus/pci/devices/0000:05:00.0",
		"nodes":       "devices/virtual/kfd/kfd/topology/generation_id",
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "mi300x-spx-8")
			fixturetest.Remove(t, root, path)
			if err := syscall.Mkfifo(filepath.Join(root, path), 0o644); err != nil {
				t.Fatal(err)
			}
			inv := discoverTree(t, root)
			if n := len(inv.GPUs); n < 7 || gpuAt(t, inv, "0000:27:00.0").Name == "" {
				t.Errorf("found %d GPUs", n)
			}
		})
	}
}
