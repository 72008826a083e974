package simulate

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// A Report is what a simulation found.
type Report struct {
	Config  Config   `json:"-"` // with the defaults filled in
	Results []Result `json:"results"`
}

// A Result is what became of the pods under one policy.
type Result struct {
	Policy   string `json:"policy"`
	Requests int    `json:"requests"`
	Granted  int    `json:"granted"`
	Refused  int    `json:"refused"`
	// Scattered counts the refusals although as many CUs were free: on too few
	// XCCs, or halves of WGPs.
	Scattered int `json:"scattered"`
	// Starved counts masks that leave an XCC without a CU, HalfWGP those with
	// half a WGP: no queue with such a mask works as meant.
	Starved int `json:"starved"`
	HalfWGP int `json:"halfWGP"`
	// OfGranted is the effective CUs of masks in parts of the CUs granted: the
	// mean, the 5th percentile and the least. OfBound is the mean in parts of the
	// most that as many CUs reach on an idle GPU, OfPossible in parts of the most
	// that any mask reached of the CUs that were free.
	OfGranted      float64 `json:"effectiveOfGranted"`
	OfGrantedP5    float64 `json:"effectiveOfGrantedP5"`
	OfGrantedLeast float64 `json:"effectiveOfGrantedLeast"`
	OfBound        float64 `json:"effectiveOfBound"`
	OfPossible     float64 `json:"effectiveOfPossible"`
	// Ranges is the mean number of ranges of a mask. FreeUsable is, on average
	// over time, which part of the free CUs one more mask could make effective.
	Ranges     float64 `json:"ranges"`
	FreeUsable float64 `json:"freeUsable"`

	Samples []Sample `json:"samples"`
}

// A Sample is the state after some requests, and what happened since the sample
// before.
type Sample struct {
	Time          float64 `json:"time"` // in mean times between arrivals
	Granted       int     `json:"granted"`
	Refused       int     `json:"refused"`
	Starved       int     `json:"starved"`
	HalfWGP       int     `json:"halfWGP"`
	OfGranted     float64 `json:"effectiveOfGranted"` // mean; 0 when nothing was granted
	OfBound       float64 `json:"effectiveOfBound"`   // mean; 0 when nothing was granted
	FreeUsable    float64 `json:"freeUsable"`         // mean; 0 when nothing was free
	UsedCUs       int     `json:"usedCUs"`
	Pods          int     `json:"pods"`
	FreeRanges    int     `json:"freeRanges"`
	FreeEffective int     `json:"freeEffective"` // most effective CUs that one mask could have of the free CUs
}

// Run simulates. A policy that hands out other CUs than it was asked for makes
// it fail.
func Run(config Config) (*Report, error) {
	c, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	requests := arrivals(c)
	report := &Report{Config: c}
	for _, p := range c.Policies {
		r, err := replay(c, p, requests)
		if err != nil {
			return nil, fmt.Errorf("simulating policy %q: %w", p.Name, err)
		}
		report.Results = append(report.Results, r)
	}
	return report, nil
}

// A request is a pod: when it comes, when it would leave, what it wants.
type request struct {
	at, until float64
	percent   int
}

// arrivals draws the pods, the same for every policy: a Poisson process with
// one arrival in a unit of time, and exponential lifetimes.
func arrivals(c Config) []request {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	requests := make([]request, c.Requests)
	now := 0.0
	for i := range requests {
		now += random.ExpFloat64()
		requests[i] = request{at: now, percent: c.Percents[random.IntN(len(c.Percents))]}
		requests[i].until = now + float64(c.Lifetime*random.ExpFloat64()) // not fused: the same on every machine
	}
	return requests
}

// counts returns how many CUs each percentage is.
func counts(c Config, p Policy) (map[int]int, error) {
	cus := map[int]int{}
	for _, percent := range c.Percents {
		if p.Count != nil {
			cus[percent] = p.Count(c.Geometry, percent)
			continue
		}
		n, err := c.Rounding.CUs(c.Geometry, percent, 0)
		if err != nil {
			return nil, err
		}
		cus[percent] = n
	}
	return cus, nil
}

// A leaver is a pod that holds CUs until some time.
type leaver struct {
	until float64
	cus   cumask.Set
}

// leavers is a heap, the next to leave first.
type leavers []leaver

func (l leavers) Len() int           { return len(l) }
func (l leavers) Less(i, j int) bool { return l[i].until < l[j].until }
func (l leavers) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *leavers) Push(x any)        { *l = append(*l, x.(leaver)) }
func (l *leavers) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

