package cumask

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPackAll(t *testing.T) {
	mi300x := Geometry{CUs: 304, XCCs: 8}
	// All of XCC 0 but the CUs 0 and 8 is taken.
	poor := everyNth(304, 8, 0).Minus(Of(0, 8))
	for name, tc := range map[string]struct {
		g     Geometry
		used  Set
		sizes []int
		want  []int // effective CUs of each
	}{
		"two on an idle gpu":            {mi300x, Set{}, []int{76, 38}, []int{72, 32}},
		"the other way round":           {mi300x, Set{}, []int{38, 76}, []int{32, 72}},
		"a poor xcc serves both":        {mi300x, poor, []int{76, 8}, []int{8, 8}},
		"and both ways round":           {mi300x, poor, []int{8, 76}, []int{8, 8}},
		"three cus go to the large one": {mi300x, poor.Minus(Of(16)), []int{8, 76}, []int{8, 16}},
		"equal ones share alike":        {mi300x, everyNth(304, 8, 3).Minus(Of(3, 11, 19, 27)), []int{76, 76}, []int{16, 16}},
		"in proportion to their bounds": {Geometry{CUs: 32, XCCs: 2}, everyNth(32, 2, 1).Minus(Of(1, 3, 5, 7, 9, 11)), []int{12, 6}, []int{8, 4}},
		"everything":                    {mi300x, Set{}, []int{8, 16, 280}, []int{8, 16, 280}},
		"many small ones":               {mi300x, Set{}, slices.Repeat([]int{8}, 38), slices.Repeat([]int{8}, 38)},
		"wgps":                          {Geometry{CUs: 12, CUsPerWGP: 2}, Of(0, 5), []int{2, 4, 2}, []int{2, 4, 2}},
		"one":                           {mi300x, Range(0, 75), []int{76}, []int{72}},
		"none":                          {mi300x, Set{}, nil, nil},
		"single cus of a single xcc":    {Geometry{CUs: 5}, Of(2), []int{1, 1, 1, 1}, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.sizes)
			sets, err := PackAll(tc.g, tc.used, tc.sizes)
			if err != nil {
				t.Fatal(err)
			}
			checkPackedAll(t, tc.g, tc.used, tc.sizes, sets)
			var got []int
			for _, s := range sets {
				got = append(got, tc.g.Effective(s))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("PackAll = %q: effective cus (-want +got):\n%s", sets, diff)
			}
			if !slices.Equal(before, tc.sizes) {
				t.Errorf("sizes became %v", tc.sizes)
			}
		})
	}
}

func checkPackedAll(tb testing.TB, g Geometry, used Set, sizes []int, sets []Set) {
	tb.Helper()
	if len(sets) != len(sizes) {
		tb.Fatalf("%+v: packed %v: %d sets", g, sizes, len(sets))
	}
	for i, s := range sets {
		if s.Len() != sizes[i] || !s.Intersect(used).Empty() {
			tb.Fatalf("%+v, used %q: packed %v as %q: want disjoint sets of these sizes", g, used, sizes, sets)
		}
		if err := g.Check(s); err != nil {
			tb.Fatalf("%+v, used %q: packed %v as %q: %v", g, used, sizes, sets, err)
		}
		used = used.Union(s)
	}
}

