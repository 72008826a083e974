package cumask

import (
	"errors"
	"testing"
)

// TestRoundingTable has the numbers in the documentation of Rounding.CUs.
func TestRoundingTable(t *testing.T) {
	mi300x, rdna := Geometry{CUs: 304, XCCs: 8}, Geometry{CUs: 32, CUsPerWGP: 2}
	const shares = 10
	for _, row := range []struct{ percent, plain, pods, balanced, podsBalanced, pairs int }{
		{1, 8, 10, 8, 10, 2},
		{10, 30, 10, 24, 10, 4},
		{25, 76, 4, 72, 4, 8},
		{33, 100, 3, 96, 3, 10},
		{50, 152, 2, 152, 2, 16},
		{67, 203, 1, 208, 1, 22},
		{100, 304, 1, 304, 1, 32},
	} {
		for _, tc := range []struct {
			r         Rounding
			g         Geometry
			cus, pods int
		}{
			{RoundPlain, mi300x, row.plain, row.pods},
			{RoundBalanced, mi300x, row.balanced, row.podsBalanced},
			{RoundPlain, rdna, row.pairs, min(32/row.pairs, shares)},
			{RoundBalanced, rdna, row.pairs, min(32/row.pairs, shares)},
		} {
			got, err := tc.r.CUs(tc.g, row.percent, shares)
			if err != nil || got != tc.cus || min(tc.g.CUs/got, shares) != tc.pods {
				t.Errorf("%v: %d %% of %d = %d, %v; want %d for %d pods", tc.r, row.percent, tc.g.CUs, got, err, tc.cus, tc.pods)
			}
		}
	}
	for name, tc := range map[string]struct{ shares, want int }{
		"few shares bound the pods":   {4, 32},
		"no shares, cus bound":        {0, 24},
		"negative is no bound either": {-3, 24},
	} {
		if got, err := RoundBalanced.CUs(mi300x, 10, tc.shares); err != nil || got != tc.want {
			t.Errorf("%s: 10 %% balanced = %d, %v; want %d", name, got, err, tc.want)
		}
	}
}

// TestC10PercentToCUs is the cumask part of the case.
func TestC10PercentToCUs(t *testing.T) {
	for _, tc := range []struct {
		g             Geometry
		percent, want int
	}{
		{Geometry{CUs: 304, XCCs: 8}, 25, 76},
		{Geometry{CUs: 304, XCCs: 8}, 33, 100},
		{Geometry{CUs: 304, XCCs: 8}, 67, 203},
		{Geometry{CUs: 304, XCCs: 8}, 1, 8},
		{Geometry{CUs: 304}, 1, 3},
		{Geometry{CUs: 304, XCCs: 8}, 100, 304},
		{Geometry{CUs: 38}, 1, 1},
		{Geometry{CUs: 38}, 25, 9},
		{Geometry{CUs: 20}, 25, 5},
		{Geometry{CUs: 32, CUsPerWGP: 2}, 10, 4},
	} {
		if got, err := RoundPlain.CUs(tc.g, tc.percent, 10); err != nil || got != tc.want {
			t.Errorf("%d %% of %+v = %d, %v; want %d", tc.percent, tc.g, got, err, tc.want)
		}
	}
}

func TestRoundingProperties(t *testing.T) {
	for _, name := range shippedNames() {
		g := shipped[name]
		for percent := 1; percent <= 100; percent++ {
			plain, err := RoundPlain.CUs(g, percent, 10)
			if err != nil {
				t.Fatal(err)
			}
			for shares := range 20 {
				got, err := RoundBalanced.CUs(g, percent, shares)
				pods := func(n int) int {
					if shares == 0 {
						return g.CUs / n
					}
					return min(g.CUs/n, shares)
				}
				switch {
				case err != nil:
					t.Fatal(err)
				case g.checkCount(got) != nil:
					t.Errorf("%s: %d %% balanced = %d, which is not grantable", name, percent, got)
				case got%g.xccs() != 0:
					t.Errorf("%s: %d %% balanced = %d, not a multiple of %d", name, percent, got, g.xccs())
				case pods(got) < pods(plain):
					t.Errorf("%s: %d %% balanced = %d: %d pods, %d with %d", name, percent, got, pods(got), pods(plain), plain)
				case got < plain && got+g.xccs() <= g.CUs && pods(got+g.xccs()) == pods(plain):
					t.Errorf("%s: %d %% balanced = %d, could be %d", name, percent, got, got+g.xccs())
				case got-plain >= g.xccs() || plain-got >= g.xccs():
					t.Errorf("%s: %d %% balanced = %d, far from %d", name, percent, got, plain)
				}
			}
		}
	}
}

func TestRoundingRefuses(t *testing.T) {
	g := Geometry{CUs: 304, XCCs: 8}
	for _, percent := range []int{0, -1, 101, 1 << 40, -1 << 63} {
		if got, err := RoundPlain.CUs(g, percent, 1); !errors.Is(err, ErrGranularity) || got != 0 {
			t.Errorf("%d %% = %d, %v; want ErrGranularity", percent, got, err)
		}
	}
	if got, err := Rounding(7).CUs(g, 50, 1); err == nil || got != 0 {
		t.Errorf("an unknown rounding gives %d, %v", got, err)
	}
}

func TestParseRounding(t *testing.T) {
	for name, want := range map[string]Rounding{"": RoundPlain, "plain": RoundPlain, "balanced": RoundBalanced} {
		got, err := ParseRounding(name)
		if err != nil || got != want {
			t.Errorf("ParseRounding(%q) = %v, %v; want %v", name, got, err, want)
		}
		if name != "" && got.String() != name {
			t.Errorf("%q is printed %q", name, got)
		}
	}
	for _, name := range []string{"Plain", " plain", "up", "rounding(0)", "0"} {
		if got, err := ParseRounding(name); err == nil {
			t.Errorf("ParseRounding(%q) = %v", name, got)
		}
	}
}
