package partition

import (
	"errors"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
)

func TestGFXName(t *testing.T) {
	for target, want := range map[uint64]string{
		90000: "gfx900", 90006: "gfx906", 90008: "gfx908", 90010: "gfx90a", 90402: "gfx942", 90500: "gfx950",
		100300: "gfx1030", 100306: "gfx1036", 110000: "gfx1100", 110501: "gfx1151", 120000: "gfx1200", 120001: "gfx1201",
		// 0 is a key that is missing; the rest no target that could be spelled.
		0: "", 9999: "", 91600: "", 90016: "", 1 << 60: "",
	} {
		if got := gfxName(target); got != want {
			t.Errorf("%d: want %q, found %q", target, want, got)
		}
	}
}

func TestGeometry(t *testing.T) {
	set := func(n uint64) number { return number{n, true} }
	for name, test := range map[string]struct {
		props kfdProps
		want  cumask.Geometry
	}{
		"harvested arrays hold more than there is": {
			kfdProps{simdCount: set(416), simdPerCU: set(4), arrayCount: set(8), arraysPerEngine: set(1), cuPerArray: set(14), gfxTarget: set(90010), xccCount: set(1)},
			cumask.Geometry{CUs: 104, XCCs: 1, CUsPerWGP: 1, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 14},
		},
		"arrays are counted over all XCCs": {
			kfdProps{simdCount: set(1216), simdPerCU: set(4), arrayCount: set(32), arraysPerEngine: set(1), cuPerArray: set(10), gfxTarget: set(90402), xccCount: set(8)},
			cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
		},
		"pairs from gfx10 on": {
			kfdProps{simdCount: set(192), simdPerCU: set(2), arrayCount: set(12), arraysPerEngine: set(2), cuPerArray: set(8), gfxTarget: set(110000)},
			cumask.Geometry{CUs: 96, XCCs: 1, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8},
		},
		"pairs without a target version": {
			kfdProps{simdCount: set(64), simdPerCU: set(2)},
			cumask.Geometry{CUs: 32, XCCs: 1, CUsPerWGP: 2},
		},
		"single CUs without a target version": {
			kfdProps{simdCount: set(256), simdPerCU: set(4)},
			cumask.Geometry{CUs: 64, XCCs: 1, CUsPerWGP: 1},
		},
		"arrays that hold less are not believed": {
			kfdProps{simdCount: set(1216), simdPerCU: set(4), arrayCount: set(8), arraysPerEngine: set(1), cuPerArray: set(10), gfxTarget: set(90402), xccCount: set(8)},
			cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 1},
		},
		"arrays that do not divide are not believed": {
			kfdProps{simdCount: set(1216), simdPerCU: set(4), arrayCount: set(33), arraysPerEngine: set(1), cuPerArray: set(10), gfxTarget: set(90402), xccCount: set(8)},
			cumask.Geometry{CUs: 304, XCCs: 8, CUsPerWGP: 1},
		},
		"arrays beyond reason are not believed": {
			kfdProps{simdCount: set(416), simdPerCU: set(4), arrayCount: set(1 << 63), arraysPerEngine: set(1 << 63), cuPerArray: set(1 << 63), gfxTarget: set(90010)},
			cumask.Geometry{CUs: 104, XCCs: 1, CUsPerWGP: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.props.geometry()
			if err != nil || got != test.want {
				t.Errorf("want %+v, found %+v, %v", test.want, got, err)
			}
		})
	}
	for name, props := range map[string]kfdProps{
		"part of a CU":        {simdCount: set(415), simdPerCU: set(4)},
		"too many CUs":        {simdCount: set(4 * 1025), simdPerCU: set(4)},
		"no SIMDs":            {simdCount: set(0), simdPerCU: set(4)},
		"no XCC":              {simdCount: set(416), simdPerCU: set(4), xccCount: set(0)},
		"more XCCs than CUs":  {simdCount: set(16), simdPerCU: set(4), xccCount: set(8)},
		"unequal XCCs":        {simdCount: set(4 * 300), simdPerCU: set(4), xccCount: set(8)},
		"half a WGP":          {simdCount: set(62), simdPerCU: set(2), gfxTarget: set(120000)},
		"XCCs beyond an int":  {simdCount: set(416), simdPerCU: set(4), xccCount: set(1 << 63)},
		"SIMDs beyond an int": {simdCount: set(1<<64 - 1), simdPerCU: set(1)},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			if got, err := props.geometry(); !errors.Is(err, cumask.ErrGeometry) || got != (cumask.Geometry{}) {
				t.Errorf("want ErrGeometry, found %+v, %v", got, err)
			}
		})
	}
}
