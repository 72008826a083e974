package cumask

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		cus  []int
		want string
	}{
		"nothing":                  {nil, ""},
		"one":                      {[]int{0}, "0"},
		"any order":                {[]int{4, 1}, "1,4"},
		"repeats count once":       {[]int{7, 7}, "7"},
		"words meet":               {[]int{63, 64, 127, 128}, "63-64,127-128"},
		"last":                     {[]int{1023}, "1023"},
		"negative is no cu":        {[]int{-1, 3}, "3"},
		"beyond the last is no cu": {[]int{1024, 5000, 3}, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(tc.cus...).String(); got != tc.want {
				t.Errorf("Of(%v) = %q, want %q", tc.cus, got, tc.want)
			}
		})
	}
}

func TestRange(t *testing.T) {
	for name, tc := range map[string]struct {
		lo, hi int
		want   string
		n      int
	}{
		"one":                 {5, 5, "5", 1},
		"within a word":       {60, 63, "60-63", 4},
		"across words":        {60, 67, "60-67", 8},
		"whole words":         {64, 191, "64-191", 128},
		"everything":          {0, 1023, "0-1023", 1024},
		"beyond both ends":    {-5, 2000, "0-1023", 1024},
		"descending":          {7, 4, "", 0},
		"all below":           {-7, -4, "", 0},
		"all above":           {1024, 1030, "", 0},
		"starts below":        {-4, 1, "0-1", 2},
		"ends above":          {1022, 1024, "1022-1023", 2},
		"smallest to highest": {-1 << 63, 1<<63 - 1, "0-1023", 1024},
	} {
		t.Run(name, func(t *testing.T) {
			s := Range(tc.lo, tc.hi)
			if s.String() != tc.want || s.Len() != tc.n || s.Empty() != (tc.n == 0) {
				t.Errorf("Range(%d, %d) = %q of %d, want %q of %d", tc.lo, tc.hi, s, s.Len(), tc.want, tc.n)
			}
		})
	}
}

func TestSetHas(t *testing.T) {
	s := Range(60, 67)
	for cu, want := range map[int]bool{59: false, 60: true, 63: true, 64: true, 67: true, 68: false, -1: false, 1024: false, -1 << 63: false} {
		if s.Has(cu) != want {
			t.Errorf("Has(%d) = %v, want %v", cu, s.Has(cu), want)
		}
	}
}

// TestSetAgainstMap compares every operation with the same on maps.
func TestSetAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 500 {
		a, b := randomSet(r, MaxCUs), randomSet(r, MaxCUs)
		in := func(keep func(inA, inB bool) bool) []int {
			var want []int
			for cu := range MaxCUs {
				if keep(a.Has(cu), b.Has(cu)) {
					want = append(want, cu)
				}
			}
			return want
		}
		for name, tc := range map[string]struct {
			got  Set
			want []int
		}{
			"union":     {a.Union(b), in(func(a, b bool) bool { return a || b })},
			"intersect": {a.Intersect(b), in(func(a, b bool) bool { return a && b })},
			"minus":     {a.Minus(b), in(func(a, b bool) bool { return a && !b })},
		} {
			if diff := cmp.Diff(tc.want, slices.Collect(tc.got.All())); diff != "" {
				t.Fatalf("%s of %q and %q (-want +got):\n%s", name, a, b, diff)
			}
			if tc.got.Len() != len(tc.want) || tc.got != Of(tc.want...) || tc.got.Empty() != (len(tc.want) == 0) {
				t.Fatalf("%s of %q and %q = %q of %d, want %d", name, a, b, tc.got, tc.got.Len(), len(tc.want))
			}
		}
	}
}

func TestSetRanges(t *testing.T) {
	var got [][2]int
	for lo, hi := range Of(0, 1, 2, 3, 8, 10, 11, 12, 63, 64, 1023).Ranges() {
		got = append(got, [2]int{lo, hi})
	}
	want := [][2]int{{0, 3}, {8, 8}, {10, 12}, {63, 64}, {1023, 1023}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Ranges (-want +got):\n%s", diff)
	}
	for lo, hi := range (Set{}).Ranges() {
		t.Errorf("Ranges of nothing yields %d-%d", lo, hi)
	}
}

func TestSetIteratorsStop(t *testing.T) {
	s, n := Range(0, 200), 0
	for range s.All() {
		if n++; n == 3 {
			break
		}
	}
	for range s.Union(Of(300)).Ranges() {
		n++
		break
	}
	if n != 4 {
		t.Errorf("iterated %d times, want 4", n)
	}
}

func TestSetDoesNotAllocate(t *testing.T) {
	a, b := Range(0, 300), Of(1, 64, 900)
	buf := make([]byte, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		s := a.Union(b).Minus(Of(5, 6)).Intersect(Range(3, 1000))
		if s.Has(2) || s.Len() == 0 || s.Empty() || s == a {
			t.Error("wrong set")
		}
		buf, _ = s.AppendText(buf[:0])
	})
	if n != 0 {
		t.Errorf("set operations allocate %v times, want 0", n)
	}
}

// randomSet returns a random set of CUs below limit, from sparse singles to
// long runs.
func randomSet(r *rand.Rand, limit int) Set {
	var s Set
	longest := 1 << r.IntN(8)
	for range r.IntN(24) {
		lo := r.IntN(limit)
		s = s.Union(Range(lo, min(lo+r.IntN(longest), limit-1)))
	}
	return s
}
