package cumask

import "fmt"

// A Rounding is how a percentage of a GPU becomes a number of CUs. Scheduler
// and node must use the same.
type Rounding int

const (
	// RoundPlain is the protocol's formula: the floor of percent*CUs/100,
	// then [Geometry.RoundUp].
	RoundPlain Rounding = iota
	// RoundBalanced moves the plain number to a multiple of XCCs, so that no
	// CU of the grant waits for a poorer XCC: up while as many pods of that
	// size fit on the GPU, else down, never below the unit.
	RoundBalanced
)

// CUs returns how many CUs percent of the GPU is. shares is how many pods may
// share the GPU at once, the other bound on the pods that fit; 0 means that
// only the CUs bound them.
//
// MI300X, 304 CUs on 8 XCCs, 10 shares (and 32 CUs in pairs, for comparison):
//
//	percent   plain   pods   balanced   pods   32 in pairs
//	      1       8     10          8     10             2
//	     10      30     10         24     10             4
//	     25      76      4         72      4             8
//	     33     100      3         96      3            10
//	     50     152      2        152      2            16
//	     67     203      1        208      1            22
//	    100     304      1        304      1            32
//
// With 4 shares 10 % is 32 balanced: up changes nothing when at most four pods
// share the GPU. An impossible geometry is an error of kind [ErrGeometry], a
// percentage outside 1 to 100 one of kind [ErrGranularity].
func (r Rounding) CUs(g Geometry, percent, shares int) (int, error) {
	if err := g.Validate(); err != nil {
		return 0, err
	}
	if percent < 1 || percent > 100 {
		return 0, fmt.Errorf("rounding %d percent of %d cus: want 1 to 100 percent: %w", percent, g.CUs, ErrGranularity)
	}
	n := g.RoundUp(percent * g.CUs / 100)
	switch r {
	case RoundPlain:
		return n, nil
	case RoundBalanced:
		return g.balance(n, shares), nil
	}
	return 0, fmt.Errorf("rounding %d percent of %d cus: unknown rounding %d", percent, g.CUs, int(r))
}

func (g Geometry) balance(n, shares int) int {
	x := g.xccs()
	down := n / x * x
	if down == n {
		return n
	}
	pods := func(n int) int {
		if shares > 0 {
			return min(g.CUs/n, shares)
		}
		return g.CUs / n
	}
	if up := down + x; up <= g.CUs && pods(up) == pods(n) {
		return up
	}
	return down
}

// ParseRounding reads a name that String prints: "plain", or "" for it, and
// "balanced".
func ParseRounding(name string) (Rounding, error) {
	switch name {
	case "", "plain":
		return RoundPlain, nil
	case "balanced":
		return RoundBalanced, nil
	}
	return 0, fmt.Errorf("rounding %q: want plain or balanced", clip(name))
}

func (r Rounding) String() string {
	switch r {
	case RoundPlain:
		return "plain"
	case RoundBalanced:
		return "balanced"
	}
	return fmt.Sprintf("rounding(%d)", int(r))
}
