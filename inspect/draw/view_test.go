package draw

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw/drawtest"
)

func sample(t testing.TB, o drawtest.Options) *inspect.Cluster {
	t.Helper()
	nodes, pods, err := drawtest.Cluster(o)
	if err != nil {
		t.Fatal(err)
	}
	return inspect.New(nodes, pods, inspect.Options{Now: drawtest.Now()})
}

// one is a cluster of one node with these devices.
func one(gpus ...*inspect.GPU) *inspect.Cluster {
	return &inspect.Cluster{Nodes: []*inspect.Node{{Name: "n", Mode: "cu", GPUs: gpus}}}
}

func TestPhysicalGPUsAreCards(t *testing.T) {
	v := newView(sample(t, drawtest.Options{Nodes: 8}), Options{})
	for _, n := range v.nodes {
		if len(n.cards) != 8 {
			t.Errorf("%s has %d GPUs", n.Name, len(n.cards))
		}
		for i, c := range n.cards {
			if want := fmt.Sprintf("GPU %d", i); c.name() != want {
				t.Errorf("%s: the GPU in place %d is %q", n.Name, i, c.name())
			}
			var labels []string
			for _, p := range c.parts {
				labels = append(labels, p.label)
			}
			want := []string{""}
			switch {
			case strings.Contains(n.Name, "cpx"):
				want = []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"}
			case strings.Contains(n.Name, "qpx"):
				want = []string{"p0", "p1", "p2", "p3"}
			}
			if diff := cmp.Diff(want, labels); diff != "" {
				t.Errorf("%s (-want +got):\n%s", n.Name, diff)
			}
			if rows := c.rows(); len(rows) != 8 {
				t.Errorf("%s: %s has %d rows, want one for each XCC", n.Name, c.name(), len(rows))
			}
		}
	}
	if v.sum.gpus != 64 {
		t.Errorf("%d GPUs in all", v.sum.gpus)
	}
}

// Every CU is on the map once, in the row of its XCC.
func TestRunsCoverEveryCU(t *testing.T) {
	c := sample(t, drawtest.Options{Nodes: 8, Seed: 7, Planted: true})
	c.Nodes = append(c.Nodes, small().Nodes...)
	for _, n := range newView(c, Options{}).nodes {
		for _, card := range n.cards {
			rows := card.rows()
			seen := make([]map[int]int, len(card.parts))
			for _, r := range card.runs(rows) {
				part := rows[r.row].part
				if seen[part] == nil {
					seen[part] = map[int]int{}
				}
				geometry := card.parts[part].Geometry
				for _, cu := range rows[r.row].cus[r.column : r.column+r.length] {
					seen[part][cu]++
					if card.parts[part].owners[cu] != r.owner {
						t.Fatalf("%s %s: cu %d is drawn as %d", n.Name, card.name(), cu, r.owner)
					}
					if first := rows[r.row].cus[0]; geometry.XCCs > 1 && cu%geometry.XCCs != first%geometry.XCCs {
						t.Fatalf("%s %s: cu %d stands in the row of cu %d", n.Name, card.name(), cu, first)
					}
				}
			}
			for i, p := range card.parts {
				if len(seen[i]) != p.Geometry.CUs {
					t.Fatalf("%s %s: %d of %d CUs drawn", n.Name, card.name(), len(seen[i]), p.Geometry.CUs)
				}
				for cu, times := range seen[i] {
					if times != 1 {
						t.Fatalf("%s %s: cu %d drawn %d times", n.Name, card.name(), cu, times)
					}
				}
			}
		}
	}
}

