package dmem

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
)

const (
	gpuA = "drm/0000:06:00.0/vram"
	gpuB = "drm/0000:46:00.0/vram"
	vram = 206141652992 // an MI300X
	mib  = 1 << 20

	podUID = "6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"
	podDir = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"
)

var pod = Pod{UID: podUID, QoS: Burstable}

// node is a node with two GPUs and kubelet's slices. The controller is enabled
// for nothing yet.
func node(tb testing.TB, o dmemtest.Options) (*dmemtest.Kernel, *Tree) {
	tb.Helper()
	k, err := dmemtest.New(tb.TempDir(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { k.Close() })
	for _, err := range []error{
		k.AddRegion(gpuA, vram), k.AddRegion(gpuB, vram),
		k.Mkdir("kubepods.slice/kubepods-burstable.slice"),
		k.Mkdir("kubepods.slice/kubepods-besteffort.slice"),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return k, New(k)
}

// nodeWithPod is a node with the cgroup of pod, where the container runtime
// has enabled the controller.
func nodeWithPod(tb testing.TB, o dmemtest.Options) (*dmemtest.Kernel, *Tree) {
	tb.Helper()
	k, tree := node(tb, o)
	must(tb, k.Mkdir(podDir))
	must(tb, k.Delegate(podDir))
	return k, tree
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// content is a file of the tree as another process reads it.
func content(tb testing.TB, k *dmemtest.Kernel, name string) string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(k.Dir(), name))
	must(tb, err)
	return string(data)
}

// maxWrites are the writes to a dmem.max.
func maxWrites(k *dmemtest.Kernel) []string {
	var list []string
	for _, w := range k.Writes() {
		if strings.HasSuffix(w.Name, "/dmem.max") {
			list = append(list, w.Data)
		}
	}
	return list
}

func TestOpen(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "dmem.capacity"), []byte(gpuA+" 5\n"), 0o644))
	tree, err := Open(dir)
	must(t, err)
	regions, err := tree.Regions()
	if err != nil || len(regions) != 1 || regions[0] != (Region{gpuA, 5}) {
		t.Errorf("regions = %v, %v", regions, err)
	}
	must(t, tree.Close())
}

// A tree never reaches outside its root, whatever links are in it.
func TestTreeStaysInside(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "dmem.max"), []byte(gpuA+" max\n"), 0o644))
	dir := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(dir, "pod")))
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()
	if err := tree.SetCaps("pod", []Cap{{gpuA, 1}}); err == nil {
		t.Error("a limit was set through a link")
	}
	if _, err := tree.Usage("pod"); err == nil {
		t.Error("usage was read through a link")
	}
	data, err := os.ReadFile(filepath.Join(outside, "dmem.max"))
	must(t, err)
	if string(data) != gpuA+" max\n" {
		t.Errorf("outside file changed to %q", data)
	}
}

// Plain files stand in for a kernel that takes everything.
func TestSetCapsOnPlainFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, podDir), 0o755))
	file := filepath.Join(dir, podDir, "dmem.max")
	must(t, os.WriteFile(file, []byte(gpuA+" max\n"+gpuB+" max\n"), 0o644))
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()
	must(t, tree.SetCaps(podDir, []Cap{{gpuA, 16384 * mib}}))
	data, err := os.ReadFile(file)
	must(t, err)
	if want := gpuA + " 17179869184\n"; string(data) != want {
		t.Errorf("dmem.max = %q, want %q", data, want)
	}
}

func TestReadIsBounded(t *testing.T) {
	k, tree := node(t, dmemtest.Options{})
	must(t, os.WriteFile(filepath.Join(k.Dir(), "dmem.capacity"), []byte(strings.Repeat("x", maxFile+1)), 0o644))
	if _, err := tree.Regions(); err == nil || !strings.Contains(err.Error(), "want at most 1048576 bytes") {
		t.Errorf("a huge file: %v", err)
	}
}
