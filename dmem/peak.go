package dmem

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// Kind says when a container runs, which decides what it holds at once with
// the others of its pod.
type Kind int

// The kinds of containers.
const (
	App     Kind = iota
	Init         // runs to its end before the next one starts
	Sidecar      // an init container with restartPolicy Always
)

// Grant is what one container holds of one GPU.
type Grant struct {
	Region string // see [VRAMRegion]
	Bytes  uint64
	// Whole is a GPU held alone.
	Whole bool
	// Partitions is the GPU's partition count if the grant is one hard
	// partition of it, else 0.
	Partitions int
}

// Holder is one container of a pod with its grants.
type Holder struct {
	Kind   Kind
	Grants []Grant
}

// PeakCaps returns the limits of a pod's cgroup, in order of region, from its
// containers in the order of the spec, init containers first.
//
// The limit of a region is the most that can be held at once: the larger of
// all app containers with all sidecars, and each init container with the
// sidecars declared before it. Partitions of a GPU share its region and are
// summed. A GPU that is at some time held whole, alone or as all of its
// partitions, gets no limit.
func PeakCaps(containers []Holder) ([]Cap, error) {
	var apps []Grant
	sidecars, peak := stage{}, stage{}
	for i, c := range containers {
		if err := checkHolder(c); err != nil {
			return nil, fmt.Errorf("dmem limits: container %d: %w", i, err)
		}
		var err error
		switch c.Kind {
		case Sidecar:
			err = sidecars.add(c.Grants)
		case Init:
			during := maps.Clone(sidecars)
			err = during.add(c.Grants)
			peak.raise(during)
		case App:
			apps = append(apps, c.Grants...)
		}
		if err != nil {
			return nil, fmt.Errorf("dmem limits: container %d: %w", i, err)
		}
	}
	if err := sidecars.add(apps); err != nil {
		return nil, fmt.Errorf("dmem limits: app containers: %w", err)
	}
	peak.raise(sidecars)

	var caps []Cap
	for region, h := range peak {
		if !h.whole {
			caps = append(caps, Cap{region, h.bytes})
		}
	}
	slices.SortFunc(caps, func(a, b Cap) int { return strings.Compare(a.Region, b.Region) })
	return caps, nil
}

func checkHolder(c Holder) error {
	if c.Kind < App || c.Kind > Sidecar {
		return fmt.Errorf("want kind %d to %d, have %d", App, Sidecar, c.Kind)
	}
	for _, g := range c.Grants {
		switch {
		case !plainRegion(g.Region):
			return fmt.Errorf("want a region without blanks, have %q", g.Region)
		case g.Partitions < 0:
			return fmt.Errorf("partitions of %q: want 0 or more, have %d", g.Region, g.Partitions)
		case g.Bytes == 0 && !g.Whole:
			return fmt.Errorf("grant of %q: want bytes above 0, have 0", g.Region)
		}
	}
	return nil
}

// held is what is held of one region at one time.
type held struct {
	bytes      uint64
	partitions int
	whole      bool
}

// stage is all that is held at one time, by region.
type stage map[string]held

func (s stage) add(grants []Grant) error {
	for _, g := range grants {
		h := s[g.Region]
		sum, carry := bits.Add64(h.bytes, g.Bytes, 0)
		if carry != 0 || sum >= 1<<63 {
			return fmt.Errorf("grants of %q: want less than 2^63 bytes in all, have more", g.Region)
		}
		h.bytes = sum
		h.whole = h.whole || g.Whole
		if g.Partitions > 0 {
			h.partitions++
			h.whole = h.whole || h.partitions >= g.Partitions
		}
		s[g.Region] = h
	}
	return nil
}

// raise makes s at least as much as other, region by region.
func (s stage) raise(other stage) {
	for r, h := range other {
		old := s[r]
		s[r] = held{bytes: max(old.bytes, h.bytes), whole: old.whole || h.whole}
	}
}