func TestOwners(t *testing.T) {
	low, high, middle := cumask.Range(0, 31), cumask.Range(32, 63), cumask.Range(16, 47)
	for name, tc := range map[string]struct {
		tenants []inspect.Tenant
		want    string // every eighth CU of the first 64
	}{
		"neighbours":                 {[]inspect.Tenant{held("a", "p", "c", low, 1), held("a", "q", "c", high, 1)}, "aaaabbbb"},
		"two pods on the same CUs":   {[]inspect.Tenant{held("a", "p", "c", low, 1), held("a", "q", "c", middle, 1)}, "aa!!bb.."},
		"one pod's app containers":   {[]inspect.Tenant{held("a", "p", "c", low, 1), held("a", "p", "d", middle, 1)}, "aa!!bb.."},
		"three on the same CUs":      {[]inspect.Tenant{held("a", "p", "c", low, 1), held("a", "q", "c", low, 1), held("a", "r", "c", low, 1)}, "!!!!...."},
		"memory alone":               {[]inspect.Tenant{held("a", "p", "c", cumask.Set{}, 1)}, "........"},
		"a mask beyond the GPU":      {[]inspect.Tenant{held("a", "p", "c", cumask.Range(300, 400), 1)}, "........"},
		"an init container before":   {[]inspect.Tenant{held("a", "p", "c", low, 1), initial(held("a", "p", "i", middle, 1))}, "aaaabb.."},
		"another pod's init":         {[]inspect.Tenant{held("a", "p", "c", low, 1), initial(held("a", "q", "i", middle, 1))}, "aa!!bb.."},
		"two init containers":        {[]inspect.Tenant{initial(held("a", "p", "i", low, 1)), initial(held("a", "p", "j", middle, 1))}, "aaaabb.."},
		"whole without a mask":       {[]inspect.Tenant{{Namespace: "a", Pod: "p", Whole: true}}, "aaaaaaaa"},
		"granted and not yet packed": {[]inspect.Tenant{{Namespace: "a", Pod: "p", CUs: 76, MemoryMiB: 1}}, "........"},
	} {
		t.Run(name, func(t *testing.T) {
			g := mi300x("n", 0)
			for _, tenant := range tc.tenants {
				hold(g, tenant)
			}
			owners := newView(one(g), Options{}).nodes[0].cards[0].parts[0].owners
			got := ""
			for cu := 0; cu < 64; cu += 8 {
				got += letter(owners[cu])
			}
			if got != tc.want {
				t.Errorf("every eighth CU shows %s, want %s", got, tc.want)
			}
		})
	}
}

func initial(t inspect.Tenant) inspect.Tenant {
	t.Init = true
	return t
}

// An init container's memory is its pod's again: only what it has beyond the
// other containers adds to the bar.
func TestMemoryBar(t *testing.T) {
	none := cumask.Set{}
	for name, tc := range map[string]struct {
		tenants []inspect.Tenant
		want    []int64
	}{
		"side by side":             {[]inspect.Tenant{held("a", "p", "c", none, 100), held("a", "q", "c", none, 50)}, []int64{100, 50}},
		"a small init container":   {[]inspect.Tenant{held("a", "p", "c", none, 100), initial(held("a", "p", "i", none, 50))}, []int64{100, 0}},
		"a large init container":   {[]inspect.Tenant{held("a", "p", "c", none, 100), initial(held("a", "p", "i", none, 150))}, []int64{100, 50}},
		"two large ones":           {[]inspect.Tenant{initial(held("a", "p", "i", none, 150)), initial(held("a", "p", "j", none, 180))}, []int64{150, 30}},
		"another pod's":            {[]inspect.Tenant{held("a", "p", "c", none, 100), initial(held("a", "q", "i", none, 50))}, []int64{100, 50}},
		"more than the GPU offers": {[]inspect.Tenant{held("a", "p", "c", none, 150000), held("a", "q", "c", none, 150000)}, []int64{150000, 150000}},
	} {
		t.Run(name, func(t *testing.T) {
			g := mi300x("n", 0)
			for _, tenant := range tc.tenants {
				hold(g, tenant)
			}
			card := newView(one(g), Options{}).nodes[0].cards[0]
			var got []int64
			for _, h := range card.holdings {
				got = append(got, h.mib)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			stretches, full := card.memory()
			at := 0.0
			for _, s := range stretches {
				if s.from != at || s.to <= s.from {
					t.Errorf("stretch %+v begins elsewhere than at %v", s, at)
				}
				at = s.to
			}
			if at > 1.000001 || full > 1 || full <= 0 || at > full != (name == "more than the GPU offers") {
				t.Errorf("the bar ends at %v, the VRAM at %v", at, full)
			}
		})
	}
}

func TestColours(t *testing.T) {
	c := sample(t, drawtest.Options{Nodes: 16, Seed: 2})
	marks := newMarks(c)
	numbers := map[int]podKey{}
	for pod, mark := range marks {
		if other, ok := numbers[mark.number]; ok {
			t.Fatalf("%v and %v have one number", pod, other)
		}
		numbers[mark.number] = pod
	}
	for _, n := range newView(c, Options{}).nodes {
		for _, card := range n.cards {
			pods := map[podKey]int{}
			for _, h := range card.holdings {
				pods[keyOf(h.Tenant)] = h.colour
			}
			used := map[int]podKey{}
			for pod, colour := range pods {
				if other, taken := used[colour]; taken && len(pods) <= 5 {
					t.Errorf("%s %s: %v and %v have one colour", n.Name, card.name(), pod, other)
				}
				used[colour] = pod
			}
		}
	}
	// Whoever leaves takes few colours along.
	fewer := *c
	fewer.Nodes = slices.Delete(slices.Clone(c.Nodes), 3, 4)
	moved, all := 0, 0
	for pod, mark := range newMarks(&fewer) {
		all++
		if marks[pod].colour != mark.colour {
			moved++
		}
	}
	if moved*10 > all {
		t.Errorf("%d of %d pods change their colour when a node leaves", moved, all)
	}
}

func TestFilters(t *testing.T) {
	for name, tc := range map[string]struct {
		o     Options
		cards []string
		lists int
	}{
		"everything":        {Options{}, []string{"node-a GPU 0", "node-a GPU 1", "node-a GPU 2", "node-a GPU 3", "node-b GPU 0"}, 5},
		"one node":          {Options{Node: "node-a"}, []string{"node-a GPU 0", "node-a GPU 1", "node-a GPU 2", "node-a GPU 3"}, 3},
		"problems":          {Options{Problems: true}, []string{"node-a GPU 1"}, 5},
		"problems of one":   {Options{Problems: true, Node: "node-b"}, nil, 2},
		"a node not there":  {Options{Node: "node-c"}, nil, 0},
		"nodes of one name": {Options{Node: "node"}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := newView(small(), tc.o)
			var cards []string
			for _, n := range v.nodes {
				for _, c := range n.cards {
					cards = append(cards, n.Name+" "+c.name())
				}
			}
			if diff := cmp.Diff(tc.cards, cards); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
			if len(v.problems) != tc.lists || v.sum.errors+v.sum.warnings != tc.lists {
				t.Errorf("%d problems and %s, want %d", len(v.problems), v.sum.tally(), tc.lists)
			}
		})
	}
}

