package dmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/google/go-cmp/cmp"
)

func TestUsage(t *testing.T) {
	limit, none := Limit(16384*mib), Max
	peak, zero := uint64(700), uint64(0)
	for name, tt := range map[string]struct {
		o    dmemtest.Options
		want []Usage
	}{
		"with dmem.peak": {dmemtest.Options{Peak: true}, []Usage{
			{Region: gpuA, Current: 500, Max: &limit, Peak: &peak},
			{Region: gpuB, Current: 0, Max: &none, Peak: &zero},
		}},
		"without": {dmemtest.Options{}, []Usage{
			{Region: gpuA, Current: 500, Max: &limit},
			{Region: gpuB, Current: 0, Max: &none},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k, tree := nodeWithPod(t, tt.o)
			must(t, tree.SetCaps(podDir, []Cap{{gpuA, 16384 * mib}}))
			must(t, k.Charge(podDir, gpuA, 700))
			must(t, k.Charge(podDir, gpuA, -200))
			got, err := tree.Usage(podDir)
			must(t, err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// The root counts everything and has no limit.
func TestUsageOfTheRoot(t *testing.T) {
	k, tree := nodeWithPod(t, dmemtest.Options{})
	must(t, k.Charge(podDir, gpuB, 5))
	got, err := tree.Usage(".")
	must(t, err)
	if diff := cmp.Diff([]Usage{{Region: gpuA}, {Region: gpuB, Current: 5}}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestUsageErrors(t *testing.T) {
	k, tree := node(t, dmemtest.Options{})
	must(t, k.Mkdir(podDir))
	if _, err := tree.Usage(podDir); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("without the controller: %v", err)
	}
	must(t, k.Delegate(podDir))
	for _, file := range []string{"dmem.current", "dmem.max"} {
		name := filepath.Join(k.Dir(), podDir, file)
		good := content(t, k, podDir+"/"+file)
		must(t, os.WriteFile(name, []byte("garbage\n"), 0o644))
		if got, err := tree.Usage(podDir); err == nil || !strings.Contains(err.Error(), file) || got != nil {
			t.Errorf("a broken %s: %v, %v", file, got, err)
		}
		must(t, os.WriteFile(name, []byte(good), 0o644))
	}
}
