package cumask

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLocate has the places that follow from the kernel's walk by hand.
func TestLocate(t *testing.T) {
	for name, tc := range map[string]struct {
		g    Geometry
		cu   int
		want Location
	}{
		"mi300x first":               {shipped["mi300x spx"], 0, Location{0, 0, 0, 0}},
		"mi300x next is another xcc": {shipped["mi300x spx"], 1, Location{1, 0, 0, 0}},
		"mi300x 8 is the next se":    {shipped["mi300x spx"], 8, Location{0, 1, 0, 0}},
		"mi300x 24":                  {shipped["mi300x spx"], 24, Location{0, 3, 0, 0}},
		"mi300x 32 goes up":          {shipped["mi300x spx"], 32, Location{0, 0, 0, 1}},
		"cpx":                        {shipped["mi300x cpx"], 6, Location{0, 2, 0, 1}},
		"mi210":                      {shipped["mi210"], 9, Location{0, 1, 0, 1}},
		"7900 xtx first pair":        {shipped["rx 7900 xtx"], 1, Location{0, 0, 0, 1}},
		"7900 xtx second pair":       {shipped["rx 7900 xtx"], 2, Location{0, 1, 0, 0}},
		"7900 xtx last se":           {shipped["rx 7900 xtx"], 11, Location{0, 5, 0, 1}},
		"7900 xtx second arrays":     {shipped["rx 7900 xtx"], 12, Location{0, 0, 1, 0}},
		"7900 xtx back to the first": {shipped["rx 7900 xtx"], 25, Location{0, 0, 0, 3}},
		"shader engines unknown":     {Geometry{CUs: 304, XCCs: 8}, 11, Location{3, -1, -1, -1}},
		"arrays unknown":             {Geometry{CUs: 304, XCCs: 8, SEsPerXCC: 4}, 11, Location{3, 1, -1, -1}},
		"size of the arrays unknown": {Geometry{CUs: 96, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2}, 13, Location{0, 0, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := tc.g.Locate(tc.cu); !ok || got != tc.want {
				t.Errorf("Locate(%d) = %+v, %v; want %+v", tc.cu, got, ok, tc.want)
			}
		})
	}
	for _, cu := range []int{-1, 304, 1024} {
		if got, ok := shipped["mi300x spx"].Locate(cu); ok {
			t.Errorf("Locate(%d) = %+v, true", cu, got)
		}
	}
}

// kernelWalk deals mask bits out as the kernel does (kfd_mqd_manager.c), given
// the active CUs of every (XCC, SE, SA), and returns the place of each bit.
func kernelWalk(g Geometry, active func(xcc, se, sa int) int) map[int]Location {
	at := map[int]Location{}
	for xcc := range g.xccs() {
		i := xcc
		for cu := 0; cu < 16; cu += g.wgp() {
			for sa := range g.SAsPerSE {
				for se := range g.SEsPerXCC {
					if active(xcc, se, sa) <= cu || i >= g.CUs {
						continue
					}
					for k := range g.wgp() {
						at[i+k] = Location{xcc, se, sa, cu + k}
					}
					i += g.xccs() * g.wgp()
				}
			}
		}
	}
	return at
}

func TestLocateFollowsTheKernelsWalk(t *testing.T) {
	full := map[string]Geometry{
		"7900 xtx":       shipped["rx 7900 xtx"],
		"arrays of 10":   {CUs: 40, CUsPerWGP: 2, SEsPerXCC: 2, SAsPerSE: 2, CUsPerSA: 10},
		"mi300x uncut":   {CUs: 320, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
		"two arrays":     {CUs: 96, XCCs: 2, SEsPerXCC: 3, SAsPerSE: 2, CUsPerSA: 8},
		"arrays of 16":   {CUs: 128, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 16},
		"pairs, 16 deep": {CUs: 64, CUsPerWGP: 2, SEsPerXCC: 2, SAsPerSE: 2, CUsPerSA: 16},
	}
	for name, g := range full {
		walk := kernelWalk(g, func(int, int, int) int { return g.CUsPerSA })
		if !g.Exact() || len(walk) != g.CUs {
			t.Fatalf("%s: Exact = %v, the walk reaches %d of %d cus", name, g.Exact(), len(walk), g.CUs)
		}
		for cu, want := range walk {
			if got, ok := g.Locate(cu); !ok || got != want {
				t.Errorf("%s: Locate(%d) = %+v, want %+v", name, cu, got, want)
			}
		}
	}
}

// On a harvested GPU the XCC stays right whatever is missing, and the rest up
// to the CUs that the poorest array still has.
func TestLocateOnHarvestedGPUs(t *testing.T) {
	g := shipped["mi300x spx"]
	if g.Exact() {
		t.Fatal("a GPU with 304 of 320 CUs is not full")
	}
	walk := kernelWalk(g, func(xcc, se, _ int) int {
		if (se+xcc)%2 == 0 {
			return 9
		}
		return 10
	})
	if len(walk) != g.CUs {
		t.Fatalf("the walk reaches %d of %d cus", len(walk), g.CUs)
	}
	for cu, want := range walk {
		got, _ := g.Locate(cu)
		if got.XCC != want.XCC || cu < 9*32 && got != want {
			t.Errorf("Locate(%d) = %+v, want %+v", cu, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		g    Geometry
		cus  Set
		want Spread
	}{
		"76 of an mi300x": {
			Geometry{CUs: 304, XCCs: 8}, Range(0, 75),
			Spread{PerXCC: []int{10, 10, 10, 10, 9, 9, 9, 9}, Effective: 72},
		},
		"an xcc without": {
			Geometry{CUs: 304, XCCs: 8}, Range(0, 6),
			Spread{PerXCC: []int{1, 1, 1, 1, 1, 1, 1, 0}, Effective: 0},
		},
		"beyond the gpu": {
			Geometry{CUs: 304, XCCs: 8}, Range(296, 400),
			Spread{PerXCC: []int{1, 1, 1, 1, 1, 1, 1, 1}, Effective: 8},
		},
		"shader engines of a harvested gpu": {
			Geometry{CUs: 76, XCCs: 2, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}, Range(0, 9),
			Spread{PerXCC: []int{5, 5}, PerSE: [][]int{{2, 1, 1, 1}, {2, 1, 1, 1}}, Nominal: true, Effective: 10},
		},
		"shader engines of a full gpu": {
			shipped["rx 7900 xtx"], Range(0, 13),
			Spread{PerXCC: []int{14}, PerSE: [][]int{{4, 2, 2, 2, 2, 2}}, Effective: 14},
		},
		"nothing": {
			Geometry{CUs: 38}, Set{},
			Spread{PerXCC: []int{0}, Effective: 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.g.Spread(tc.cus)); diff != "" {
				t.Errorf("Spread (-want +got):\n%s", diff)
			}
			if got := tc.g.Effective(tc.cus); got != tc.want.Effective {
				t.Errorf("Effective = %d, want %d", got, tc.want.Effective)
			}
		})
	}
}

func TestSpreadCountsEveryCUOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for name, g := range shipped {
		for range 50 {
			s := randomSet(r, g.CUs)
			sp := g.Spread(s)
			sum, sumSE := 0, 0
			for x, n := range sp.PerXCC {
				sum += n
				if sp.PerSE != nil {
					for _, m := range sp.PerSE[x] {
						sumSE += m
					}
				}
			}
			if sum != s.Len() || sp.PerSE != nil && sumSE != s.Len() {
				t.Fatalf("%s: %q has %d cus, by xcc %d, by se %d", name, s, s.Len(), sum, sumSE)
			}
		}
	}
}