// Every problem of a cluster is in the list once, wherever it belongs.
func TestEveryProblemIsListedOnce(t *testing.T) {
	c := sample(t, drawtest.Options{Nodes: 6, Planted: true})
	p := func(code string) []inspect.Problem {
		return []inspect.Problem{{Code: inspect.Code(code), Severity: inspect.Warning, Detail: code}}
	}
	c.Problems = append(c.Problems, p("cluster")...)
	c.Nodes[1].Problems = append(c.Nodes[1].Problems, p("node")...)
	c.Nodes[1].GPUs[3].Problems = append(c.Nodes[1].GPUs[3].Problems, p("gpu")...)
	for i, pod := range c.Pods[:40] {
		pod.Problems = append(pod.Problems, p(fmt.Sprintf("pod %d", i))...)
	}
	c.Pods = append(c.Pods,
		&inspect.Pod{Namespace: "a", Name: "pending", Problems: p("pending")},
		&inspect.Pod{Namespace: "a", Name: "elsewhere", Node: "gone", Problems: p("elsewhere"),
			Tenants: []*inspect.Tenant{{Namespace: "a", Pod: "elsewhere", Node: "gone", Device: "d", Problems: p("held elsewhere")}}})
	listed := map[string]int{}
	for _, problem := range newView(c, Options{}).problems {
		listed[problem.Detail+problem.Where()]++
	}
	for problem := range c.All() {
		if n := listed[problem.Detail+problem.Where()]; n != 1 {
			t.Errorf("%v is listed %d times", problem, n)
		}
	}
}

// A register annotation can claim shapes that nothing has.
func TestImpossibleShapes(t *testing.T) {
	for name, d := range map[string]annotations.Device{
		"no CUs":                {Count: 1, Devmem: 1},
		"CUs beyond a mask":     {Count: 1, Devmem: 1, Devcore: 5000},
		"uneven XCCs":           {Count: 1, Devmem: 1, Devcore: 10, CustomInfo: annotations.CustomInfo{NumXCC: 3}},
		"an XCC for each CU":    {Count: 1, Devmem: 1, Devcore: 1024, CustomInfo: annotations.CustomInfo{NumXCC: 1024}},
		"no memory":             {Count: 1, Devcore: 304},
		"a partition of itself": {Count: 1, Devcore: 304, Mode: "cpx", ID: "x-p99999999999"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGPU("n", 0, d)
			hold(g, held("a", "p", "c", cumask.Range(0, 75), 100))
			hold(g, inspect.Tenant{Namespace: "a", Pod: "q", Container: "c", Whole: true})
			c := one(g)
			page := htmlOf(t, c, Options{})
			elements(t, page)
			var b bytes.Buffer
			if err := SVG(&b, c, SVGOptions{}); err != nil {
				t.Fatal(err)
			}
			elements(t, b.String())
			b.Reset()
			if err := Text(&b, c, TextOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := g.Geometry, g.Geometry.Validate()
			if (err != nil) != strings.Contains(b.String(), "no map: ") || (err != nil) != strings.Contains(page, "no map: ") {
				t.Errorf("geometry error %v, drawn as\n%s", err, b.String())
			}
			if len(page) > 200_000 {
				t.Errorf("the page has %d bytes", len(page))
			}
		})
	}
}