func TestPackAllRefuses(t *testing.T) {
	mi300x := Geometry{CUs: 304, XCCs: 8}
	one := everyNth(304, 8, 6).Minus(Of(6))
	for name, tc := range map[string]struct {
		g     Geometry
		used  Set
		sizes []int
		kind  error
		says  string
	}{
		"a size below the unit":    {mi300x, Set{}, []int{76, 7}, ErrGranularity, "grant 2 of 2"},
		"a size of none":           {mi300x, Set{}, []int{0, 76}, ErrGranularity, "grant 1 of 2"},
		"a negative size":          {mi300x, Set{}, []int{76, 8, -8}, ErrGranularity, "grant 3 of 3"},
		"a size above the gpu":     {mi300x, Set{}, []int{305}, ErrGranularity, "want 8 to 304"},
		"half a wgp":               {Geometry{CUs: 32, CUsPerWGP: 2}, Set{}, []int{4, 3}, ErrGranularity, "grant 2 of 2"},
		"together too large":       {mi300x, Set{}, []int{152, 153}, ErrInsufficient, "want 305 cus, 304 free"},
		"more than an xcc has":     {mi300x, one, []int{8, 8}, ErrInsufficient, "xcc 6"},
		"more grants than cus":     {Geometry{CUs: 3}, Set{}, []int{1, 1, 1, 1}, ErrInsufficient, "want 4 cus, 3 free"},
		"more grants than any gpu": {mi300x, Set{}, slices.Repeat([]int{8}, 5000), ErrInsufficient, "want 40000 cus"},
		"no gpu":                   {Geometry{}, Set{}, []int{1}, ErrGeometry, "0 cus"},
		"no gpu, nothing wanted":   {Geometry{}, Set{}, nil, ErrGeometry, "0 cus"},
	} {
		t.Run(name, func(t *testing.T) {
			sets, err := PackAll(tc.g, tc.used, tc.sizes)
			if !errors.Is(err, tc.kind) || sets != nil {
				t.Fatalf("PackAll = %q, %v; want nothing and %v", sets, err, tc.kind)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q, want it to say %q", err, tc.says)
			}
		})
	}
}

func TestPackAllOfOneIsPack(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	for _, name := range shippedNames() {
		g := shipped[name]
		for range 300 {
			used, n := randomSet(r, g.CUs), g.RoundUp(r.IntN(g.CUs))
			one, err := Pack(g, used, n)
			all, errAll := PackAll(g, used, []int{n})
			if (err == nil) != (errAll == nil) || err == nil && all[0] != one {
				t.Fatalf("%s, used %q, %d: Pack = %q, %v; PackAll = %q, %v", name, used, n, one, err, all, errAll)
			}
		}
	}
}

// A plan is what one way to serve all sizes gives, rule by rule.
type plan struct {
	effective int   // of all together
	shares    []int // effective*3600/bound of each, ascending
	left      []int // free CUs left on each XCC, ascending
}

func (p plan) compare(o plan) int {
	if p.effective != o.effective {
		return p.effective - o.effective
	}
	if c := slices.Compare(p.shares, o.shares); c != 0 {
		return c
	}
	return slices.Compare(p.left, o.left)
}

func planOf(g Geometry, free Set, sets []Set) plan {
	var p plan
	for _, s := range sets {
		free = free.Minus(s)
		eff := g.Effective(s)
		p.effective += eff
		p.shares = append(p.shares, eff*3600/(s.Len()/g.xccs()*g.xccs()))
	}
	slices.Sort(p.shares)
	p.left = g.Spread(free).PerXCC
	slices.Sort(p.left)
	return p
}

// TestPackAllIsOptimal gives every unit of small GPUs, in every way, to a former
// holder, to nobody, or to one of the grants, and compares PackAll with the
// best way for each free set and sizes: it must find one where there is one,
// and none better may exist.
func TestPackAllIsOptimal(t *testing.T) {
	for _, tc := range []struct {
		g      Geometry
		grants int
	}{
		{Geometry{CUs: 8, XCCs: 2}, 2},
		{Geometry{CUs: 8, XCCs: 2}, 3},
		{Geometry{CUs: 9, XCCs: 3}, 2},
		{Geometry{CUs: 10, XCCs: 2}, 2},
		{Geometry{CUs: 8, XCCs: 4}, 2},
		{Geometry{CUs: 7}, 3},
		{Geometry{CUs: 14, CUsPerWGP: 2, SEsPerXCC: 2}, 3},
	} {
		t.Run(fmt.Sprintf("%+v, %d grants", tc.g, tc.grants), func(t *testing.T) {
			t.Parallel()
			if (testing.Short() || raceEnabled) && tc.g.CUs == 10 {
				tc.g.CUs = 8
			}
			comparePlans(t, tc.g, tc.grants)
		})
	}
}

