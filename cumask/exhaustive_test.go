package cumask

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// small is geometries of which every free set and every mask can be tried.
var small = []Geometry{
	{CUs: 9},
	{CUs: 10, XCCs: 2},
	{CUs: 9, XCCs: 3},
	{CUs: 8, XCCs: 4},
	{CUs: 12, XCCs: 6},
	{CUs: 10, XCCs: 10},
	{CUs: 10, SEsPerXCC: 3},
	{CUs: 12, XCCs: 2, SEsPerXCC: 2, SAsPerSE: 1, CUsPerSA: 3},
	{CUs: 10, XCCs: 2, SEsPerXCC: 3},
	{CUs: 9, XCCs: 3, SEsPerXCC: 8},
	{CUs: 8, CUsPerWGP: 2},
	{CUs: 10, CUsPerWGP: 2, SEsPerXCC: 2},
}

// rank is how good a mask is by the exact rules of Pack; bigger is better, rule
// by rule.
type rank struct {
	effective int
	left      []int // free CUs left on each XCC, ascending: the even ones first
}

func rankOf(g Geometry, free, mask Set) rank {
	left := g.Spread(free.Minus(mask)).PerXCC
	slices.Sort(left)
	return rank{g.Effective(mask), left}
}

func (r rank) compare(o rank) int {
	if r.effective != o.effective {
		return r.effective - o.effective
	}
	return slices.Compare(r.left, o.left)
}

// enginesBalanced tells whether, on every XCC, no CU could move from one shader
// engine to another and make the mask more even.
func enginesBalanced(g Geometry, free, mask Set) bool {
	if g.SEsPerXCC == 0 {
		return true
	}
	have, rest := g.Spread(mask).PerSE, g.Spread(free.Minus(mask)).PerSE
	for x := range have {
		for from := range have[x] {
			for to := range have[x] {
				if rest[x][to] > 0 && have[x][from]-have[x][to] > g.wgp() {
					return false
				}
			}
		}
	}
	return true
}

// setOfWord is the set whose first word is w.
func setOfWord(w uint64) Set { return Set{w: [words]uint64{w}} }

// TestPackIsOptimal tries every mask on every free set of the small geometries.
func TestPackIsOptimal(t *testing.T) {
	for _, g := range small {
		t.Run(fmt.Sprintf("%+v", g), func(t *testing.T) {
			t.Parallel()
			step := uint64(1)
			if testing.Short() || raceEnabled {
				step = 37
			}
			for w := uint64(0); w < 1<<g.CUs; w += step {
				free := setOfWord(w)
				usable := g.wholeWGPs(free)
				best := map[int]rank{}
				for m := w; m != 0; m = (m - 1) & w { // every subset of w
					mask := setOfWord(m)
					if g.Check(mask) != nil {
						continue
					}
					r := rankOf(g, usable, mask)
					if had, ok := best[mask.Len()]; !ok || r.compare(had) > 0 {
						best[mask.Len()] = r
					}
				}
				for n := g.Unit(); n <= g.CUs; n += g.wgp() {
					got, err := Pack(g, g.All().Minus(free), n)
					want, possible := best[n]
					if !possible {
						if !errors.Is(err, ErrInsufficient) {
							t.Fatalf("free %q: Pack(%d) = %q, %v; no mask exists", free, n, got, err)
						}
						continue
					}
					if err != nil {
						t.Fatalf("free %q: Pack(%d) = %v; a mask exists", free, n, err)
					}
					checkPacked(t, g, g.All().Minus(free), n, got)
					if r := rankOf(g, usable, got); r.compare(want) != 0 {
						t.Fatalf("free %q: Pack(%d) = %q, %+v; the best is %+v", free, n, got, r, want)
					}
					if !enginesBalanced(g, usable, got) {
						t.Fatalf("free %q: Pack(%d) = %q: shader engines %v", free, n, got, g.Spread(got).PerSE)
					}
				}
			}
		})
	}
}
