package cumask

import (
	"math/rand/v2"
	"testing"
)

func TestPairsAndUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		s := randomSet(r, MaxCUs)
		units := pairsToUnits(s)
		for k := range MaxCUs / 2 {
			if whole := s.Has(2*k) && s.Has(2*k+1); units.Has(k) != whole {
				t.Fatalf("%q: wgp %d is whole: %v, but is unit: %v", s, k, whole, units.Has(k))
			}
		}
		back := unitsToPairs(units)
		if back != (Geometry{CUs: MaxCUs, CUsPerWGP: 2}).wholeWGPs(s) || back.Len() != 2*units.Len() {
			t.Fatalf("%q has the wgps %q, back in cus %q", s, units, back)
		}
	}
}

func TestPackOnTheLargestGPUs(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for _, g := range []Geometry{
		{CUs: MaxCUs, CUsPerWGP: 2, SEsPerXCC: 16},
		{CUs: MaxCUs, XCCs: 64, SEsPerXCC: 16},
		{CUs: MaxCUs, XCCs: MaxCUs},
		{CUs: MaxCUs, SEsPerXCC: MaxCUs},
		{CUs: MaxCUs},
	} {
		for range 300 {
			used, n := randomSet(r, MaxCUs), g.RoundUp(r.IntN(MaxCUs))
			got, err := Pack(g, used, n)
			if err == nil {
				checkPacked(t, g, used, n, got)
			}
		}
		if got, err := Pack(g, Set{}, MaxCUs); err != nil || got != g.All() {
			t.Errorf("%+v: all packed: %q, %v", g, got, err)
		}
	}
}