func comparePlans(t *testing.T, g Geometry, grants int) {
	type question struct {
		free  Set
		sizes [3]int
	}
	best := map[question]plan{}
	eachAssignment(g, grants, func(free Set, sets []Set) {
		q := question{free: free}
		for i, s := range sets {
			if g.Check(s) != nil {
				return
			}
			q.sizes[i] = s.Len()
		}
		p := planOf(g, free, sets)
		if had, ok := best[q]; !ok || p.compare(had) > 0 {
			best[q] = p
		}
	})
	units := g.CUs / g.wgp()
	for w := uint64(0); w < 1<<units; w++ {
		q := question{free: setOfWord(w)}
		if g.wgp() == 2 {
			q.free = unitsToPairs(q.free)
		}
		eachSizes(g, grants, func(sizes []int) {
			copy(q.sizes[:], sizes)
			want, possible := best[q]
			sets, err := PackAll(g, g.All().Minus(q.free), sizes)
			if !possible {
				if !errors.Is(err, ErrInsufficient) {
					t.Fatalf("free %q: PackAll(%v) = %q, %v; no sets exist", q.free, sizes, sets, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("free %q: PackAll(%v) = %v; sets exist", q.free, sizes, err)
			}
			checkPackedAll(t, g, g.All().Minus(q.free), sizes, sets)
			if got := planOf(g, q.free, sets); got.compare(want) != 0 {
				t.Fatalf("free %q: PackAll(%v) = %q, %+v; the best is %+v", q.free, sizes, sets, got, want)
			}
		})
	}
}

// eachAssignment gives each unit to nobody's use (-2), leaves it free (-1), or
// puts it in one of the sets.
func eachAssignment(g Geometry, grants int, fn func(free Set, sets []Set)) {
	var free Set
	sets := make([]Set, grants)
	var assign func(cu int)
	assign = func(cu int) {
		if cu == g.CUs {
			fn(free, sets)
			return
		}
		unit := Range(cu, cu+g.wgp()-1)
		assign(cu + g.wgp())
		free = free.Union(unit)
		assign(cu + g.wgp())
		for i := range sets {
			had := sets[i]
			sets[i] = had.Union(unit)
			assign(cu + g.wgp())
			sets[i] = had
		}
		free = free.Minus(unit)
	}
	assign(0)
}

// eachSizes yields all sizes that the GPU could take one by one.
func eachSizes(g Geometry, grants int, fn func([]int)) {
	sizes := make([]int, grants)
	var choose func(i int)
	choose = func(i int) {
		if i == grants {
			fn(sizes)
			return
		}
		for n := g.Unit(); n <= g.CUs; n += g.wgp() {
			sizes[i] = n
			choose(i + 1)
		}
	}
	choose(0)
}

// TestC25TwoContainersOnOneGPU is the cumask part of the case's (b): disjoint
// sets, and a union for the pod's annotation.
func TestC25TwoContainersOnOneGPU(t *testing.T) {
	g := Geometry{CUs: 304, XCCs: 8}
	sets, err := PackAll(g, Set{}, []int{76, 38})
	if err != nil {
		t.Fatal(err)
	}
	checkPackedAll(t, g, Set{}, []int{76, 38}, sets)
	if union := sets[0].Union(sets[1]); union.String() != "0-113" {
		t.Errorf("PackAll = %q, the union %q; want 0-113", sets, union)
	}
}

// TestC25WordBoundary is the case's (c).
func TestC25WordBoundary(t *testing.T) {
	s := Range(60, 67)
	hex, err := FormatGlobalCUMask(Geometry{CUs: 304}, s)
	if err != nil {
		t.Fatal(err)
	}
	masks, err := ParseHSAMask("0:" + hex)
	if err != nil || len(masks) != 1 || masks[0].CUs != s {
		t.Errorf("ParseHSAMask(0:%s) = %v, %v; want 60-67", hex, masks, err)
	}
	if got := mustParse(t, s.String()); got != s {
		t.Errorf("ParseSet(%q) = %q", s, got)
	}
}
