package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// ErrConfig is the kind of the errors about a Config.
var ErrConfig = errors.New("impossible simulation")

// A Config is one simulation. Only Geometry is required.
type Config struct {
	Name     string // of the GPU, for headings; may be empty
	Geometry cumask.Geometry
	Rounding cumask.Rounding

	Seed       uint64  // of the random numbers
	Requests   int     // pods that arrive; 0 means 20,000
	MinPercent int     // the smallest request, of the GPU; 0 means 2
	MaxPercent int     // the largest request; 0 means 50
	Percents   []int   // the sizes of requests, all as likely; nil means all from MinPercent to MaxPercent
	Load       float64 // what pods would hold at once if none were refused, in GPUs; 0 means 1
	Lifetime   float64 // mean time a pod stays, in mean times between arrivals; 0 means what Load says, else it settles Load

	Samples  int      // points over time in the report; 0 means 100
	Policies []Policy // nil means Pack and LowestFirst
}

// maxRequests bounds the memory and time of a run.
const maxRequests = 10_000_000

// withDefaults returns the config with its zero values filled in, or what is
// wrong with it.
func (c Config) withDefaults() (Config, error) {
	setInt(&c.Requests, 20_000)
	setInt(&c.MinPercent, 2)
	setInt(&c.MaxPercent, max(50, c.MinPercent))
	setInt(&c.Samples, min(100, c.Requests))
	if c.Load == 0 {
		c.Load = 1
	}
	if c.Policies == nil {
		c.Policies = []Policy{Pack(), LowestFirst()}
	}
	if err := c.Geometry.Validate(); err != nil {
		return c, fmt.Errorf("simulating: %w", err)
	}
	if err := c.setPercents(); err != nil {
		return c, err
	}
	sum := 0
	for _, percent := range c.Percents {
		sum += percent
	}
	mean := float64(sum) / float64(len(c.Percents)) / 100 // of a GPU
	if c.Lifetime == 0 {
		c.Lifetime = c.Load / mean
	}
	c.Load = c.Lifetime * mean
	return c, c.check()
}

// setPercents leaves in Percents all sizes, and in MinPercent and MaxPercent
// the smallest and largest.
func (c *Config) setPercents() error {
	if c.Percents == nil && c.MinPercent >= 1 && c.MaxPercent <= 100 {
		for percent := c.MinPercent; percent <= c.MaxPercent; percent++ {
			c.Percents = append(c.Percents, percent)
		}
	} else if len(c.Percents) > 0 {
		c.MinPercent, c.MaxPercent = slices.Min(c.Percents), slices.Max(c.Percents)
	}
	if len(c.Percents) == 0 || c.MinPercent < 1 || c.MaxPercent > 100 {
		return fmt.Errorf("simulating requests of %d to %d percent: want 1 to 100, ascending: %w", c.MinPercent, c.MaxPercent, ErrConfig)
	}
	return nil
}

func (c *Config) check() error {
	switch {
	case c.Requests < 1 || c.Requests > maxRequests:
		return fmt.Errorf("simulating %d requests: want 1 to %d: %w", c.Requests, maxRequests, ErrConfig)
	case c.Samples < 1 || c.Samples > c.Requests:
		return fmt.Errorf("simulating with %d samples: want 1 to %d, the requests: %w", c.Samples, c.Requests, ErrConfig)
	case !(c.Lifetime > 0 && c.Lifetime <= 1e6): // false for NaN too
		return fmt.Errorf("simulating a load of %v, a lifetime of %v: want them above 0 and a lifetime up to 1e6: %w", c.Load, c.Lifetime, ErrConfig)
	}
	if len(c.Policies) == 0 {
		return fmt.Errorf("simulating: no policies: %w", ErrConfig)
	}
	for i, p := range c.Policies {
		if p.Name == "" || p.Choose == nil {
			return fmt.Errorf("simulating: policy %d of %d, %q: want a name and a function: %w", i+1, len(c.Policies), p.Name, ErrConfig)
		}
	}
	return nil
}

func setInt(v *int, def int) {
	if *v == 0 {
		*v = def
	}
}

// A Policy is how a scheduler and a node give CUs to a pod.
type Policy struct {
	Name string
	// Count returns how many CUs a percentage of the GPU is; nil means by the
	// Rounding of the Config.
	Count func(g cumask.Geometry, percent int) int
	// Choose returns n CUs of the GPU that are not used, or an error of kind
	// [cumask.ErrInsufficient] when it refuses. It must depend on its arguments
	// alone.
	Choose func(g cumask.Geometry, used cumask.Set, n int) (cumask.Set, error)
}

// Pack is the policy of [cumask.Pack].
func Pack() Policy { return Policy{Name: "pack", Choose: cumask.Pack} }

// PackBalanced is Pack with [cumask.RoundBalanced], which asks for multiples of
// the XCCs.
func PackBalanced() Policy {
	return Policy{Name: "pack-balanced", Choose: cumask.Pack, Count: func(g cumask.Geometry, percent int) int {
		n, err := cumask.RoundBalanced.CUs(g, percent, 0)
		if err != nil {
			return 0 // Pack refuses it and the simulation fails
		}
		return n
	}}
}

// LowestFirst is the policy of a scheduler and a device plugin that know neither
// XCCs nor WGPs, as HAMi v2.10 and its AMD plugin: a percentage is rounded
// down, to one CU at least, and the free CUs are handed out from the lowest
// index up.
func LowestFirst() Policy {
	return Policy{Name: "lowest-first", Choose: lowestFirst, Count: func(g cumask.Geometry, percent int) int {
		return max(percent*g.CUs/100, 1)
	}}
}

// LowestFirstWhole hands out the free CUs from the lowest index up too, but
// counts them as Pack does: what counting alone is worth.
func LowestFirstWhole() Policy {
	return Policy{Name: "lowest-first-whole", Choose: lowestFirst}
}

func lowestFirst(g cumask.Geometry, used cumask.Set, n int) (cumask.Set, error) {
	free := g.All().Minus(used)
	if free.Len() < n {
		return cumask.Set{}, &cumask.InsufficientError{Want: n, Free: free.Len(), XCC: -1}
	}
	var got cumask.Set
	for lo, hi := range free.Ranges() {
		hi = min(hi, lo+n-1)
		got = got.Union(cumask.Range(lo, hi))
		if n -= hi - lo + 1; n == 0 {
			break
		}
	}
	return got, nil
}

// ParsePolicy returns the policy of that name.
func ParsePolicy(name string) (Policy, error) {
	for _, p := range []Policy{Pack(), PackBalanced(), LowestFirst(), LowestFirstWhole()} {
		if p.Name == name {
			return p, nil
		}
	}
	return Policy{}, fmt.Errorf("policy %q: want pack, pack-balanced, lowest-first or lowest-first-whole: %w", name, ErrConfig)
}
