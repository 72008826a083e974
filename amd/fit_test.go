package amd

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestC10PercentToCUs(t *testing.T) {
	for name, test := range map[string]struct {
		percent, cus, xccs int32
		want               int32
	}{
		"25 % of MI300X":                    {25, 304, 8, 76},
		"33 % of MI300X":                    {33, 304, 8, 100},
		"67 % of MI300X":                    {67, 304, 8, 203},
		"1 % of MI300X":                     {1, 304, 8, 8},
		"1 % where no XCCs are published":   {1, 304, 0, 3},
		"100 % of MI300X":                   {100, 304, 8, 304},
		"1 % of a CPX partition":            {1, 38, 1, 1},
		"25 % of a CPX partition":           {25, 38, 1, 9},
		"25 % of a CPX partition of MI308X": {25, 20, 1, 5},
	} {
		t.Run(name, func(t *testing.T) {
			u := Usage{ID: "a", Type: "AMD X", Health: true, Count: 10, MemoryMiB: 1000, CUs: test.cus, XCCs: test.xccs}
			grants, reasons := newDevices(t, Config{}).Fit(
				Request{Count: 1, MemoryMiB: 1, Cores: test.percent}, Policy{}, 1, from([]Usage{u}))
			if reasons.Refused() || grants[0].CUs != test.want {
				t.Errorf("%v %v, want %d CUs", grants, reasons, test.want)
			}
		})
	}
}

func TestC15UnhealthyOrZeroSized(t *testing.T) {
	quarter := Request{Count: 1, MemoryMiB: 1024, Cores: 25}
	a := Usage{ID: "a", Type: "AMD X", Count: 10, MemoryMiB: 196288, CUs: 304, XCCs: 8}
	b := a
	b.ID, b.Health, b.Used, b.UsedMiB, b.UsedCUs = "b", true, 1, 98144, 152
	d := newDevices(t, Config{})
	for _, usage := range [][]Usage{{a, b}, {b, a}} {
		if grants, reasons := d.Fit(quarter, Policy{}, 2, from(usage)); reasons.Refused() || grants[0].UUID != "b" {
			t.Errorf("unhealthy and empty beside healthy: %v %v, want the healthy one", grants, reasons)
		}
	}
	if _, reasons := d.Fit(quarter, Policy{}, 1, from([]Usage{a})); reasons.String() != "1/1 CardNotHealth" {
		t.Errorf("only unhealthy: %v", reasons)
	}
	for name, zero := range map[string]func(*Usage){
		"count":   func(u *Usage) { u.Count = 0 },
		"devmem":  func(u *Usage) { u.MemoryMiB = 0 },
		"devcore": func(u *Usage) { u.CUs = 0 },
	} {
		u := a
		u.Health = true
		zero(&u)
		usage := []Usage{u}
		for _, req := range []Request{quarter, {Count: 1, Cores: 100}, {Count: 1, MemoryPercent: 1}, {Count: 1, Cores: 1}} {
			if grants, reasons := d.Fit(req, Policy{}, 1, from(usage)); !reasons.Refused() {
				t.Errorf("%s 0: %v granted for %+v", name, grants, req)
			}
		}
		score := d.Score([]annotations.Grant{{UUID: "a", MemoryMiB: 1, CUs: 1}}, 1, from(usage))
		if node := nodeScore(usage); math.IsNaN(float64(score)) || math.IsInf(float64(score), 0) || node != 0 {
			t.Errorf("%s 0: score %v, node score %v, want finite and 0", name, score, node)
		}
	}
}

// The other nodes are still scored beside one that has a zero-sized device.
func TestC15OtherNodesAreScored(t *testing.T) {
	broken := mi300x("broken-")
	for i := range broken {
		broken[i].Count, broken[i].Devmem, broken[i].Devcore = 0, 0, 0
	}
	nodes := []*corev1.Node{newNode(t, "a", broken), newNode(t, "b", mi300x("g"))}
	decision, err := newDevices(t, Config{}).Schedule(gpuPod("new", "1", "1024", "25"), nodes, nil, ScheduleOptions{})
	if err != nil || decision.Node != "b" || len(decision.Refusals) != 1 {
		t.Errorf("%q, %v %v, want node b", decision.Node, err, decision.Refusals)
	}
}

