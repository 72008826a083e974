package cumask

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(tb testing.TB, list string) Set {
	tb.Helper()
	if list == "" {
		return Set{}
	}
	s, err := ParseSet(list)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// everyNth returns the CUs below limit that are rest modulo n: one XCC of n.
func everyNth(limit, n, rest int) Set {
	var s Set
	for cu := rest; cu < limit; cu += n {
		s.put(cu)
	}
	return s
}

// checkPacked fails unless got is what Pack promises about counts: n CUs, not
// in used, a mask the GPU can take, and as effective as any.
func checkPacked(tb testing.TB, g Geometry, used Set, n int, got Set) {
	tb.Helper()
	if got.Len() != n || !got.Intersect(used).Empty() {
		tb.Fatalf("%+v, used %q: packed %q: %d cus, want %d disjoint ones", g, used, got, got.Len(), n)
	}
	if err := g.Check(got); err != nil {
		tb.Fatalf("%+v, used %q: packed %d: %v", g, used, n, err)
	}
	if eff, bound := g.Effective(got), effectiveBound(g, used, n); eff != bound {
		tb.Fatalf("%+v, used %q: packed %q: %d effective, want %d", g, used, got, eff, bound)
	}
}

// effectiveBound is what no mask of n CUs can exceed.
func effectiveBound(g Geometry, used Set, n int) int {
	least := g.Effective(g.All().Minus(used))
	return min(n/g.xccs()*g.xccs(), least)
}

func TestPack(t *testing.T) {
	mi300x, rdna := Geometry{CUs: 304, XCCs: 8}, Geometry{CUs: 60, CUsPerWGP: 2}
	for name, tc := range map[string]struct {
		g    Geometry
		used string
		n    int
		want string
	}{
		"a quarter of an idle gpu":           {mi300x, "", 76, "0-75"},
		"the next quarter":                   {mi300x, "0-75", 76, "76-151"},
		"all of it":                          {mi300x, "", 304, "0-303"},
		"all that is left":                   {mi300x, "0-295", 8, "296-303"},
		"the shortest run that fits":         {mi300x, "0-95,120-127,152-199", 24, "96-119"},
		"the longest run when none fits":     {Geometry{CUs: 20}, "3,14,16", 12, "0-1,4-13"},
		"across words":                       {mi300x, "0-59,68-303", 8, "60-67"},
		"what is over comes from the fuller": {Geometry{CUs: 12, XCCs: 3}, "0-1,3", 5, "4-8"},
		"cus that the gpu does not have":     {mi300x, "0-75,304-1023", 8, "76-83"},
		"first whole wgp":                    {rdna, "0,6-59", 2, "2-3"},
		"scattered wgps":                     {rdna, "0,3,6-55", 6, "4-5,56-59"},
		"engines in turn":                    {Geometry{CUs: 16, SEsPerXCC: 4}, "1-3,5-7", 6, "8-13"},
	} {
		t.Run(name, func(t *testing.T) {
			used := mustParse(t, tc.used)
			got, err := Pack(tc.g, used, tc.n)
			if err != nil {
				t.Fatal(err)
			}
			checkPacked(t, tc.g, used, tc.n, got)
			if got.String() != tc.want {
				t.Errorf("Pack = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPackRefuses(t *testing.T) {
	mi300x, rdna, cpx := Geometry{CUs: 304, XCCs: 8}, Geometry{CUs: 60, CUsPerWGP: 2}, Geometry{CUs: 38}
	for name, tc := range map[string]struct {
		g    Geometry
		used Set
		n    int
		kind error
		want *InsufficientError
	}{
		"none":                     {mi300x, Set{}, 0, ErrGranularity, nil},
		"negative":                 {mi300x, Set{}, -76, ErrGranularity, nil},
		"smallest":                 {rdna, Set{}, -1 << 63, ErrGranularity, nil},
		"huge":                     {mi300x, Set{}, 1<<63 - 1, ErrGranularity, nil},
		"fewer than xccs":          {mi300x, Set{}, 7, ErrGranularity, nil},
		"more than the gpu":        {mi300x, Set{}, 305, ErrGranularity, nil},
		"half a wgp":               {rdna, Set{}, 1, ErrGranularity, nil},
		"a wgp and a half":         {rdna, Set{}, 3, ErrGranularity, nil},
		"none on a single xcc":     {cpx, Set{}, 0, ErrGranularity, nil},
		"one too many":             {mi300x, Range(0, 75), 229, ErrInsufficient, &InsufficientError{Want: 229, Free: 228, XCC: -1}},
		"full":                     {mi300x, Range(0, 303), 8, ErrInsufficient, &InsufficientError{Want: 8, Free: 0, XCC: 0}},
		"full single xcc":          {cpx, Range(0, 37), 1, ErrInsufficient, &InsufficientError{Want: 1, Free: 0, XCC: -1}},
		"xcc 5 is full":            {mi300x, everyNth(304, 8, 5), 8, ErrInsufficient, &InsufficientError{Want: 8, Free: 266, XCC: 5}},
		"only halves of wgps":      {rdna, everyNth(60, 2, 0), 2, ErrInsufficient, &InsufficientError{Want: 2, Free: 0, XCC: -1}},
		"used up, and more beside": {cpx, Range(0, 1023), 1, ErrInsufficient, &InsufficientError{Want: 1, Free: 0, XCC: -1}},
		"no gpu":                   {Geometry{}, Set{}, 1, ErrGeometry, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Pack(tc.g, tc.used, tc.n)
			if !errors.Is(err, tc.kind) || !got.Empty() {
				t.Fatalf("Pack = %q, %v; want nothing and %v", got, err, tc.kind)
			}
			var short *InsufficientError
			errors.As(err, &short)
			if diff := cmp.Diff(tc.want, short); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInsufficientErrorSaysWhatIsShort(t *testing.T) {
	_, err := Pack(Geometry{CUs: 304, XCCs: 8}, everyNth(304, 8, 5), 8)
	const want = "want 8 cus, 266 free, too few of them on xcc 5: insufficient free cus"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	_, err = Pack(Geometry{CUs: 38}, Range(0, 29), 9)
	if want := "want 9 cus, 8 free: insufficient free cus"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestC21HalfAWGP is the cumask part of the case.
func TestC21HalfAWGP(t *testing.T) {
	g := Geometry{CUs: 60, CUsPerWGP: 2}
	n, err := RoundPlain.CUs(g, 5, 10)
	if err != nil || n%2 != 0 || n < 3 {
		t.Errorf("5 %% of 60 = %d, %v; want an even number that holds 3", n, err)
	}
	if got, err := Pack(g, Set{}, n); err != nil || got.Len() != n {
		t.Errorf("Pack(%d) = %q, %v", n, got, err)
	}
	if got, err := Pack(g, g.All().Minus(Range(1, 5)), 2); err != nil || got != Range(2, 3) && got != Range(4, 5) {
		t.Errorf("Pack of 2 from 1-5 = %q, %v; want 2-3 or 4-5", got, err)
	}
	if got, err := Pack(g, g.All().Minus(Of(1, 4)), 2); !errors.Is(err, ErrInsufficient) {
		t.Errorf("Pack of 2 from 1,4 = %q, %v; want ErrInsufficient", got, err)
	}
	r := rand.New(rand.NewPCG(21, 1))
	for range 2000 {
		used := randomSet(r, g.CUs)
		got, err := Pack(g, used, 2+2*r.IntN(30))
		if err != nil {
			continue
		}
		for k := range g.CUs / 2 {
			if got.Has(2*k) != got.Has(2*k+1) {
				t.Fatalf("packed %q: half of wgp %d", got, k)
			}
		}
	}
}

// TestC23ContiguousRangeStarvesXCCs is the cumask part of the case.
func TestC23ContiguousRangeStarvesXCCs(t *testing.T) {
	for name, g := range map[string]Geometry{"spx": {CUs: 304, XCCs: 8}, "dpx": {CUs: 152, XCCs: 4}} {
		t.Run(name, func(t *testing.T) {
			for percent := 1; percent <= 100; percent++ {
				n, err := RoundPlain.CUs(g, percent, 10)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Pack(g, Set{}, n)
				if err != nil || got.Len() != n {
					t.Fatalf("%d %%: Pack(%d) = %q, %v", percent, n, got, err)
				}
				per := g.Spread(got).PerXCC
				for x, c := range per {
					if c == 0 || c-per[len(per)-1] > 1 || c < per[len(per)-1] {
						t.Errorf("%d %%: %q has %d cus on xcc %d of %v", percent, got, c, x, per)
					}
				}
			}
			if n, _ := RoundPlain.CUs(g, 1, 10); n != g.XCCs {
				t.Errorf("1 %% is %d cus, want one for each of %d xccs", n, g.XCCs)
			}
			only := everyNth(g.CUs, g.XCCs, 0)
			got, err := Pack(g, g.All().Minus(only), 8)
			if !errors.Is(err, ErrInsufficient) || !strings.Contains(err.Error(), "xcc 1") {
				t.Errorf("Pack from xcc 0 alone = %q, %v; want ErrInsufficient for xcc 1", got, err)
			}
		})
	}
	if got, err := Pack(Geometry{CUs: 304, XCCs: 8}, Set{}, 76); err != nil || got != Range(0, 75) {
		t.Errorf("Pack(76) = %q, %v; want 0-75", got, err)
	}
}

func TestPackIsDeterministicAndKeepsItsInput(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, name := range shippedNames() {
		g := shipped[name]
		used := randomSet(r, g.CUs)
		before := used
		n := g.RoundUp(g.CUs / 8)
		first, err := Pack(g, used, n)
		for range 10 {
			again, err2 := Pack(g, used, n)
			if again != first || (err == nil) != (err2 == nil) || used != before {
				t.Fatalf("%s: Pack = %q, %v, then %q, %v", name, first, err, again, err2)
			}
		}
	}
}

func TestPackDoesNotAllocate(t *testing.T) {
	for _, g := range []Geometry{shipped["mi300x spx"], shipped["rx 7900 xtx"], {CUs: 1024, XCCs: 32, SEsPerXCC: 32}} {
		used := Range(3, 9).Union(Range(20, 41))
		if n := testing.AllocsPerRun(50, func() { Pack(g, used, 32) }); n != 0 {
			t.Errorf("Pack on %+v allocates %v times, want 0", g, n)
		}
	}
}
