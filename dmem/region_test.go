package dmem

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/google/go-cmp/cmp"
)

func TestVRAMRegion(t *testing.T) {
	for bdf, want := range map[string]string{
		"0000:06:00.0":     "drm/0000:06:00.0/vram",
		"00010000:c1:1f.7": "drm/00010000:c1:1f.7/vram",
	} {
		if got, err := VRAMRegion(bdf); err != nil || got != want {
			t.Errorf("VRAMRegion(%q) = %q, %v", bdf, got, err)
		}
	}
	for _, bdf := range []string{
		"", "0000:06:00", "06:00.0", "0000:06:00:0", "0000:C6:00.0", "0000:06:00.8", "0000:06:00.0 ",
		"0000:06:00.0/../x", "g000:06:00.0", "0000:0-:00.0", "000000000:06:00.0", "0000:06:00.0\n5",
	} {
		if got, err := VRAMRegion(bdf); err == nil {
			t.Errorf("VRAMRegion(%q) = %q, want an error", bdf, got)
		}
	}
}

func TestRegions(t *testing.T) {
	k, tree := node(t, dmemtest.Options{})
	must(t, k.AddRegion("drm/0000:00:02.0/stolen", 0))
	got, err := tree.Regions()
	must(t, err)
	want := []Region{{"drm/0000:00:02.0/stolen", 0}, {gpuA, vram}, {gpuB, vram}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("regions (-want +got):\n%s", diff)
	}
}

func TestRegionsWithoutACapacity(t *testing.T) {
	k, tree := node(t, dmemtest.Options{})
	name := filepath.Join(k.Dir(), "dmem.capacity")
	must(t, os.WriteFile(name, []byte(gpuA+" max\n"), 0o644))
	if got, err := tree.Regions(); err == nil {
		t.Errorf("a capacity of max: %v", got)
	}
	must(t, os.Remove(name))
	if got, err := tree.Regions(); err == nil {
		t.Errorf("no capacity file: %v", got)
	}
}