func TestFitAsksForNothing(t *testing.T) {
	at := func(int, *Usage) { t.Error("a candidate was looked at") }
	for _, count := range []int32{0, -1, math.MinInt32} {
		grants, reasons := newDevices(t, Config{}).Fit(Request{Count: count}, Policy{}, 8, at)
		if grants != nil || reasons.Refused() {
			t.Errorf("%d GPUs: %v %v, want no grants and no refusal", count, grants, reasons)
		}
	}
}

// Requests that Request never returns, from an adapter or a test, are refused.
func TestFitRefusesImpossibleRequests(t *testing.T) {
	usage := usages(mi300x("g"))
	for _, req := range []Request{
		{Count: 1, Cores: -1}, {Count: 1, Cores: 101}, {Count: 1, MemoryMiB: -1}, {Count: 1, MemoryPercent: -1},
		{Count: 1, MemoryPercent: 101}, {Count: math.MaxInt32, Cores: 100}, {Count: 1, MemoryMiB: math.MaxInt32, Cores: 1},
	} {
		if grants, reasons := newDevices(t, Config{}).Fit(req, Policy{}, len(usage), from(usage)); !reasons.Refused() || grants != nil || reasons.String() == "" {
			t.Errorf("%+v: %v %v, want a refusal", req, grants, reasons)
		}
	}
}

// Numbers that come from annotations nobody checked are not trusted.
func TestFitWithHostileUsage(t *testing.T) {
	d := newDevices(t, Config{})
	for name, change := range map[string]func(*Usage){
		"negative use":    func(u *Usage) { u.Used, u.UsedMiB, u.UsedCUs = math.MinInt32, math.MinInt32, math.MinInt32 },
		"all that fits":   func(u *Usage) { u.Used, u.UsedMiB, u.UsedCUs = 1, math.MaxInt32, math.MaxInt32 },
		"negative sizes":  func(u *Usage) { u.MemoryMiB, u.CUs = -1, -1 },
		"negative shares": func(u *Usage) { u.Count = -1 },
		"endless CUs":     func(u *Usage) { u.CUs = math.MaxInt32 },
		"negative XCCs":   func(u *Usage) { u.XCCs, u.CUsPerWGP = -8, -2 },
	} {
		u := usages(mi300x("g"))[:1]
		change(&u[0])
		grants, _ := d.Fit(Request{Count: 1, MemoryMiB: 1024, Cores: 25}, Policy{}, 1, from(u))
		for _, g := range grants {
			if g.MemoryMiB > u[0].MemoryMiB || g.CUs > u[0].CUs || g.CUs < 1 {
				t.Errorf("%s: %+v of %+v", name, g, u[0])
			}
		}
		d.Score([]annotations.Grant{{UUID: u[0].ID, MemoryMiB: math.MaxInt32, CUs: math.MaxInt32}}, 1, from(u))
	}
}

// An empty type could not be read back from the pod's annotation.
func TestFitNamesAType(t *testing.T) {
	u := usages(mi300x("g"))[:1]
	u[0].Type = ""
	grants, reasons := newDevices(t, Config{}).Fit(Request{Count: 1, Cores: 100}, Policy{}, 1, from(u))
	if reasons.Refused() || grants[0].Type != "AMD" {
		t.Errorf("%+v %v, want type AMD", grants, reasons)
	}
}

// Fit fills what at leaves out with nothing, not with the candidate before.
func TestFitClearsBetweenCandidates(t *testing.T) {
	usage := usages(mi300x("g"))
	grants, reasons := newDevices(t, Config{}).Fit(Request{Count: 2, Cores: 100}, Policy{}, len(usage), func(i int, u *Usage) {
		if i > 0 {
			*u = usage[i]
			return
		}
		u.ID = usage[i].ID
	})
	if reasons.Refused() || len(grants) != 2 {
		t.Fatal(grants, reasons)
	}
	_, reasons = newDevices(t, Config{}).Fit(Request{Count: 8, Cores: 100}, Policy{}, len(usage), func(i int, u *Usage) {
		if u.ID != "" || u.Health {
			t.Errorf("candidate %d starts with %+v", i, *u)
		}
		if i > 0 {
			*u = usage[i]
		}
	})
	if reasons.String() != "1/8 CardNotHealth, 7/8 AllocatedCardsInsufficientRequest" {
		t.Errorf("%v, want the device without a word of health refused", reasons)
	}
}

