package plugin

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/partition"
)

// On nodes of eight GPUs no set is better than the one that is chosen, for any
// size and any part of the node that is free. Where units are held already the
// sum may be a little off the best.
func TestChooseFindsTheBestSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	nodes := map[string]*snapshot{
		"MI300X in one hive":     machineSnapshot(t, "mi300x-spx-8", registerDefaults),
		"MI210 in two hives":     machineSnapshot(t, "mi210-8", registerDefaults),
		"MI355X in partitions":   machineSnapshot(t, "mi355x-qpx-8", partition.RegisterOptions{Mode: partition.ModePartition}),
		"sockets without a link": twoSockets(t),
	}
	for name, node := range nodes {
		t.Run(name, func(t *testing.T) {
			for round := range 150 {
				d := node.distance
				c := &choice{distance: d, held: make([]int, d.n), room: make([]int, d.n), left: make([]int, d.n)}
				for i := range d.n {
					c.room[i] = random.IntN(4) // 0 to 3 units free
					c.left[i] = c.room[i] + random.IntN(3)
					if round%3 == 0 && random.IntN(6) == 0 {
						c.held[i] = 1
					}
				}
				n := 1 + random.IntN(6)
				for _, policy := range []AllocatorPolicy{PolicyBinpack, PolicySpread} {
					taken := c.choose(n, policy)
					got, want := c.sum(taken), c.bruteForce(n, policy)
					if off := max(got-want, want-got); off > 0 && (round%3 != 0 || off > want/10) {
						t.Errorf("%s of %d from room %v, held %v: chose %v with sum %d, the best has %d", policy, n, c.room, c.held, taken, got, want)
					}
				}
			}
		})
	}
}

// twoSockets is a node of eight GPUs without any link record.
func twoSockets(tb testing.TB) *snapshot {
	s := manyGPUs(tb, 8)
	for i := range s.Devices {
		numa := i % 2
		s.Devices[i].GPU.NUMANode = &numa
		s.Devices[i].GPU.HiveID = 0
	}
	return newSnapshot(s.Devices, nil, partition.ModeCU, nil)
}

// sum is the sum of distances over all pairs of units.
func (c *choice) sum(taken []int) int {
	total := 0
	for a := range taken {
		for b := range a {
			total += (c.held[a] + taken[a]) * (c.held[b] + taken[b]) * c.distance.at(a, b)
		}
	}
	return total
}

// bruteForce looks at all sets.
func (c *choice) bruteForce(n int, policy AllocatorPolicy) int {
	best, found := 0, false
	taken := make([]int, len(c.room))
	var walk func(gpu, left int)
	walk = func(gpu, left int) {
		if gpu == len(c.room) {
			if sum := c.sum(taken); left == 0 && (!found || (policy == PolicySpread) == (sum > best)) {
				best, found = sum, true
			}
			return
		}
		for k := 0; k <= min(left, c.room[gpu]); k++ {
			taken[gpu] = k
			walk(gpu+1, left-k)
		}
		taken[gpu] = 0
	}
	room := 0
	for _, r := range c.room {
		room += r
	}
	walk(0, min(n, room))
	return best
}

func TestMeasure(t *testing.T) {
	tests := map[string]struct {
		node *snapshot
		want [3]int // GPU 0 to GPUs 0, 1 and 7
	}{
		"one hive":         {machineSnapshot(t, "mi300x-spx-8", registerDefaults), [3]int{0, 15, 15}},
		"two hives":        {machineSnapshot(t, "mi210-8", registerDefaults), [3]int{0, 15, 72}},
		"no link recorded": {twoSockets(t), [3]int{0, 72, 72}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := test.node.distance
			got := [3]int{d.at(0, 0), d.at(0, 1), d.at(0, 7)}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			for a := range d.n {
				for b := range d.n {
					if d.at(a, b) != d.at(b, a) || (d.at(a, b) == 0) != (a == b) {
						t.Errorf("%d to %d is %d, back %d", a, b, d.at(a, b), d.at(b, a))
					}
				}
			}
		})
	}
	hostile := []*partition.GPU{
		{BDF: "a", Nodes: []partition.Node{{ID: 1, Links: []partition.Link{{To: 2, Weight: 1 << 40}, {To: 3, Weight: -5}, {To: 1, Weight: 3}, {To: 77, Weight: 1}}}}},
		{BDF: "b", HiveID: 1, Nodes: []partition.Node{{ID: 2}}},
		{BDF: "c", HiveID: 1, Nodes: []partition.Node{{ID: 3}}},
	}
	d := measure(hostile)
	if diff := cmp.Diff([]int{0, maxWeight, 72, maxWeight, 0, 15, 72, 15, 0}, d.weight); diff != "" {
		t.Error(diff)
	}
}
