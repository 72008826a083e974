package amd

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// judge counts the pairs of a set: without XGMI, across NUMA nodes, on different
// GPUs. It is written anew for the test, device by device.
func judge(set []Usage) (noXGMI, crossNUMA, apart int) {
	for i := range set {
		for j := range i {
			a, b := &set[i], &set[j]
			same := a.PCIBDF != "" && a.PCIBDF == b.PCIBDF
			if !same {
				apart++
				if !slices.Contains(a.XGMIPeers, b.PCIBDF) && !slices.Contains(b.XGMIPeers, a.PCIBDF) {
					noXGMI++
				}
				if a.NUMA != b.NUMA {
					crossNUMA++
				}
			}
		}
	}
	return noXGMI, crossNUMA, apart
}

// network of up to 12 devices on a few GPUs, links and NUMA nodes at random.
func randomNetwork(rng *rand.Rand) []Usage {
	gpus := 1 + rng.IntN(7)
	numa := make([]int, gpus)
	peers := make([][]string, gpus)
	for i := range gpus {
		numa[i] = rng.IntN(3) - 1
		for j := range i {
			if rng.IntN(2) == 0 {
				peers[i] = append(peers[i], bdf(j)) // named from one side only
			}
		}
	}
	var usage []Usage
	for range 2 + rng.IntN(11) {
		gpu := rng.IntN(gpus)
		usage = append(usage, Usage{
			ID: fmt.Sprint("g", len(usage)), Type: "AMD X", Health: true, Count: 1, MemoryMiB: 64, CUs: 8,
			NUMA: numa[gpu], PCIBDF: bdf(gpu), XGMIPeers: peers[gpu],
		})
	}
	return usage
}

// The set found is as good as the best of all sets, under each policy.
func TestConnectedIsBest(t *testing.T) {
	d := newDevices(t, Config{})
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		usage := randomNetwork(rng)
		count := 1 + rng.IntN(len(usage))
		for name, pol := range map[string]Policy{
			"topology-aware":      {TopologyAware: true},
			"numa":                {NUMA: true},
			"numa-bind":           {NUMABind: true},
			"topology-aware bind": {TopologyAware: true, NUMABind: true},
		} {
			if count == 1 {
				continue
			}
			best, possible := [3]int{}, false
			for mask := range uint(1) << len(usage) {
				if bits.OnesCount(mask) != count {
					continue
				}
				var set []Usage
				for i := range usage {
					if mask>>i&1 == 1 {
						set = append(set, usage[i])
					}
				}
				if cost, ok := costOf(set, pol); ok && (!possible || slices.Compare(cost[:], best[:]) < 0) {
					best, possible = cost, true
				}
			}
			grants, reasons := d.Fit(Request{Count: int32(count), Cores: 100}, pol, len(usage), from(usage))
			if reasons.Refused() == possible {
				t.Fatalf("seed %d, %s: %d of %d: %v, want possible %v", seed, name, count, len(usage), reasons, possible)
			}
			if !possible {
				if reasons.Count(NUMAMismatch) != len(usage) {
					t.Fatalf("seed %d, %s: %v, want NumaNotFit", seed, name, reasons)
				}
				continue
			}
			if cost, ok := costOf(chosen(usage, grants), pol); !ok || cost != best {
				t.Fatalf("seed %d, %s: %d of %d: cost %v, want %v", seed, name, count, len(usage), cost, best)
			}
		}
	}
}

func costOf(set []Usage, pol Policy) (cost [3]int, ok bool) {
	noXGMI, crossNUMA, apart := judge(set)
	if pol.NUMABind && slices.ContainsFunc(set, func(u Usage) bool { return u.NUMA != set[0].NUMA }) {
		return cost, false
	}
	if pol.NUMA && !pol.TopologyAware {
		return [3]int{crossNUMA, noXGMI, apart}, true
	}
	return [3]int{noXGMI, crossNUMA, apart}, true
}

func chosen(usage []Usage, grants []annotations.Grant) (set []Usage) {
	for _, g := range grants {
		for _, u := range usage {
			if u.ID == g.UUID {
				set = append(set, u)
			}
		}
	}
	return set
}

