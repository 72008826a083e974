package draw

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// A colour is a pod's, on a terminal of 256 colours and elsewhere. The first
// eight are told apart with every common kind of colour blindness: Okabe and
// Ito's set, less black, and a violet. Letters tell apart what colours repeat.
type colour struct {
	terminal int
	hex      string
	dark     bool // letters on it are white, for the better contrast
}

// ink is the colour of letters on it.
func (c colour) ink() string {
	if c.dark {
		return "#fff"
	}
	return "#000"
}

var palette = [...]colour{
	{25, "#0072b2", true},
	{214, "#e69f00", false},
	{36, "#009e73", false},
	{175, "#cc79a7", false},
	{74, "#56b4e9", false},
	{166, "#d55e00", false},
	{221, "#f0e442", false},
	{97, "#7a5195", true},
	{130, "#8c564b", true},
	{150, "#b2df8a", false},
}

// clashColour marks CUs that several claim.
var clashColour = colour{160, "#c4003f", true}

// podKey is a pod's name.
type podKey struct{ namespace, name string }

func keyOf(t *inspect.Tenant) podKey { return podKey{t.Namespace, t.Pod} }

// podMark is what all holdings of a pod have in common.
type podMark struct{ colour, number int }

// newMarks numbers the pods and gives every pod a colour: the one its name hashes
// to, or the next that no pod before it has on a GPU they share. So a pod keeps
// its colour while others come and go, but for the few that have to give way.
func newMarks(c *inspect.Cluster) map[podKey]podMark {
	gpus := map[podKey][]string{}
	for _, n := range c.Nodes {
		for _, g := range n.GPUs {
			for _, t := range g.Tenants {
				gpus[keyOf(t)] = append(gpus[keyOf(t)], n.Name+"\x00"+g.Physical)
			}
		}
	}
	pods := slices.SortedFunc(maps.Keys(gpus), func(a, b podKey) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	taken := map[string][len(palette)]bool{}
	marks := make(map[podKey]podMark, len(pods))
	for i, pod := range pods {
		colour := hashOf(pod)
		for range palette {
			if !slices.ContainsFunc(gpus[pod], func(gpu string) bool { return taken[gpu][colour] }) {
				break
			}
			colour = (colour + 1) % len(palette)
		}
		marks[pod] = podMark{colour, i}
		for _, gpu := range gpus[pod] {
			row := taken[gpu]
			row[colour] = true
			taken[gpu] = row
		}
	}
	return marks
}

func hashOf(pod podKey) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.namespace + "/" + pod.name)) // never fails
	return int(h.Sum32() % uint32(len(palette)))
}
