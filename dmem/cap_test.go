package dmem

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/google/go-cmp/cmp"
)

func TestSetCaps(t *testing.T) {
	k, tree := nodeWithPod(t, dmemtest.Options{OneRegion: true})
	caps := []Cap{{gpuA, 16384 * mib}, {gpuB, 8192 * mib}}
	must(t, tree.SetCaps(podDir, caps))
	if got, want := content(t, k, podDir+"/dmem.max"), gpuA+" 17179869184\n"+gpuB+" 8589934592\n"; got != want {
		t.Errorf("dmem.max = %q, want %q", got, want)
	}
	// What already holds is not written again.
	before := len(k.Writes())
	must(t, tree.SetCaps(podDir, caps))
	if got := len(k.Writes()); got != before {
		t.Errorf("a second call made %d writes", got-before)
	}
	// A changed one is.
	must(t, tree.SetCaps(podDir, []Cap{{gpuA, 4096}, {gpuB, 8192 * mib}}))
	if diff := cmp.Diff([]string{gpuA + " 4096\n"}, maxWrites(k)[2:]); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	must(t, tree.SetCaps(podDir, nil))
}

// C37: a limit below what is in use, in the three ways kernels have.
func TestC37LimitBelowUsage(t *testing.T) {
	const used = 1060864
	tests := map[string]struct {
		below dmemtest.Below
		want  error
		text  string
	}{
		"the write is ignored": {dmemtest.Ignore, ErrNotInForce, "want %d bytes, have max, 1060864 in use: limit not in force"},
		"EBUSY":                {dmemtest.Refuse, ErrBusy, "want %d bytes, have max, 1060864 in use: more is in use than the limit"},
		"the write succeeds":   {dmemtest.Take, nil, ""},
	}
	for name, tt := range tests {
		for _, limit := range []uint64{0, 4096} {
			t.Run(fmt.Sprintf("%s with %d", name, limit), func(t *testing.T) {
				k, tree := nodeWithPod(t, dmemtest.Options{Below: tt.below})
				must(t, k.Charge(podDir, gpuA, used))
				err := tree.SetCaps(podDir, []Cap{{gpuA, limit}})
				if tt.want == nil {
					must(t, err)
					return
				}
				var le *LimitError
				if !errors.Is(err, tt.want) || !errors.As(err, &le) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if le.Region != gpuA || le.Current == nil || *le.Current != used || le.Have != Max || le.Want != Limit(limit) {
					t.Errorf("error holds %+v", le)
				}
				want := fmt.Sprintf(`dmem limit of %q in %q: `+tt.text, gpuA, k.Dir()+"/"+podDir, limit)
				if err.Error() != want {
					t.Errorf("error = %q\nwant    %q", err, want)
				}
				if !mayPass(err) {
					t.Error("is not tried again")
				}
				if got := content(t, k, podDir+"/dmem.max"); got != gpuA+" max\n"+gpuB+" max\n" {
					t.Errorf("dmem.max = %q after the error", got)
				}
			})
		}
	}
}

// C38: one write for each region, each one whole line.
func TestC38OneRegionPerWrite(t *testing.T) {
	for name, o := range map[string]dmemtest.Options{"6.14": {}, "newest": {OneRegion: true}} {
		t.Run(name, func(t *testing.T) {
			k, tree := nodeWithPod(t, o)
			must(t, tree.SetCaps(podDir, []Cap{{gpuA, 16384 * mib}, {gpuB, 8192 * mib}}))
			want := []string{gpuA + " 17179869184\n", gpuB + " 8589934592\n"}
			if diff := cmp.Diff(want, maxWrites(k)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if k.Oops() {
				t.Error("a write crashed the kernel")
			}
		})
	}
}

// C38: the second region fails, so the first is put back and nothing is
// reported as limited.
func TestC38RollsBack(t *testing.T) {
	const other = "drm/0000:99:00.0/vram"
	tests := map[string]struct {
		caps    []Cap
		prepare func(t *testing.T, k *dmemtest.Kernel)
		refuse  error // errno of a write to gpuB
		want    error
	}{
		"a region the kernel does not list": {
			caps: []Cap{{gpuA, 16384 * mib}, {other, 8192 * mib}},
			want: ErrNoRegion,
		},
		"a region the kernel does not know when it is written": {
			caps: []Cap{{gpuA, 16384 * mib}, {gpuB, 8192 * mib}}, refuse: syscall.EINVAL,
			want: syscall.EINVAL,
		},
		"a region that is unregistered meanwhile": {
			caps: []Cap{{gpuA, 16384 * mib}, {gpuB, 8192 * mib}}, refuse: syscall.ENODEV,
			want: syscall.ENODEV,
		},
		"a region with more in use": {
			caps:    []Cap{{gpuA, 16384 * mib}, {gpuB, 8192 * mib}},
			prepare: func(t *testing.T, k *dmemtest.Kernel) { must(t, k.Charge(podDir, gpuB, 9000*mib)) },
			want:    ErrNotInForce,
		},
	}
	for name, tt := range tests {
		for _, first := range []string{"max", "34359738368"} {
			t.Run(name+", first was "+first, func(t *testing.T) {
				k, tree := nodeWithPod(t, dmemtest.Options{OnWrite: func(_, data string) error {
					if strings.HasPrefix(data, gpuB) {
						return tt.refuse
					}
					return nil
				}})
				if first != "max" {
					must(t, tree.SetCaps(podDir, []Cap{{gpuA, 34359738368}}))
				}
				if tt.prepare != nil {
					tt.prepare(t, k)
				}
				err := tree.SetCaps(podDir, tt.caps)
				if !errors.Is(err, tt.want) {
					t.Fatalf("got %v, want %v", err, tt.want)
				}
				if got, want := content(t, k, podDir+"/dmem.max"), gpuA+" "+first+"\n"+gpuB+" max\n"; got != want {
					t.Errorf("dmem.max = %q, want %q", got, want)
				}
				for _, w := range maxWrites(k) {
					region, value, ok := strings.Cut(strings.TrimSuffix(w, "\n"), " ")
					if !ok || region == "" || value == "" || strings.ContainsAny(value, " \t\n") {
						t.Errorf("wrote %q", w)
					}
				}
			})
		}
	}
}

// What cannot be undone is said.
func TestSetCapsReportsAFailedUndo(t *testing.T) {
	var k *dmemtest.Kernel
	writes := 0
	k, tree := nodeWithPod(t, dmemtest.Options{OnWrite: func(_, data string) error {
		writes++
		if writes > 1 {
			return syscall.EIO
		}
		return nil
	}})
	err := tree.SetCaps(podDir, []Cap{{gpuA, mib}, {gpuB, mib}})
	if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "undo: dmem limit of \""+gpuA) {
		t.Errorf("got %v, want both failures", err)
	}
	if got := content(t, k, podDir+"/dmem.max"); got != gpuA+" 1048576\n"+gpuB+" max\n" {
		t.Errorf("dmem.max = %q", got)
	}
}