// One device alone is taken where it breaks the fewest links, and of two that
// break as many the first in order.
func TestConnectedOne(t *testing.T) {
	usage := usages(mi210())
	d := newDevices(t, Config{})
	fit := func(used ...int) string {
		u := slices.Clone(usage)
		for _, i := range used {
			u[i].Used = u[i].Count
		}
		grants, reasons := d.Fit(Request{Count: 1, MemoryMiB: 1, Cores: 10}, Policy{TopologyAware: true}, len(u), from(u))
		if reasons.Refused() {
			t.Fatal(reasons)
		}
		return grants[0].UUID
	}
	for name, test := range map[string]struct {
		used []int
		want string
	}{
		"all idle":                 {nil, "m7"},
		"one of the first hive":    {[]int{0}, "m3"},
		"two of the second hive":   {[]int{7, 6}, "m5"},
		"three of the second hive": {[]int{7, 6, 4}, "m5"},
	} {
		if got := fit(test.used...); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Among equal sets that one is taken which leaves the better connected rest.
func TestConnectedLeavesTheRestTogether(t *testing.T) {
	usage := usages(mi210())
	usage[1].Used = usage[1].Count
	grants, _ := newDevices(t, Config{}).Fit(
		Request{Count: 3, MemoryMiB: 1, Cores: 10}, Policy{TopologyAware: true}, len(usage), from(usage))
	if got := formatGrants(grants); got != "m3 1 10, m2 1 10, m0 1 10" {
		t.Errorf("%s, want the three that are left of the broken hive", got)
	}
}

// More ways to choose than are tried still give a good set, quickly.
func TestConnectedBeyondTheBound(t *testing.T) {
	// 32 GPUs in hives of eight, three of each hive taken: 20 candidates, of
	// which each hive can give five.
	var usage []Usage
	for i := range 32 {
		u := Usage{
			ID: fmt.Sprint("g", i), Type: "AMD X", Health: true, Count: 1, MemoryMiB: 64, CUs: 8, PCIBDF: bdf(i), NUMA: i / 16,
		}
		for j := range 32 {
			if i != j && i/8 == j/8 {
				u.XGMIPeers = append(u.XGMIPeers, bdf(j))
			}
		}
		if i%8 < 3 {
			u.Used = 1
		}
		usage = append(usage, u)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(usage), func(i, j int) { usage[i], usage[j] = usage[j], usage[i] })
	d := newDevices(t, Config{})
	grants, reasons := d.Fit(Request{Count: 10, Cores: 100}, Policy{TopologyAware: true}, len(usage), from(usage))
	if reasons.Refused() || len(grants) != 10 {
		t.Fatal(grants, reasons)
	}
	// Two whole hives of one NUMA node: 5 x 5 pairs without a link.
	if noXGMI, crossNUMA, _ := judge(chosen(usage, grants)); noXGMI != 25 || crossNUMA != 0 {
		t.Errorf("%d pairs without XGMI and %d across NUMA nodes, want 25 and 0", noXGMI, crossNUMA)
	}
}

// A node that registers more GPUs than any machine has is taken in order; one
// NUMA node is kept to all the same.
func TestConnectedWithTooManyGPUs(t *testing.T) {
	usage := make([]Usage, 2*maxSites)
	for i := range usage {
		usage[i] = Usage{
			ID: fmt.Sprint("g", i), Type: "AMD X", Health: true, Count: 1, MemoryMiB: 64, CUs: 8, PCIBDF: fmt.Sprint("gpu", i), NUMA: i % 3,
		}
	}
	d := newDevices(t, Config{})
	for name, test := range map[string]struct {
		pol   Policy
		count int32
		want  bool
	}{
		"any":              {Policy{TopologyAware: true}, 2 * maxSites, true},
		"one NUMA node":    {Policy{NUMABind: true}, 80, true},
		"within a quota":   {Policy{NUMABind: true, Quota: func(mem int64) bool { return mem <= 80*64 }}, 80, true},
		"beyond a quota":   {Policy{NUMABind: true, Quota: func(mem int64) bool { return mem < 80*64 }}, 80, false},
		"too many for one": {Policy{NUMABind: true}, 87, false},
	} {
		grants, reasons := d.Fit(Request{Count: test.count, Cores: 100}, test.pol, len(usage), from(usage))
		if reasons.Refused() == test.want {
			t.Fatalf("%s: %v", name, reasons)
		}
		if set := chosen(usage, grants); len(set) > 0 && test.pol.NUMABind && slices.ContainsFunc(set, func(u Usage) bool { return u.NUMA != set[0].NUMA }) {
			t.Errorf("%s: more than one NUMA node", name)
		}
		if test.want && len(grants) != int(test.count) {
			t.Errorf("%s: %d devices, want %d", name, len(grants), test.count)
		}
	}
}
