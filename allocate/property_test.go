package allocate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// randomPod has up to six containers of all roles on device A, each with a
// size the GPU can take.
func randomPod(r *rand.Rand, g cumask.Geometry) allocate.Pod {
	p := allocate.Pod{UID: uid}
	var apps []allocate.PodContainer
	var inits, appGrants annotations.PodGrants
	for i := range 1 + r.IntN(6) {
		c := allocate.PodContainer{Name: fmt.Sprintf("c%d", i), Role: allocate.Role(r.IntN(3)), Asks: true}
		size := g.RoundUp(r.IntN(g.CUs/4) + 1)
		if c.Role == allocate.Init && r.IntN(2) == 0 {
			size = g.RoundUp(r.IntN(g.CUs) + 1) // larger than the app containers together
		}
		if r.IntN(8) == 0 {
			size = 0 // memory only
		}
		grants := []annotations.Grant{grant("A", int32(1+r.IntN(50)), int32(size))}
		if c.Role == allocate.App {
			apps, appGrants = append(apps, c), append(appGrants, grants)
		} else {
			p.Containers, inits = append(p.Containers, c), append(inits, grants)
		}
	}
	p.Containers = append(p.Containers, apps...)
	p.Grants = append(inits, appGrants...)
	return p
}

// atOnce are the groups of containers that run at the same time, written down
// once more from Kubernetes' rules.
func atOnce(p allocate.Pod) [][]int {
	var groups [][]int
	var sidecars, last []int
	for i, c := range p.Containers {
		switch c.Role {
		case allocate.Init:
			groups = append(groups, append([]int{i}, sidecars...))
		case allocate.Sidecar:
			sidecars = append(sidecars, i)
		default:
			last = append(last, i)
		}
	}
	return append(groups, append(last, sidecars...))
}

func TestPlanKeepsItsPromises(t *testing.T) {
	for name, shape := range map[string]gpu{
		"MI300X":     mi300x(0),
		"MI210":      {id: "A", rocr: 1, cus: 104, memory: 65520, renderer: 128},
		"RX 9060 XT": {id: "A", rocr: 1, cus: 32, wgp: 2, memory: 16304, renderer: 128},
		"MI308X":     {id: "A", rocr: 1, cus: 80, xccs: 4, memory: 196608, renderer: 128},
	} {
		t.Run(name, func(t *testing.T) {
			g := cumask.Geometry{CUs: shape.cus, XCCs: shape.xccs, CUsPerWGP: shape.wgp}
			r := rand.New(rand.NewPCG(1, uint64(shape.cus)))
			planned := 0
			for range 3000 {
				p, n := randomPod(r, g), node(shape)
				n.Held = map[string]cumask.Set{"A": randomHeld(r, g)}
				a, err := allocate.Plan(p, n)
				if err != nil {
					if !errors.Is(err, cumask.ErrInsufficient) {
						t.Fatalf("%v\npod %+v", err, p)
					}
					if possible(g, p, n.Held["A"]) {
						t.Fatalf("refused a pod that fits: %v\nheld %s\npod %+v", err, n.Held["A"], p)
					}
					continue
				}
				planned++
				checkPlan(t, g, p, n, a)
			}
			if planned < 500 {
				t.Errorf("only %d of 3000 pods were planned", planned)
			}
		})
	}
}

// randomHeld is what other pods hold: whole WGPs, of few or of many CUs.
func randomHeld(r *rand.Rand, g cumask.Geometry) cumask.Set {
	var s cumask.Set
	wgp, often := max(g.CUsPerWGP, 1), r.IntN(10)
	for cu := 0; cu < g.CUs; cu += wgp {
		if r.IntN(10) < often {
			s = s.Union(cumask.Range(cu, cu+wgp-1))
		}
	}
	return s
}

// possible reports whether each group of the pod fits the free CUs: enough in
// all, and on every XCC one for each container.
func possible(g cumask.Geometry, p allocate.Pod, held cumask.Set) bool {
	free := g.All().Minus(held)
	for _, group := range atOnce(p) {
		sum, holders := 0, 0
		for _, i := range group {
			if n := int(p.Grants[i][0].CUs); n > 0 {
				sum, holders = sum+n, holders+1
			}
		}
		for _, count := range g.Spread(free).PerXCC {
			if count < holders {
				return false
			}
		}
		if sum > free.Len() {
			return false
		}
	}
	return true
}

func peakCUs(p allocate.Pod) int {
	peak := 0
	for _, group := range atOnce(p) {
		sum := 0
		for _, i := range group {
			sum += int(p.Grants[i][0].CUs)
		}
		peak = max(peak, sum)
	}
	return peak
}

func checkPlan(t *testing.T, g cumask.Geometry, p allocate.Pod, n allocate.Node, a *allocate.Allocation) {
	t.Helper()
	for i, c := range a.Containers {
		set, want := c.Devices[0].CUs, int(p.Grants[i][0].CUs)
		if set.Len() != want {
			t.Fatalf("container %d has %d CUs, granted %d", i, set.Len(), want)
		}
		if want > 0 {
			if err := g.Check(set); err != nil {
				t.Fatalf("container %d: %v", i, err)
			}
		}
		if clash := set.Intersect(n.Held["A"]); !clash.Empty() {
			t.Fatalf("container %d has CUs %s of other pods", i, clash)
		}
	}
	for _, group := range atOnce(p) {
		var union cumask.Set
		sum := 0
		for _, i := range group {
			set := a.Containers[i].Devices[0].CUs
			union, sum = union.Union(set), sum+set.Len()
		}
		if union.Len() != sum {
			t.Fatalf("containers %v run at the same time and share CUs", group)
		}
	}
	if got, want := a.CUs["A"].Len(), peakCUs(p); got != want {
		t.Fatalf("the pod holds %d CUs, the scheduler counted its peak of %d\npod %+v", got, want, p)
	}
}

func TestPlanIsDeterministic(t *testing.T) {
	g := mi300x(0)
	r := rand.New(rand.NewPCG(2, 3))
	for range 200 {
		p, n := randomPod(r, cumask.Geometry{CUs: g.cus, XCCs: g.xccs}), node(g)
		n.Held = map[string]cumask.Set{"A": randomHeld(r, cumask.Geometry{CUs: g.cus})}
		first, err1 := allocate.Plan(p, n)
		second, err2 := allocate.Plan(p, n)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("errors differ: %v and %v", err1, err2)
		}
		if err1 == nil && fmt.Sprintf("%+v", *first) != fmt.Sprintf("%+v", *second) {
			t.Fatalf("answers differ:\n%+v\n%+v", first, second)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	p := pod([]annotations.Grant{grant("A", 16384, 76), grant("B", 16384, 76)}, []annotations.Grant{grant("A", 8192, 38)})
	n := node(mi300x(0), mi300x(1))
	n.Held = map[string]cumask.Set{"A": cumask.Range(10, 150), "B": cumask.Range(60, 90)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := allocate.Plan(p, n); err != nil {
			b.Fatal(err)
		}
	}
}
