package drawtest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw/drawtest"
)

func read(t *testing.T, o drawtest.Options) *inspect.Cluster {
	t.Helper()
	nodes, pods, err := drawtest.Cluster(o)
	if err != nil {
		t.Fatal(err)
	}
	return inspect.New(nodes, pods, inspect.Options{Now: drawtest.Now()})
}

// A sample that contradicts itself would draw what no cluster looks like.
func TestClustersAreInOrder(t *testing.T) {
	for seed := range uint64(5) {
		c := read(t, drawtest.Options{Nodes: 8, Seed: seed})
		for p := range c.All() {
			t.Errorf("seed %d: %v", seed, p)
		}
		modes := map[string]int{}
		for _, n := range c.Nodes {
			modes[n.Mode]++
			for _, g := range n.GPUs {
				if g.GrantedCUs > g.Geometry.CUs || g.GrantedMiB > int64(g.Device.Devmem) {
					t.Errorf("seed %d: %s: %s is granted beyond its size", seed, n.Name, g.Device.ID)
				}
			}
		}
		if len(c.Nodes) != 8 || len(c.Pods) < 100 || modes["cu"] != 6 || modes["partition"] != 2 {
			t.Errorf("seed %d: %d nodes in modes %v with %d pods", seed, len(c.Nodes), modes, len(c.Pods))
		}
	}
}

func TestSameOptionsGiveTheSameCluster(t *testing.T) {
	o := drawtest.Options{Nodes: 4, Seed: 3, Planted: true}
	nodes, pods, err := drawtest.Cluster(o)
	if err != nil {
		t.Fatal(err)
	}
	sameNodes, samePods, err := drawtest.Cluster(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nodes, sameNodes) + cmp.Diff(pods, samePods); diff != "" {
		t.Error(diff)
	}
}

func TestPlantedProblemsAreFound(t *testing.T) {
	found := map[inspect.Code]bool{}
	for p := range read(t, drawtest.Options{Nodes: 5, Planted: true}).All() {
		found[p.Code] = true
	}
	for _, want := range []inspect.Code{"MaskOverlap", "MaskStarvesXCC", "UnknownDevice", "UnlimitedTenant", "LockOwnerGone"} {
		if !found[want] {
			t.Errorf("no %s among %v", want, slices.Sorted(maps.Keys(found)))
		}
	}
}

func TestPlantingNeedsPods(t *testing.T) {
	for nodes := range 3 {
		if _, _, err := drawtest.Cluster(drawtest.Options{Nodes: nodes, Planted: true}); err != nil {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
}