// A Devices serves many goroutines at once with the same answers.
func TestFitConcurrently(t *testing.T) {
	d := newDevices(t, Config{})
	usage := usages(cpx("g"))
	want, _ := d.Fit(Request{Count: 12, Cores: 100}, Policy{TopologyAware: true}, len(usage), from(usage))
	done := make(chan string)
	for range 4 {
		go func() {
			diff := ""
			for range 20 {
				got, _ := d.Fit(Request{Count: 12, Cores: 100}, Policy{TopologyAware: true}, len(usage), from(usage))
				diff += cmp.Diff(want, got)
			}
			done <- diff
		}()
	}
	for range 4 {
		if diff := <-done; diff != "" {
			t.Error(diff)
		}
	}
}

// Grants already handed out stay as they are when Fit is called again.
func TestFitGrantsAreTheCallers(t *testing.T) {
	d := newDevices(t, Config{})
	a, b := usages(mi300x("a")), usages(mi300x("b"))
	first, _ := d.Fit(Request{Count: 2, Cores: 100}, Policy{}, len(a), from(a))
	kept := slices.Clone(first)
	d.Fit(Request{Count: 2, Cores: 100}, Policy{}, len(b), from(b))
	if diff := cmp.Diff(kept, first); diff != "" {
		t.Error(diff)
	}
}

// A quota that only some sets keep to is kept to, in whatever order.
func TestFitQuotaInAnyOrder(t *testing.T) {
	d := newDevices(t, Config{})
	sizes := []int32{60, 50, 50, 90, 70}
	permute(len(sizes), func(order []int) {
		usage := make([]Usage, len(sizes))
		for i, j := range order {
			usage[i] = Usage{ID: fmt.Sprint("g", j), Type: "AMD X", Health: true, Count: 1, MemoryMiB: sizes[j], CUs: 8}
		}
		pol := Policy{Quota: func(mem int64) bool { return mem <= 100 }}
		grants, reasons := d.Fit(Request{Count: 2, Cores: 100}, pol, len(usage), from(usage))
		if reasons.Refused() || grants[0].MemoryMiB+grants[1].MemoryMiB > 100 {
			t.Fatalf("order %v: %v %v, want the two of 50 MiB", order, grants, reasons)
		}
		pol.Quota = func(mem int64) bool { return mem <= 99 }
		if _, reasons := d.Fit(Request{Count: 2, Cores: 100}, pol, len(usage), from(usage)); reasons.String() != "5/5 ResourceQuotaNotFit" {
			t.Fatalf("order %v: %v", order, reasons)
		}
	})
}

