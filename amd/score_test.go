package amd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// score places grants "<device> <MiB> <CUs>" on a machine.
func score(t *testing.T, d *Devices, usage []Usage, held ...string) float32 {
	t.Helper()
	return d.Score(parseGrants(t, held...), len(usage), from(usage))
}

func parseGrants(t *testing.T, held ...string) []annotations.Grant {
	t.Helper()
	var grants []annotations.Grant
	for _, h := range held {
		pod := holder(t, "x", "node", h)
		decoded, err := annotations.DecodePod(pod.Annotations[annotations.AllocatedKey])
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, decoded[0]...)
	}
	return grants
}

// load marks devices as used by pods that hold "<device> <MiB> <CUs>".
func load(t *testing.T, usage []Usage, held ...string) []Usage {
	t.Helper()
	for _, g := range parseGrants(t, held...) {
		for i := range usage {
			if usage[i].ID == g.UUID {
				usage[i].Add(g)
			}
		}
	}
	return usage
}

// Of two placements of the same request the one that strands less scores higher.
func TestScorePrefers(t *testing.T) {
	for name, test := range map[string]struct {
		machine            string
		worseHeld, worse   []string
		betterHeld, better []string
	}{
		"the memory that CUs were left without": {
			machine:   "8 x MI300X",
			worseHeld: []string{"g0 1024 200", "g1 1024 8"}, worse: []string{"g1 100000 8"},
			betterHeld: []string{"g0 1024 200", "g1 1024 8"}, better: []string{"g0 100000 8"},
		},
		"a hive in use to an idle one": {
			machine:   "2 hives of 4 x MI210",
			worseHeld: []string{"m0 1024 4"}, worse: []string{"m4 32760 52"},
			betterHeld: []string{"m0 1024 4"}, better: []string{"m3 32760 52"},
		},
		"a hive that becomes full to one that becomes broken": {
			machine:   "2 hives of 4 x MI210",
			worseHeld: []string{"m0 65520 104", "m1 65520 104", "m2 65520 104"}, worse: []string{"m4 65520 104"},
			betterHeld: []string{"m0 65520 104", "m1 65520 104", "m2 65520 104"}, better: []string{"m3 65520 104"},
		},
		"a GPU in use to an idle one, by partitions": {
			machine:   "8 x MI300X CPX",
			worseHeld: []string{"g0-p0 24536 38"}, worse: []string{"g1-p0 24536 38"},
			betterHeld: []string{"g0-p0 24536 38"}, better: []string{"g0-p1 24536 38"},
		},
		"shares left to shares gone": {
			machine:   "RX 9060 XT",
			worseHeld: []string{"x0 1024 2"}, worse: []string{"x0 1024 2"}, // the second of two shares
			betterHeld: nil, better: []string{"x0 1024 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevices(t, Config{})
			build := machines[test.machine]
			worse := score(t, d, load(t, usages(build()), test.worseHeld...), test.worse...)
			better := score(t, d, load(t, usages(build()), test.betterHeld...), test.better...)
			if better <= worse {
				t.Errorf("%v and %v, want the first higher", better, worse)
			}
		})
	}
}

func TestScoreIsNeutral(t *testing.T) {
	d := newDevices(t, Config{})
	for name, test := range map[string]struct {
		held, grants []string
		want         float32
	}{
		"a whole idle GPU of a hive in use":        {[]string{"g0 1024 8"}, []string{"g1 196288 304"}, 0.5},
		"a slice in proportion on a GPU in use":    {[]string{"g0 49072 76"}, []string{"g0 49072 76"}, 0.5},
		"no grants":                                {nil, nil, 0},
		"grants on devices that are not there":     {nil, []string{"h0 1 1"}, 0},
		"all eight GPUs":                           {nil, []string{"g0 196288 304", "g1 196288 304", "g2 196288 304", "g3 196288 304", "g4 196288 304", "g5 196288 304", "g6 196288 304", "g7 196288 304"}, 0.5},
		"two GPUs break a hive but once":           {nil, []string{"g0 196288 304", "g1 196288 304"}, 0.4375},
		"the first slice of a hive breaks it":      {nil, []string{"g0 49072 76"}, 0.375},
		"two containers on one GPU, in proportion": {[]string{"g0 49072 76"}, []string{"g0 49072 76", "g0 49072 76"}, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := score(t, d, load(t, usages(mi300x("g")), test.held...), test.grants...); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
	usage := usages(mi300x("g"))
	if got := score(t, newDevices(t, Config{DisableScore: true}), usage, "g0 1024 8"); got != 0 {
		t.Errorf("switched off: %v, want 0", got)
	}
	if got := d.Score(parseGrants(t, "g0 1024 8"), 0, nil); got != 0 {
		t.Errorf("no devices: %v, want 0", got)
	}
}

// The score is finite, in steps within 0 to 1, the same each time and the same
// whether the groups of devices were numbered before or are found by name, and
// it does not depend on the order of devices or grants.
func TestScoreProperties(t *testing.T) {
	d := newDevices(t, Config{})
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		build := machines[[]string{"8 x MI300X", "8 x MI300X CPX", "2 hives of 4 x MI210", "4 x MI355X, half in QPX"}[rng.IntN(4)]]
		usage := usages(build())
		for i := range usage {
			u := &usage[i]
			u.Used, u.UsedMiB, u.UsedCUs = rng.Int32N(u.Count+1), rng.Int32N(u.MemoryMiB+1), rng.Int32N(u.CUs+1)
		}
		var grants []annotations.Grant
		for range 1 + rng.IntN(6) {
			u := usage[rng.IntN(len(usage))]
			grants = append(grants, annotations.Grant{UUID: u.ID, MemoryMiB: rng.Int32N(u.MemoryMiB + 1), CUs: rng.Int32N(u.CUs + 1)})
		}
		want := d.Score(grants, len(usage), from(usage))
		if steps := float64(want) * scoreSteps; math.IsNaN(steps) || want < 0 || want > 1 || steps != math.Trunc(steps) {
			t.Fatalf("seed %d: %v", seed, want)
		}
		var s scorer
		s.begin(usage, fillsOf(nil, usage), groupsOf(usage))
		for i := range grants {
			for j := range usage {
				if usage[j].ID == grants[i].UUID {
					s.grant(j, 1, &grants[i])
				}
			}
		}
		if got := s.result(); got != want {
			t.Fatalf("seed %d: with numbered groups %v, want %v", seed, got, want)
		}
		rng.Shuffle(len(usage), func(i, j int) { usage[i], usage[j] = usage[j], usage[i] })
		rng.Shuffle(len(grants), func(i, j int) { grants[i], grants[j] = grants[j], grants[i] })
		if got := d.Score(grants, len(usage), from(usage)); got != want {
			t.Fatalf("seed %d: in another order %v, want %v", seed, got, want)
		}
	}
}

// A node with more devices than are compared by name scores like any other.
func TestScoreOfManyDevices(t *testing.T) {
	d := newDevices(t, Config{})
	usage := usages(mi300x("g"))
	usage[1].Used, usage[1].UsedMiB, usage[1].UsedCUs = 1, 1024, 8
	want := score(t, d, usage, "g0 49072 100")
	for i := range 2 * maxSites {
		other := usages(mi300x("h"))[0]
		other.ID, other.PCIBDF, other.XGMIPeers = fmt.Sprint("h", i), fmt.Sprint("other", i), nil
		usage = append(usage, other)
	}
	if got := score(t, d, usage, "g0 49072 100"); got != want || got == 0 {
		t.Errorf("%v, want %v as on the small node", got, want)
	}
}
