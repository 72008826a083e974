package dmem

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
)

func TestAvailable(t *testing.T) {
	_, tree := node(t, dmemtest.Options{})
	must(t, tree.Available())
	must(t, tree.Prepare())
	must(t, tree.Prepare())
}

// A node without one of the three parts says which.
func TestNotAvailable(t *testing.T) {
	tests := map[string]struct {
		files map[string]string // a name that ends in / is a directory
		want  error
		text  string
	}{
		"an empty directory":     {nil, ErrNotCgroup2, "dmem is not supported: not a cgroup v2 mount: no DIR/cgroup.controllers"},
		"a kernel without dmem":  {map[string]string{"cgroup.controllers": "cpu memory pids\n", "kubepods.slice/": ""}, ErrNoController, `dmem is not supported: kernel has no dmem controller (6.14 or newer with CONFIG_CGROUP_DMEM): DIR/cgroup.controllers lists "cpu memory pids"`},
		"a word that holds dmem": {map[string]string{"cgroup.controllers": "cpu xdmem dmemory\n", "kubepods.slice/": ""}, ErrNoController, `dmem is not supported: kernel has no dmem controller (6.14 or newer with CONFIG_CGROUP_DMEM): DIR/cgroup.controllers lists "cpu xdmem dmemory"`},
		"the cgroupfs driver":    {map[string]string{"cgroup.controllers": "cpu dmem\n", "kubepods/": ""}, ErrNoKubepods, "dmem is not supported: no kubepods.slice (systemd cgroup driver): no DIR/kubepods.slice"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.files {
				if strings.HasSuffix(file, "/") {
					must(t, os.Mkdir(filepath.Join(dir, file), 0o755))
				} else {
					must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
				}
			}
			tree, err := Open(dir)
			must(t, err)
			defer tree.Close()
			for _, err := range []error{tree.Available(), tree.Prepare()} {
				if !errors.Is(err, tt.want) || !errors.Is(err, ErrNotSupported) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if want := strings.ReplaceAll(tt.text, "DIR", dir); err.Error() != want {
					t.Errorf("error = %q\nwant    %q", err, want)
				}
			}
		})
	}
}

// A cgroup v1 host has a directory for each controller and no list.
func TestC39CgroupV1IsNotSupported(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []string{"cpu", "memory", "systemd", "unified"} {
		must(t, os.Mkdir(filepath.Join(dir, c), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "unified/cgroup.controllers"), []byte("\n"), 0o644))
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()
	if err := tree.Available(); !errors.Is(err, ErrNotCgroup2) || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("got %v, want not supported", err)
	}
	if err := tree.SetCaps(podDir, []Cap{{gpuA, mib}}); err == nil {
		t.Error("a limit was set on cgroup v1")
	}
}

// The runtime did not enable the controller: it is enabled from the root down,
// each cgroup after the one above it, and then the limit is set.
func TestC39EnablesTopDown(t *testing.T) {
	k, tree := node(t, dmemtest.Options{})
	must(t, k.Mkdir(podDir))
	must(t, tree.SetCaps(podDir, []Cap{{gpuA, 16384 * mib}}))

	var order []string
	for _, w := range k.Writes() {
		if strings.HasSuffix(w.Name, subtreeFile) {
			if w.Data != "+dmem" {
				t.Errorf("wrote %q to %s", w.Data, w.Name)
			}
			order = append(order, strings.TrimSuffix(w.Name, subtreeFile))
		}
	}
	if got, want := strings.Join(order, " "), " kubepods.slice/ kubepods.slice/kubepods-burstable.slice/"; got != want {
		t.Errorf("enabled in %q, want %q", got, want)
	}
	if got := content(t, k, podDir+"/dmem.max"); !strings.HasPrefix(got, gpuA+" 17179869184\n") {
		t.Errorf("dmem.max = %q", got)
	}
}

// A cgroup with processes cannot delegate: the error names the first one that
// does not, and nothing counts as limited.
func TestC39NamesTheFirstDirectory(t *testing.T) {
	container := podDir + "/cri-containerd-" + strings.Repeat("a1", 32) + ".scope"
	k, tree := node(t, dmemtest.Options{})
	must(t, k.Mkdir(container))
	must(t, k.Delegate(filepath.Dir(podDir)))
	k.SetProcesses(podDir, true)

	err := tree.SetCaps(container, []Cap{{gpuA, mib}})
	var nd *NotDelegatedError
	if !errors.As(err, &nd) || !errors.Is(err, ErrNotDelegated) {
		t.Fatalf("got %v, want a NotDelegatedError", err)
	}
	if want := filepath.Join(k.Dir(), podDir); nd.Dir != want {
		t.Errorf("Dir = %q, want %q", nd.Dir, want)
	}
	if !errors.Is(err, syscall.EBUSY) {
		t.Errorf("cause = %v, want EBUSY", nd.Err)
	}
	for _, part := range []string{nd.Dir, "lacks dmem", "not delegated"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if _, err := os.Stat(filepath.Join(k.Dir(), container, "dmem.max")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dmem.max: %v", err)
	}
}

// Plain files keep "+dmem" as text and no controller comes of it: that is not
// delegated, and never success.
func TestC39PlainTreeIsNotDelegated(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, podDir), 0o755))
	for name, text := range map[string]string{
		"cgroup.controllers":                                             "cpu memory pids dmem\n",
		"cgroup.subtree_control":                                         "cpu memory pids dmem\n",
		"kubepods.slice/cgroup.subtree_control":                          "cpu memory pids\n",
		"kubepods.slice/kubepods-burstable.slice/cgroup.subtree_control": "cpu memory pids\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()
	err = tree.SetCaps(podDir, []Cap{{gpuA, mib}})
	var nd *NotDelegatedError
	if !errors.As(err, &nd) || nd.Dir != filepath.Join(dir, "kubepods.slice") {
		t.Errorf("got %v, want not delegated at kubepods.slice", err)
	}
	if _, err := os.Stat(filepath.Join(dir, podDir, "dmem.max")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dmem.max was made: %v", err)
	}
}

// Everything says it delegates and there is still no file.
func TestC39DelegatedWithoutFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "kubepods.slice"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("dmem\n"), 0o644))
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()
	err = tree.SetCaps("kubepods.slice", []Cap{{gpuA, mib}})
	if !errors.Is(err, ErrNotDelegated) || !strings.Contains(err.Error(), "kubepods.slice/dmem.max") {
		t.Errorf("got %v, want not delegated and the missing file", err)
	}
}

func TestC39ReadOnlyMount(t *testing.T) {
	t.Run("not enabled", func(t *testing.T) {
		k, tree := node(t, dmemtest.Options{})
		must(t, k.Mkdir(podDir))
		k.SetReadOnly(true)
		for _, err := range []error{tree.Prepare(), tree.SetCaps(podDir, []Cap{{gpuA, mib}})} {
			if !errors.Is(err, syscall.EROFS) || !errors.Is(err, ErrNotDelegated) {
				t.Errorf("got %v, want not delegated with EROFS", err)
			}
		}
	})
	t.Run("enabled", func(t *testing.T) {
		k, tree := nodeWithPod(t, dmemtest.Options{})
		k.SetReadOnly(true)
		for _, err := range []error{tree.Prepare(), tree.SetCaps(podDir, []Cap{{gpuA, mib}})} {
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("got %v, want EROFS", err)
			}
		}
	})
}
