package allocate

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// useRecorded fixes the sets of the containers that an earlier plan served.
// What is recorded has to be what Plan could hand out now: the size of the
// grant, CUs no other pod holds, nothing shared by containers that run at the
// same time. Anything else is an error, never a second booking.
func useRecorded(shares []share, held cumask.Set, recorded Recorded, id string) error {
	missing := ""
	for i := range shares {
		s := &shares[i]
		before, ok := recorded.Containers[s.container]
		if !ok {
			if s.role == Sidecar && s.cus > 0 {
				missing = s.container
			}
			continue
		}
		if s.role == Init && missing != "" {
			// Kubelet asks in the order of the spec.
			return fmt.Errorf("%w: init container %q is recorded, sidecar %q before it is not", ErrRecorded, s.container, missing)
		}
		set := before.CUs[id]
		if set.Len() != s.cus {
			return fmt.Errorf("%w: container %q has %d CUs recorded and %d granted", ErrRecorded, s.container, set.Len(), s.cus)
		}
		if s.cus > 0 {
			if err := s.geometry.Check(set); err != nil {
				return fmt.Errorf("%w: container %q: %w", ErrRecorded, s.container, err)
			}
		}
		if cu, ok := firstCU(set.Intersect(held)); ok {
			return fmt.Errorf("%w: another pod holds CU %d of container %q", ErrRecorded, cu, s.container)
		}
		for _, other := range shares[:i] {
			if cu, ok := firstCU(set.Intersect(other.set)); ok && together(other.role, s.role) {
				return fmt.Errorf("%w: containers %q and %q both hold CU %d", ErrRecorded, other.container, s.container, cu)
			}
		}
		s.set, s.fixed = set, true
	}
	return nil
}

// together reports whether a container and one declared after it run at the
// same time.
func together(earlier, later Role) bool {
	if later == Init {
		return earlier == Sidecar
	}
	return earlier != Init
}
