package cumask

import (
	"errors"
	"strings"
	"testing"
)

func TestGeometryValidate(t *testing.T) {
	for name, g := range shipped {
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, g := range map[string]Geometry{
		"only cus":            {CUs: 1},
		"as many as fit":      {CUs: MaxCUs, XCCs: MaxCUs},
		"one pair":            {CUs: 2, CUsPerWGP: 2},
		"only shader engines": {CUs: 304, XCCs: 8, SEsPerXCC: 4},
		"arrays not full":     {CUs: 38, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	} {
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGeometryValidateRefuses(t *testing.T) {
	for name, g := range map[string]Geometry{
		"zero value":                 {},
		"negative cus":               {CUs: -304, XCCs: 8},
		"more cus than a mask holds": {CUs: 1025},
		"negative xccs":              {CUs: 304, XCCs: -8},
		"more xccs than cus":         {CUs: 4, XCCs: 8},
		"unequal xccs":               {CUs: 303, XCCs: 8},
		"negative wgps":              {CUs: 96, CUsPerWGP: -2},
		"wgps of three":              {CUs: 96, CUsPerWGP: 3},
		"wgps of four":               {CUs: 96, CUsPerWGP: 4},
		"half a wgp left":            {CUs: 95, CUsPerWGP: 2},
		"xccs with wgps":             {CUs: 96, XCCs: 2, CUsPerWGP: 2},
		"negative ses":               {CUs: 304, XCCs: 8, SEsPerXCC: -4},
		"negative sas":               {CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: -1},
		"negative cus per sa":        {CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: -10},
		"too many ses":               {CUs: 304, SEsPerXCC: 1 << 40},
		"too many ses in all":        {CUs: 304, XCCs: 8, SEsPerXCC: 129},
		"too many sas":               {CUs: 304, SEsPerXCC: 1, SAsPerSE: 1 << 62},
		"array beyond the walk":      {CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 17},
		"arrays too small":           {CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 9},
		"arrays with half a wgp":     {CUs: 32, CUsPerWGP: 2, SEsPerXCC: 2, SAsPerSE: 2, CUsPerSA: 9},
	} {
		err := g.Validate()
		if !errors.Is(err, ErrGeometry) {
			t.Errorf("%s: Validate = %v, want an error of kind ErrGeometry", name, err)
		}
		// The rest must not be worse off for a shape that nobody validated.
		g.Unit()
		g.RoundUp(1)
		g.All()
		g.Spread(Range(0, 100))
		g.Effective(Range(0, 100))
		g.Locate(5)
		for what, err := range map[string]error{
			"Pack":    second(Pack(g, Set{}, 8)),
			"PackAll": second(PackAll(g, Set{}, []int{8})),
			"Check":   g.Check(Range(0, 7)),
			"CUs":     second(RoundPlain.CUs(g, 10, 1)),
			"Format":  second(FormatGlobalCUMask(g, Of(1))),
		} {
			if !errors.Is(err, ErrGeometry) {
				t.Errorf("%s: %s = %v, want an error of kind ErrGeometry", name, what, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestUnitAndRoundUp(t *testing.T) {
	mi300x, rdna, one := Geometry{CUs: 304, XCCs: 8}, Geometry{CUs: 60, CUsPerWGP: 2}, Geometry{CUs: 38}
	for name, tc := range map[string]struct {
		g       Geometry
		unit    int
		n, want int
	}{
		"one for each xcc":       {mi300x, 8, 3, 8},
		"enough":                 {mi300x, 8, 76, 76},
		"not a multiple of xccs": {mi300x, 8, 77, 77},
		"all":                    {mi300x, 8, 304, 304},
		"more than all":          {mi300x, 8, 305, 304},
		"none":                   {mi300x, 8, 0, 8},
		"negative":               {mi300x, 8, -1 << 63, 8},
		"huge":                   {mi300x, 8, 1<<63 - 1, 304},
		"one wgp":                {rdna, 2, 1, 2},
		"whole wgps":             {rdna, 2, 3, 4},
		"whole wgps already":     {rdna, 2, 4, 4},
		"all wgps":               {rdna, 2, 59, 60},
		"nothing to round to":    {one, 1, 0, 1},
		"single cus":             {one, 1, 9, 9},
		"no gpu":                 {Geometry{}, 1, 5, 0},
		"no numXCC published":    {Geometry{CUs: 304}, 1, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.g.Unit(); got != tc.unit {
				t.Errorf("Unit = %d, want %d", got, tc.unit)
			}
			if got := tc.g.RoundUp(tc.n); got != tc.want {
				t.Errorf("RoundUp(%d) = %d, want %d", tc.n, got, tc.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	mi300x, rdna := Geometry{CUs: 304, XCCs: 8}, Geometry{CUs: 60, CUsPerWGP: 2}
	for name, tc := range map[string]struct {
		g    Geometry
		cus  string
		kind error
		says string
	}{
		"a row":                {mi300x, "0-7", nil, ""},
		"one on each":          {mi300x, "0,9,18,27,36,45,54,63", nil, ""},
		"all":                  {mi300x, "0-303", nil, ""},
		"one missing":          {mi300x, "0-6,8-14", ErrGranularity, "xcc 7"},
		"all on one xcc":       {mi300x, "0,8,16,24,32,40,48,56", ErrGranularity, "xcc 1"},
		"beyond the gpu":       {mi300x, "296-304", ErrGeometry, "cu 304"},
		"far beyond":           {mi300x, "0-1023", ErrGeometry, "cu 304"},
		"pairs":                {rdna, "0-1,58-59", nil, ""},
		"half a pair":          {rdna, "0-2", ErrGranularity, "cu 2"},
		"two halves":           {rdna, "1-2", ErrGranularity, "cu 1"},
		"half at a word's end": {rdna, "59", ErrGranularity, "cu 59"},
		"single cus":           {Geometry{CUs: 38}, "37", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSet(tc.cus)
			if err != nil {
				t.Fatal(err)
			}
			err = tc.g.Check(s)
			if !errors.Is(err, tc.kind) || (err == nil) != (tc.kind == nil) {
				t.Fatalf("Check = %v, want %v", err, tc.kind)
			}
			if err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Check = %q, want it to say %q", err, tc.says)
			}
		})
	}
	for _, g := range []Geometry{mi300x, rdna, {CUs: 38}} {
		if err := g.Check(Set{}); !errors.Is(err, ErrGranularity) {
			t.Errorf("Check of nothing on %+v = %v, want ErrGranularity", g, err)
		}
	}
}