// A node is one GPU under one policy.
type node struct {
	g    cumask.Geometry
	used cumask.Set
	pods leavers

	result    Result
	shares    []float64 // effective of granted, of every mask
	bounds    float64   // sum of effective of bound
	possibles float64   // sum of effective of possible
	masks     int       // of possible, where any effective CU was
	ranges    int       // of all masks
	usable    float64   // sum of the usable part of the free CUs
	moments   int       // of usable
	since     Sample    // what the next sample counts
	sinceFree int       // moments of its FreeUsable
}

func replay(c Config, p Policy, requests []request) (Result, error) {
	cus, err := counts(c, p)
	if err != nil {
		return Result{}, err
	}
	n := &node{g: c.Geometry, result: Result{Policy: p.Name, Requests: len(requests)}}
	for i, r := range requests {
		n.leave(r.at)
		if err := n.arrive(p, cus[r.percent], r.until); err != nil {
			return Result{}, err
		}
		if (i+1)*c.Samples/len(requests) > i*c.Samples/len(requests) {
			n.sample(r.at)
		}
	}
	return n.finish(), nil
}

// leave frees what pods hold whose time is over.
func (n *node) leave(now float64) {
	for len(n.pods) > 0 && n.pods[0].until <= now {
		n.used = n.used.Minus(heap.Pop(&n.pods).(leaver).cus)
	}
	if free := n.g.All().Minus(n.used); !free.Empty() {
		usable := float64(n.g.Effective(free)) / float64(free.Len())
		n.usable += usable
		n.moments++
		n.since.FreeUsable += usable
		n.sinceFree++
	}
}

func (n *node) arrive(p Policy, want int, until float64) error {
	cus, err := p.Choose(n.g, n.used, want)
	if errors.Is(err, cumask.ErrInsufficient) {
		n.result.Refused++
		n.since.Refused++
		if n.g.CUs-n.used.Len() >= want {
			n.result.Scattered++
		}
		return nil
	}
	if err != nil {
		return err
	}
	if cus.Len() != want || !cus.Intersect(n.used).Empty() || !cus.Minus(n.g.All()).Empty() {
		return fmt.Errorf("want %d free cus, %q are used: got %q: %w", want, n.used, cus, ErrConfig)
	}
	n.judge(cus)
	n.used = n.used.Union(cus)
	heap.Push(&n.pods, leaver{until, cus})
	return nil
}

// judge counts what a mask is worth that is about to be handed out.
func (n *node) judge(cus cumask.Set) {
	effective, granted, unit := n.g.Effective(cus), cus.Len(), max(n.g.XCCs, 1)
	n.result.Granted++
	n.since.Granted++
	switch {
	case effective == 0:
		n.result.Starved++
		n.since.Starved++
	case n.g.Check(cus) != nil:
		n.result.HalfWGP++
		n.since.HalfWGP++
	}
	share := float64(effective) / float64(granted)
	n.shares = append(n.shares, share)
	n.since.OfGranted += share
	bound := max(granted/unit*unit, unit) // fewer than the unit reach nothing
	n.bounds += float64(effective) / float64(bound)
	n.since.OfBound += float64(effective) / float64(bound)
	if possible := min(bound, n.g.Effective(n.g.All().Minus(n.used))); possible > 0 {
		n.possibles += float64(effective) / float64(possible)
		n.masks++
	}
	for range cus.Ranges() {
		n.ranges++
	}
}

func (n *node) sample(now float64) {
	s := n.since
	s.Time = now
	if s.Granted > 0 {
		s.OfGranted /= float64(s.Granted)
		s.OfBound /= float64(s.Granted)
	}
	if n.sinceFree > 0 {
		s.FreeUsable /= float64(n.sinceFree)
	}
	free := n.g.All().Minus(n.used)
	s.UsedCUs, s.Pods, s.FreeEffective = n.used.Len(), len(n.pods), n.g.Effective(free)
	for range free.Ranges() {
		s.FreeRanges++
	}
	n.result.Samples = append(n.result.Samples, s)
	n.since, n.sinceFree = Sample{}, 0
}

func (n *node) finish() Result {
	r := n.result
	if n.moments > 0 {
		r.FreeUsable = n.usable / float64(n.moments)
	}
	if r.Granted == 0 {
		return r
	}
	sum := 0.0
	for _, share := range n.shares {
		sum += share
	}
	slices.Sort(n.shares)
	r.OfGranted = sum / float64(r.Granted)
	r.OfGrantedP5 = n.shares[r.Granted*5/100]
	r.OfGrantedLeast = n.shares[0]
	r.OfBound = n.bounds / float64(r.Granted)
	if n.masks > 0 {
		r.OfPossible = n.possibles / float64(n.masks)
	}
	r.Ranges = float64(n.ranges) / float64(r.Granted)
	return r
}
