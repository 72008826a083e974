package draw

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/internal/palette"
)

// inkOn is the colour of letters on c.
func inkOn(c palette.Colour) string {
	if c.Dark {
		return "#fff"
	}
	return "#000"
}

// clashColour marks CUs that several claim.
var clashColour = palette.Colour{Terminal: 160, Hex: "#c4003f", Dark: true}

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
	taken := map[string][palette.Size]bool{}
	marks := make(map[podKey]podMark, len(pods))
	for i, pod := range pods {
		colour := hashOf(pod)
		for range palette.Size {
			if !slices.ContainsFunc(gpus[pod], func(gpu string) bool { return taken[gpu][colour] }) {
				break
			}
			colour = (colour + 1) % palette.Size
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
	return int(h.Sum32() % uint32(palette.Size))
}