func TestSetCapsRefuses(t *testing.T) {
	tests := map[string]struct {
		cgroup string
		caps   []Cap
		want   string
	}{
		"the root":              {".", []Cap{{gpuA, 1}}, `dmem limit: want a cgroup below the root, have "."`},
		"no cgroup":             {"", []Cap{{gpuA, 1}}, `dmem limit: want a cgroup below the root, have ""`},
		"a path that climbs":    {"../x", []Cap{{gpuA, 1}}, `dmem limit: want a cgroup below the root, have "../x"`},
		"an absolute path":      {"/kubepods.slice", []Cap{{gpuA, 1}}, `dmem limit: want a cgroup below the root, have "/kubepods.slice"`},
		"no region":             {podDir, []Cap{{"", 1}}, `dmem limit: want a region without blanks, have ""`},
		"a region and a value":  {podDir, []Cap{{gpuA + " 5", 1}}, `dmem limit: want a region without blanks, have "drm/0000:06:00.0/vram 5"`},
		"two lines in a region": {podDir, []Cap{{gpuA + "\n" + gpuB, 1}}, `dmem limit: want a region without blanks, have "drm/0000:06:00.0/vram\ndrm/0000:46:00.0/vram"`},
		"a region twice":        {podDir, []Cap{{gpuA, 1}, {gpuA, 2}}, `dmem limit of "drm/0000:06:00.0/vram": want one, have two`},
		"more than 63 bits":     {podDir, []Cap{{gpuA, 1 << 63}}, `dmem limit of "drm/0000:06:00.0/vram": want less than 2^63 bytes, have 9223372036854775808`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k, tree := nodeWithPod(t, dmemtest.Options{})
			if err := tree.SetCaps(tt.cgroup, tt.caps); err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\nwant    %s", err, tt.want)
			}
			if w := k.Writes(); len(w) != 0 {
				t.Errorf("wrote %v", w)
			}
		})
	}
	_, tree := node(t, dmemtest.Options{})
	if err := tree.SetCaps(podDir, []Cap{{gpuA, 1}}); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("a cgroup that is not there: %v", err)
	}
}

// The cgroup goes away between the look and the write.
func TestSetCapsOfAPodThatGoes(t *testing.T) {
	var k *dmemtest.Kernel
	k, tree := nodeWithPod(t, dmemtest.Options{OnWrite: func(string, string) error { return k.Remove(podDir) }})
	err := tree.SetCaps(podDir, []Cap{{gpuA, mib}})
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("got %v, want ENODEV", err)
	}
}

// The limit the kernel keeps is what stops an allocation.
func TestCapIsEnforced(t *testing.T) {
	k, tree := nodeWithPod(t, dmemtest.Options{})
	container := podDir + "/cri-containerd-" + strings.Repeat("ab", 32) + ".scope"
	must(t, k.Mkdir(container))
	must(t, tree.SetCaps(podDir, []Cap{{gpuA, 100}}))
	must(t, k.Charge(container, gpuA, 60))
	if err := k.Charge(podDir, gpuA, 41); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("over the pod's limit: %v", err)
	}
	must(t, k.Charge(podDir, gpuA, 40))
}
