package amd

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

func TestUsageOf(t *testing.T) {
	dev := annotations.Device{
		ID: "GPU-a", Index: 3, Count: 10, Devmem: 196288, Devcore: 304, Type: "AMD Instinct MI300X", Numa: -1,
		Mode: "spx", Health: true,
		CustomInfo: annotations.CustomInfo{PCIBDF: "0000:05:00.0", NumXCC: 8, CUsPerWGP: 2, XGMIPeers: []string{"0000:15:00.0"}},
	}
	want := Usage{
		ID: "GPU-a", Index: 3, Count: 10, MemoryMiB: 196288, CUs: 304, Type: "AMD Instinct MI300X", NUMA: -1,
		Mode: "spx", Health: true, XCCs: 8, CUsPerWGP: 2, PCIBDF: "0000:05:00.0", XGMIPeers: []string{"0000:15:00.0"},
	}
	got := UsageOf(&dev)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Geometry() != dev.Geometry() || got.Geometry() != (cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 2}) {
		t.Errorf("geometry %+v, want that of the device, %+v", got.Geometry(), dev.Geometry())
	}
}

func TestUsageAddDoesNotWrap(t *testing.T) {
	var u Usage
	for range 3 {
		u.Add(annotations.Grant{MemoryMiB: math.MaxInt32, CUs: math.MaxInt32})
	}
	if u.Used != 3 || u.UsedMiB != math.MaxInt32 || u.UsedCUs != math.MaxInt32 {
		t.Errorf("%+v, want 3 shares and no more than int32 holds", u)
	}
}

func TestHard(t *testing.T) {
	for mode, want := range map[string]bool{
		"": false, "hami-core": false, "SPX": false, "spx": true, "dpx": true, "tpx": true, "qpx": true, "cpx": true,
	} {
		if got := (&Usage{Mode: mode}).Hard(); got != want {
			t.Errorf("%q: %v, want %v", mode, got, want)
		}
	}
}