// Fit refuses exactly what no set of devices could serve, for devices hard and
// soft of all sizes, NUMA nodes and quotas.
func TestFitFindsWhateverFits(t *testing.T) {
	d := newDevices(t, Config{})
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		usage := make([]Usage, 1+rng.IntN(8))
		for i := range usage {
			size := 1 + rng.Int32N(4)
			usage[i] = Usage{
				ID: fmt.Sprint("g", i), Type: "AMD X", Health: rng.IntN(6) > 0, Count: 2, Used: rng.Int32N(2),
				MemoryMiB: 100 * size, CUs: 8 * size, NUMA: rng.IntN(2), PCIBDF: bdf(rng.IntN(4)),
			}
			if rng.IntN(2) == 0 {
				usage[i].Mode = "qpx"
			}
			if usage[i].Used > 0 {
				usage[i].UsedMiB, usage[i].UsedCUs = rng.Int32N(50), rng.Int32N(8)
			}
		}
		req := Request{Count: 1 + rng.Int32N(4), MemoryMiB: rng.Int32N(200), Cores: 100 - 50*rng.Int32N(2)}
		pol := Policy{TopologyAware: rng.IntN(2) == 0, NUMA: rng.IntN(2) == 0, NUMABind: rng.IntN(2) == 0, Mutex: rng.IntN(4) == 0}
		if rng.IntN(2) == 0 {
			quota := rng.Int64N(900)
			pol.Quota = func(mem int64) bool { return mem <= quota }
		}
		possible := false
		for mask := range uint(1) << len(usage) {
			if bits.OnesCount(mask) == int(req.Count) && possibleSet(d, usage, mask, req, pol) {
				possible = true
				break
			}
		}
		grants, reasons := d.Fit(req, pol, len(usage), from(usage))
		if reasons.Refused() == possible || (len(grants) == int(req.Count)) != possible {
			t.Fatalf("seed %d: %+v of %+v under %+v: %v %v, want possible %v", seed, req, usage, pol, grants, reasons, possible)
		}
		if !possible {
			checkCounted(t, seed, reasons, len(usage))
			continue
		}
		var mask uint
		for _, g := range grants {
			mask |= 1 << slices.IndexFunc(usage, func(u Usage) bool { return u.ID == g.UUID })
		}
		if !possibleSet(d, usage, mask, req, pol) {
			t.Fatalf("seed %d: %+v of %+v under %+v: %v, which is not possible", seed, req, usage, pol, grants)
		}
	}
}

// possibleSet reports whether the devices in mask serve the request, each by
// itself and all together.
func possibleSet(d *Devices, usage []Usage, mask uint, req Request, pol Policy) bool {
	one := req
	one.Count = 1
	var mem int64
	numa := map[int]bool{}
	for i := range usage {
		if mask>>i&1 == 0 {
			continue
		}
		grants, reasons := d.Fit(one, Policy{Mutex: pol.Mutex}, 1, from(usage[i:i+1]))
		if reasons.Refused() {
			return false
		}
		mem += int64(grants[0].MemoryMiB)
		numa[usage[i].NUMA] = true
	}
	return (pol.Quota == nil || pol.Quota(mem)) && (!pol.NUMABind || req.Count == 1 || len(numa) == 1)
}

// checkCounted wants each candidate counted once, under one reason.
func checkCounted(t *testing.T, seed uint64, reasons Reasons, n int) {
	t.Helper()
	sum := 0
	for reason := range reasonCount {
		sum += reasons.Count(reason)
	}
	if sum != n {
		t.Fatalf("seed %d: %v: %d devices counted, want %d", seed, reasons, sum, n)
	}
}

// permute calls f with every order of n things.
func permute(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var rec func(int)
	rec = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			rec(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	rec(0)
}

// What is remembered of the last device does not outlive its policy or shape.
func TestFitRemembersNothingWrong(t *testing.T) {
	d := newDevices(t, Config{Rounding: "balanced"})
	usage := usages(mi300x("g"))[:2]
	for _, test := range []struct {
		avoid string
		fits  bool
	}{{"MI300X", false}, {"MI210", true}, {"MI300X", false}} {
		pol := ParsePolicy(map[string]string{annotations.NoUseTypeKey: test.avoid}, "")
		if _, reasons := d.Fit(Request{Count: 1, Cores: 100}, pol, len(usage), from(usage)); reasons.Refused() == test.fits {
			t.Errorf("avoiding %s: %v", test.avoid, reasons)
		}
	}
	// Ten pods of 10 % fit on the first, and only four shares on the second.
	usage[1].Count = 4
	grants, reasons := d.Fit(Request{Count: 2, MemoryMiB: 1, Cores: 10}, Policy{}, len(usage), from(usage))
	if got := formatGrants(grants); got != "g1 1 32, g0 1 24" {
		t.Errorf("%s %v, want 32 and 24 CUs", got, reasons)
	}
	grants, _ = d.Fit(Request{Count: 1, MemoryMiB: 1, Cores: 50}, Policy{}, len(usage), from(usage))
	if got := formatGrants(grants); got != "g1 1 152" {
		t.Errorf("%s, want 152 CUs for another percentage", got)
	}
}
