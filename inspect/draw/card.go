package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
)

// A card is one physical GPU: one device, or all of its partitions.
type card struct {
	node     *inspect.Node
	physical string
	index    int
	parts    []*part
	holdings []*holding // in the order of the legend and of their letters
	problems []*problem
	sum      sum
}

// A part is one registered device of a card.
type part struct {
	*inspect.GPU
	label  string // "p0" of a partition, "" of a whole GPU
	fault  string // why the CUs cannot be drawn
	owners []int  // who has each CU: the index of a holding, or one of what follows
	free   cumask.Set
}

// What a CU shows besides the index of a holding.
const (
	ownerFree  = -1
	ownerClash = -2 // pods or containers that run together both claim it
)

// A holding is a row of the legend: what one container has of one device.
type holding struct {
	*inspect.Tenant
	podMark
	part     *part
	mib      int64 // its stretch of the VRAM bar
	problems []*problem
}

// name is the heading of a card.
func (c *card) name() string { return "GPU " + strconv.Itoa(c.index) }

func (c *card) product() string { return shortProduct(c.parts[0].Device.Type) }

// partitioned cards have several devices, or one that can be granted only
// whole.
func (c *card) partitioned() bool { return c.parts[0].label != "" }

// profile is the compute and memory partition, as far as it is known.
func (c *card) profile() string {
	d := c.parts[0].Device
	return plain(cmp.Or(d.CustomInfo.PartitionProfile, d.Mode))
}

// arrange names the parts, orders the holdings and says who has which CU.
func (c *card) arrange(marks map[podKey]podMark) {
	slices.SortStableFunc(c.parts, func(a, b *part) int { return cmp.Compare(a.Device.Index, b.Device.Index) })
	c.index = int(c.parts[0].Device.Index)
	c.sum.gpus = 1
	for i, p := range c.parts {
		if len(c.parts) > 1 || p.Hard && p.Device.Mode != "spx" {
			p.label = partitionOf(p.Device.ID, i)
		}
		for _, t := range p.Tenants {
			c.holdings = append(c.holdings, &holding{Tenant: t, part: p, podMark: marks[keyOf(t)]})
		}
		c.sum.shares += int(p.Device.Count)
		c.sum.used += p.Shares
		c.sum.cus += int(p.Device.Devcore)
		c.sum.usedCUs += max(p.GrantedCUs, p.wholeCUs())
		c.sum.mib += int64(p.Device.Devmem)
		c.sum.usedMiB += p.GrantedMiB
	}
	order := map[*part]int{}
	for i, p := range c.parts {
		order[p] = i
	}
	slices.SortStableFunc(c.holdings, func(a, b *holding) int {
		return cmp.Or(cmp.Compare(order[a.part], order[b.part]), cmp.Compare(a.first(), b.first()))
	})
	for lo, i := 0, 0; i < len(c.parts); i++ {
		hi := lo
		for hi < len(c.holdings) && c.holdings[hi].part == c.parts[i] {
			hi++
		}
		c.parts[i].paint(c.holdings, lo, hi)
		lo = hi
	}
	c.shareMemory()
}

// wholeCUs are the CUs of a device that somebody has whole, in whatever words
// the grant says so.
func (p *part) wholeCUs() int {
	for _, t := range p.Tenants {
		if t.Whole {
			return int(p.Device.Devcore)
		}
	}
	return 0
}

// partitionOf is the name of a partition: the end of its id, else its rank.
func partitionOf(id string, rank int) string {
	if at := strings.LastIndex(id, "-p"); at >= 0 {
		if k, err := strconv.ParseUint(id[at+2:], 10, 8); err == nil {
			return fmt.Sprintf("p%d", k)
		}
	}
	return fmt.Sprintf("p%d", rank)
}

// first is where a holding begins on the map: legends follow the map from left
// to right, with those of memory alone at the end.
func (h *holding) first() int {
	for cu := range h.cus().All() {
		return cu
	}
	return cumask.MaxCUs
}

// cus are the CUs a holding covers on the map.
func (h *holding) cus() cumask.Set {
	if h.Mask.Empty() && h.Whole {
		return h.part.Geometry.All()
	}
	return h.Mask.Intersect(h.part.Geometry.All())
}

// paint says who has each CU; its holdings are those from lo to before hi. An init container's CUs are free again for its
// pod's other containers and show only where none of them has them.
func (p *part) paint(holdings []*holding, lo, hi int) {
	if err := p.Geometry.Validate(); err != nil {
		p.fault = err.Error()
		return
	}
	p.owners = slices.Repeat([]int{ownerFree}, p.Geometry.CUs)
	p.free = p.Geometry.All()
	for _, init := range [...]bool{false, true} {
		for i := lo; i < hi; i++ {
			h := holdings[i]
			if h.Init != init {
				continue
			}
			for cu := range h.cus().All() {
				p.owners[cu] = claim(holdings, p.owners[cu], i)
			}
			p.free = p.free.Minus(h.cus())
		}
	}
}

// claim is who has a CU that i claims and before had until now.
func claim(holdings []*holding, before, i int) int {
	switch {
	case before == ownerFree:
		return i
	case before == ownerClash:
		return ownerClash
	case holdings[i].Init && keyOf(holdings[i].Tenant) == keyOf(holdings[before].Tenant):
		return before
	}
	return ownerClash
}

// shareMemory gives each holding its stretch of the VRAM bar: an init
// container what it has beyond the pod's other containers, since they reuse it.
func (c *card) shareMemory() {
	type books struct {
		pod  podKey
		part *part
	}
	running := map[books]int64{}
	for _, h := range c.holdings {
		if !h.Init {
			h.mib = int64(h.MemoryMiB)
			running[books{keyOf(h.Tenant), h.part}] += h.mib
		}
	}
	for _, h := range c.holdings {
		if h.Init {
			at := books{keyOf(h.Tenant), h.part}
			h.mib = max(0, int64(h.MemoryMiB)-running[at])
			running[at] += h.mib
		}
	}
}

// freeCUs is what can still be granted of a part, and how many of these would
// be effective.
func (p *part) freeCUs() (cus, effective int) {
	if p.fault != "" {
		return 0, 0
	}
	cus = max(0, p.Geometry.CUs-max(p.GrantedCUs, p.wholeCUs()))
	return cus, min(cus, p.Geometry.Effective(p.free))
}

// letters tell tenants apart without colours. All beyond the last share one.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func letter(owner int) string {
	switch {
	case owner == ownerFree:
		return "."
	case owner == ownerClash:
		return "!"
	case owner < len(letters):
		return letters[owner : owner+1]
	}
	return "*"
}

// state says in a few words what keeps new pods off a card.
func (c *card) state() []string {
	var words []string
	add := func(word string, is func(*part) bool) {
		var some []string
		for _, p := range c.parts {
			if is(p) {
				some = append(some, p.label)
			}
		}
		switch n := len(some); {
		case n == 0:
		case n == len(c.parts):
			words = append(words, word)
		case n > 8:
			words = append(words, fmt.Sprintf("%d partitions %s", n, word))
		default:
			words = append(words, strings.Join(some, ", ")+" "+word)
		}
	}
	add("unhealthy", func(p *part) bool { return !p.Device.Health })
	add("cordoned", func(p *part) bool { return p.Cordoned })
	return words
}
