package dmemtest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pod = "kubepods.slice/kubepods-podx.slice"

func kernel(t *testing.T, o Options) *Kernel {
	t.Helper()
	k, err := New(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	for _, err := range []error{k.AddRegion("a", 1000), k.AddRegion("b", 2000), k.Mkdir(pod), k.Delegate(pod)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func put(t *testing.T, k *Kernel, name, data string) error {
	t.Helper()
	f, err := k.OpenWrite(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.WriteString(f, data)
	return err
}

func get(t *testing.T, k *Kernel, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(k.Dir(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What one write to dmem.max does on each kernel.
func TestWriteMax(t *testing.T) {
	const untouched = "a max\nb max\n"
	tests := map[string]struct {
		data      string
		old, new  error
		oldHas    string
		newHas    string
		oldOopses bool
	}{
		"bytes":                  {data: "a 100\n", oldHas: "a 100\nb max\n", newHas: "a 100\nb max\n"},
		"no newline":             {data: "b 100", oldHas: "a max\nb 100\n", newHas: "a max\nb 100\n"},
		"a suffix":               {data: "a 1k\n", oldHas: "a 1024\nb max\n", newHas: "a 1024\nb max\n"},
		"max":                    {data: "a max\n", oldHas: untouched, newHas: untouched},
		"an unknown region":      {data: "c 100\n", old: syscall.EINVAL, new: syscall.EINVAL, oldHas: untouched, newHas: untouched},
		"garbage":                {data: "a 1x\n", old: syscall.EINVAL, new: syscall.EINVAL, oldHas: untouched, newHas: untouched},
		"two blanks":             {data: "a  1\n", old: syscall.EINVAL, new: syscall.EINVAL, oldHas: untouched, newHas: untouched},
		"two lines":              {data: "a 1\nb 2\n", new: syscall.EINVAL, oldHas: "a 1\nb 2\n", newHas: untouched},
		"the second line is bad": {data: "a 1\nc 2\n", old: syscall.EINVAL, new: syscall.EINVAL, oldHas: "a 1\nb max\n", newHas: untouched},
		"empty lines":            {data: "\n\na 1\n\n", oldHas: "a 1\nb max\n", newHas: "a 1\nb max\n"},
		"no value":               {data: "a\n", old: syscall.EIO, new: syscall.EINVAL, oldHas: untouched, newHas: untouched, oldOopses: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old, latest := kernel(t, Options{}), kernel(t, Options{OneRegion: true})
			if err := put(t, old, pod+"/dmem.max", tt.data); !errors.Is(err, tt.old) {
				t.Errorf("old kernel: %v, want %v", err, tt.old)
			}
			if err := put(t, latest, pod+"/dmem.max", tt.data); !errors.Is(err, tt.new) {
				t.Errorf("new kernel: %v, want %v", err, tt.new)
			}
			if old.Oops() != tt.oldOopses || latest.Oops() {
				t.Errorf("oops: old %v, new %v", old.Oops(), latest.Oops())
			}
			if got := get(t, old, pod+"/dmem.max"); got != tt.oldHas {
				t.Errorf("old kernel has %q, want %q", got, tt.oldHas)
			}
			if got := get(t, latest, pod+"/dmem.max"); got != tt.newHas {
				t.Errorf("new kernel has %q, want %q", got, tt.newHas)
			}
		})
	}
}

func TestBelowUsage(t *testing.T) {
	tests := map[string]struct {
		below Below
		want  error
		has   string
	}{
		"ignored": {Ignore, nil, "a max\nb max\n"},
		"refused": {Refuse, syscall.EBUSY, "a max\nb max\n"},
		"taken":   {Take, nil, "a 5\nb max\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := kernel(t, Options{Below: tt.below})
			if err := k.Charge(pod, "a", 6); err != nil {
				t.Fatal(err)
			}
			if err := put(t, k, pod+"/dmem.max", "a 5\n"); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if got := get(t, k, pod+"/dmem.max"); got != tt.has {
				t.Errorf("dmem.max = %q, want %q", got, tt.has)
			}
		})
	}
}

func TestDelegation(t *testing.T) {
	k, err := New(t.TempDir(), Options{Peak: true})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Mkdir("a/b"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, k, "a/cgroup.subtree_control", "+dmem"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("before the root: %v, want ENOENT", err)
	}
	if _, err := k.OpenWrite("a/dmem.max"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dmem.max before the controller: %v", err)
	}
	k.SetProcesses(".", true)
	if err := put(t, k, "cgroup.subtree_control", "+dmem"); err != nil {
		t.Errorf("the root with processes: %v", err)
	}
	if got := get(t, k, "a/cgroup.controllers"); !strings.Contains(got, " dmem") {
		t.Errorf("controllers of a = %q", got)
	}
	k.SetProcesses("a", true)
	if err := put(t, k, "a/cgroup.subtree_control", "+dmem\n"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a cgroup with processes: %v, want EBUSY", err)
	}
	k.SetProcesses("a", false)
	if err := put(t, k, "a/cgroup.subtree_control", "+dmem\n"); err != nil {
		t.Error(err)
	}
	for _, file := range []string{"dmem.max", "dmem.min", "dmem.low", "dmem.current", "dmem.peak"} {
		get(t, k, "a/b/"+file)
	}
	for _, bad := range []string{"+memorry", "dmem"} {
		if err := put(t, k, "a/cgroup.subtree_control", bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v, want EINVAL", bad, err)
		}
	}
}

func TestCharge(t *testing.T) {
	k := kernel(t, Options{})
	if err := put(t, k, "kubepods.slice/dmem.max", "a 10\n"); err != nil {
		t.Fatal(err)
	}
	if err := k.Charge(pod, "a", 10); err != nil {
		t.Fatal(err)
	}
	if err := k.Charge(pod, "a", 1); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("over the limit of the cgroup above: %v", err)
	}
	for _, dir := range []string{pod + "/", "kubepods.slice/", ""} {
		if got := get(t, k, dir+"dmem.current"); got != "a 10\nb 0\n" {
			t.Errorf("%sdmem.current = %q", dir, got)
		}
	}
	if err := k.Charge("gone", "a", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}

func TestRemove(t *testing.T) {
	k := kernel(t, Options{})
	f, err := k.OpenWrite(pod + "/dmem.max")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Remove("kubepods.slice"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "a 1\n"); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("a write to a removed cgroup: %v, want ENODEV", err)
	}
	if err := k.RemoveRegion("a"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("b 2000\n", get(t, k, "dmem.capacity")); diff != "" {
		t.Error(diff)
	}
}
