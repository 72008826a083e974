package plugin

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// errForged is a grant of more than the container's own limits ask for. No
// scheduler writes one, but whoever may edit the pod can (HAMi#3041), while
// limits cannot be changed once the pod exists.
var errForged = errors.New("grant exceeds the container's limits")

// checkLimits compares the grants of a pod with what its containers ask for.
// What a container does not name is the scheduler's to choose, and a hard
// device is granted whole whatever was asked.
func checkLimits(scheduler *amd.Devices, pod *corev1.Pod, spec *allocate.Pod, s *snapshot) error {
	grants, err := alignedGrants(spec)
	if err != nil {
		return err
	}
	for i := range grants {
		if len(grants[i]) == 0 {
			continue
		}
		asked, err := scheduler.Request(container(pod, i))
		if err != nil {
			continue // nothing to compare with
		}
		for _, g := range grants[i] {
			d, ok := s.Device(g.UUID)
			if !ok || d.Hard {
				continue
			}
			if err := checkLimit(g, asked, d); err != nil {
				return fmt.Errorf("container %q: device %q: %w", spec.Containers[i].Name, g.UUID, err)
			}
		}
	}
	return nil
}

func checkLimit(g annotations.Grant, asked amd.Request, d *partition.Registered) error {
	memory := int64(d.Devmem)
	switch {
	case asked.MemoryMiB > 0:
		memory = int64(asked.MemoryMiB)
	case asked.MemoryPercent > 0:
		memory = (memory*int64(asked.MemoryPercent) + 99) / 100
	}
	if int64(g.MemoryMiB) > memory {
		return fmt.Errorf("%w: granted %d MiB, asks for %d", errForged, g.MemoryMiB, memory)
	}
	if asked.Cores <= 0 {
		return nil
	}
	// The scheduler may round either way.
	most := 0
	for _, rounding := range []cumask.Rounding{cumask.RoundPlain, cumask.RoundBalanced} {
		cus, err := rounding.CUs(d.Geometry(), int(asked.Cores), int(d.Count))
		if err != nil {
			return err
		}
		most = max(most, cus)
	}
	if int(g.CUs) > most {
		return fmt.Errorf("%w: granted %d CUs, asks for %d %% of %d, which is %d", errForged, g.CUs, asked.Cores, d.Devcore, most)
	}
	return nil
}

// errUnhealthy is a grant of a device that fell ill after the scheduler chose
// it. Kubelet hands out no unhealthy device, but what a container gets follows
// from the grant.
var errUnhealthy = errors.New("device is unhealthy")

// checkHealth refuses to put containers on devices that are not healthy now.
func checkHealth(spec *allocate.Pod, take []waitingContainer, s *snapshot) error {
	for _, c := range take {
		for _, g := range c.grants {
			if d, ok := s.Device(g.UUID); ok && !d.Health {
				return fmt.Errorf("container %q: device %q: %w: %s", spec.Containers[c.container].Name, g.UUID, errUnhealthy, d.Unhealthy)
			}
		}
	}
	return nil
}
