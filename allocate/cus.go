package allocate

import (
	"fmt"
	"slices"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// share is what one container wants of one device.
type share struct {
	container string
	role      Role
	*demand
	fixed bool // recorded by an earlier plan
}

// assignCUs fills the sets of all demands, device by device. Devices do not
// influence each other.
func assignCUs(demands [][]demand, pod Pod, node Node) error {
	var order []string // of first appearance, so that errors do not depend on map order
	shares := make(map[string][]share)
	for i, c := range pod.Containers {
		for k := range demands[i] {
			d := &demands[i][k]
			id := d.device.ID
			if !slices.Contains(order, id) {
				order = append(order, id)
			}
			shares[id] = append(shares[id], share{container: c.Name, role: c.Role, demand: d})
		}
	}
	for _, id := range order {
		if err := assignDevice(shares[id], node.Held[id], pod.Recorded, id); err != nil {
			return fmt.Errorf("device %q: %w", id, err)
		}
	}
	return nil
}

// assignDevice fills the sets of one device. shares are in spec order, so the
// sidecars an init container runs beside are those before it.
func assignDevice(shares []share, held cumask.Set, recorded Recorded, id string) error {
	if err := checkMemory(shares); err != nil {
		return err
	}
	g := shares[0].geometry
	free := g.All().Minus(held)

	if err := useRecorded(shares, held, recorded, id); err != nil {
		return err
	}
	if own := recorded.CUs[id]; !own.Empty() {
		// All that the pod needs was handed out before: stay inside it.
		if cu, ok := firstCU(own.Minus(free)); ok {
			return fmt.Errorf("%w: CU %d of the recorded %s is held by another pod or beyond the device", ErrRecorded, cu, own)
		}
		if peak := peakOf(shares, func(s share) int { return s.cus }); peak != own.Len() {
			return fmt.Errorf("%w: %d CUs recorded, the grants need %d", ErrRecorded, own.Len(), peak)
		}
		free = own
	}
	leadInit(shares)
	union, err := packConcurrent(shares, g, free)
	if err != nil {
		return err
	}
	return packInit(shares, g, free, union)
}

// leadInit makes an app container of one ordinary init container, for the
// search only, where no app container holds CUs: of those that run beside
// every sidecar, the one that needs most. It has to be packed together with
// the sidecars, which might otherwise take the last CUs of an XCC. The other
// init containers then always find CUs to reuse.
func leadInit(shares []share) {
	lead := -1
	for i, s := range shares {
		switch {
		case s.cus == 0:
		case s.role == Init && (lead < 0 || s.cus > shares[lead].cus):
			lead = i
		case s.role == Sidecar:
			lead = -1
		case s.role == App:
			return
		}
	}
	if lead >= 0 {
		shares[lead].role = App
	}
}

// packConcurrent packs the app containers and sidecars at once and returns
// all that they hold.
func packConcurrent(shares []share, g cumask.Geometry, free cumask.Set) (cumask.Set, error) {
	var (
		union   cumask.Set
		waiting []*demand
		sizes   []int
	)
	for _, s := range shares {
		switch {
		case s.role == Init || s.cus == 0:
		case s.fixed:
			union = union.Union(s.set)
		default:
			waiting = append(waiting, s.demand)
			sizes = append(sizes, s.cus)
		}
	}
	if len(sizes) == 0 {
		return union, nil
	}
	sets, err := cumask.PackAll(g, g.All().Minus(free).Union(union), sizes)
	if err != nil {
		return cumask.Set{}, err
	}
	for i, d := range waiting {
		d.set = sets[i]
		union = union.Union(sets[i])
	}
	return union, nil
}

// packInit gives each ordinary init container CUs that the app containers and
// the later sidecars will use once it is gone, and more only where these are
// too few. union therefore grows to the pod's peak and never beyond. There
// always are such CUs ([leadInit]), and as every container's set has a CU on
// each XCC, neither way can fail for want of an XCC.
func packInit(shares []share, g cumask.Geometry, free, union cumask.Set) error {
	for _, s := range shares {
		if s.role == Init && s.fixed {
			union = union.Union(s.set)
		}
	}
	var before cumask.Set // sidecars that already run
	for _, s := range shares {
		if s.role == Sidecar {
			before = before.Union(s.set)
		}
		if s.role != Init || s.cus == 0 || s.fixed {
			continue
		}
		reuse := union.Minus(before)
		var err error
		if s.cus <= reuse.Len() {
			s.set, err = cumask.Pack(g, g.All().Minus(reuse), s.cus)
		} else {
			s.set, err = extend(g, reuse, free.Minus(union), s.cus)
		}
		if err != nil {
			return fmt.Errorf("init container %q: %w", s.container, err)
		}
		union = union.Union(s.set)
	}
	return nil
}

// extend returns have with CUs of free added until it holds n: each time on
// the XCC that has the fewest, which gives the most effective CUs a superset
// of have can reach. WGPs are taken whole.
func extend(g cumask.Geometry, have, free cumask.Set, n int) (cumask.Set, error) {
	xccs, wgp := max(g.XCCs, 1), max(g.CUsPerWGP, 1)
	count := make([]int, xccs)
	for cu := range have.All() {
		count[cu%xccs]++
	}
	candidates := make([][]int, xccs) // first CUs of free WGPs, ascending
	for cu := range free.All() {
		if cu%wgp == 0 && cumask.Range(cu, cu+wgp-1).Minus(free).Empty() {
			candidates[cu%xccs] = append(candidates[cu%xccs], cu)
		}
	}
	set := have
	for set.Len() < n {
		poorest := -1
		for x := range xccs {
			if len(candidates[x]) > 0 && (poorest < 0 || count[x] < count[poorest]) {
				poorest = x
			}
		}
		if poorest < 0 {
			return cumask.Set{}, &cumask.InsufficientError{Want: n, Free: have.Union(free).Len(), XCC: -1}
		}
		cu := candidates[poorest][0]
		candidates[poorest] = candidates[poorest][1:]
		set = set.Union(cumask.Range(cu, cu+wgp-1))
		count[poorest] += wgp
	}
	return set, g.Check(set)
}

func firstCU(s cumask.Set) (int, bool) {
	for cu := range s.All() {
		return cu, true
	}
	return 0, false
}
