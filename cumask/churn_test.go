package cumask

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestPackUnderChurn packs a million masks on GPUs where grants of 2 to 50 %
// come and go at random, and checks each of them.
func TestPackUnderChurn(t *testing.T) {
	packs := 1_000_000
	switch {
	case testing.Short():
		packs = 20_000
	case raceEnabled:
		packs = 100_000
	}
	for _, name := range shippedNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			churn(t, shipped[name], packs/len(shipped)+1)
		})
	}
}

func churn(t *testing.T, g Geometry, packs int) {
	r := rand.New(rand.NewPCG(uint64(g.CUs), 17))
	var live []Set
	var used Set
	release := func() {
		i := r.IntN(len(live))
		used = used.Minus(live[i])
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
	}
	fitted := 0
	for fitted < packs {
		n := g.RoundUp(g.CUs * (2 + r.IntN(49)) / 100)
		got, err := Pack(g, used, n)
		if err != nil {
			if !errors.Is(err, ErrInsufficient) || len(live) == 0 {
				t.Fatalf("used %q: Pack(%d) = %v", used, n, err)
			}
			release()
			continue
		}
		checkPacked(t, g, used, n, got)
		used = used.Union(got)
		live = append(live, got)
		fitted++
		for len(live) > 0 && r.IntN(4) == 0 {
			release()
		}
	}
}

func FuzzPack(f *testing.F) {
	f.Add(304, 8, 1, 4, 1, 10, 76, uint64(1), uint64(0xff), uint64(0), uint64(7))
	f.Add(60, 1, 2, 0, 0, 0, 2, uint64(0b111110), uint64(0), uint64(0), uint64(0))
	f.Add(1024, 32, 1, 32, 1, 16, 500, ^uint64(0), uint64(1)<<63, uint64(5), uint64(0xaaaaaaaaaaaaaaaa))
	f.Add(0, 0, 0, 0, 0, 0, -1, uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(3, 3, 0, 300, 9, 1, 3, uint64(0), uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, cus, xccs, wgp, ses, sas, perSA, n int, a, b, c, d uint64) {
		g := Geometry{CUs: cus, XCCs: xccs, CUsPerWGP: wgp, SEsPerXCC: ses, SAsPerSE: sas, CUsPerSA: perSA}
		used := Set{w: [words]uint64{a, b, c, d, d ^ a, 0, b, c, a, a & b, 0, 0, c, d, d, 1}}
		got, err := Pack(g, used, n)
		if err != nil {
			if !got.Empty() {
				t.Fatalf("Pack = %q and %v", got, err)
			}
			if g.Validate() == nil && errors.Is(err, ErrGeometry) {
				t.Fatalf("Pack on %+v = %v", g, err)
			}
		} else {
			checkPacked(t, g, used, n, got)
			if !enginesBalanced(g, g.wholeWGPs(g.All().Minus(used)), got) {
				t.Fatalf("%+v, used %q: packed %q: shader engines %v", g, used, got, g.Spread(got).PerSE)
			}
		}
		// A second grant of the same size fits when there is room by the counts.
		sets, errAll := PackAll(g, used, []int{n, n})
		if errAll == nil {
			checkPackedAll(t, g, used, []int{n, n}, sets)
		} else if err == nil && 2*n <= g.wholeWGPs(g.All().Minus(used)).Len() && effectiveBound(g, used, 2*n) >= 2*g.xccs() {
			t.Fatalf("%+v, used %q: PackAll(%d, %d) = %v", g, used, n, n, errAll)
		}
	})
}
