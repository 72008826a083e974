package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// stateQuiet is how long a GPU that was reported is quiet, so that one that
// flaps gives a few events an hour and not a flood. What it is in afterwards is
// reported then.
const stateQuiet = 5 * time.Minute

// gpuStates turns the state of each GPU into events: one when it gets
// unhealthy or goes missing, one when it is well again.
type gpuStates struct{ gpus map[partition.BDF]*gpuState }

type gpuState struct {
	name     string // product
	now      health
	detail   string
	reported health
	at       time.Time // of the last report
}

type health string

const (
	healthy   health = "healthy"
	unhealthy health = "unhealthy"
	missing   health = "missing"
)

// nodeEvent is an event about the node.
type nodeEvent struct{ kind, reason, message string }

// newGPUStates starts with the GPUs the node offered before, from its register
// annotation, so that one that did not come back with a reboot is noticed.
func newGPUStates(before []annotations.Device) *gpuStates {
	s := &gpuStates{gpus: make(map[partition.BDF]*gpuState)}
	for _, d := range before {
		// Whoever may patch the node could have written anything.
		if bdf, err := partition.ParseBDF(d.CustomInfo.PCIBDF); err == nil {
			s.gpus[bdf] = &gpuState{name: d.Type, now: missing, reported: healthy}
		}
	}
	return s
}

// update takes over what the node offers now. A GPU that is there but offered
// no more, because it is excluded, is not missing.
func (s *gpuStates) update(snap *snapshot) {
	for _, g := range s.gpus {
		g.now, g.detail = missing, ""
	}
	if snap.Inventory != nil {
		for i := range snap.Inventory.GPUs {
			if g := s.gpus[snap.Inventory.GPUs[i].BDF]; g != nil {
				g.now = healthy
			}
		}
	}
	sick := make(map[partition.BDF][]string)
	for i := range snap.Devices {
		d := &snap.Devices[i]
		g := s.gpus[d.GPU.BDF]
		if g == nil {
			g = &gpuState{reported: healthy}
			s.gpus[d.GPU.BDF] = g
		}
		g.name, g.now = d.Type, healthy
		if !d.Health {
			reason := d.Unhealthy
			if d.Partition >= 0 {
				reason = fmt.Sprintf("partition %d: %s", d.Partition, reason)
			}
			sick[d.GPU.BDF] = append(sick[d.GPU.BDF], reason)
		}
	}
	for bdf, reasons := range sick {
		g := s.gpus[bdf]
		g.now, g.detail = unhealthy, strings.Join(slices.Compact(reasons), "; ")
	}
}

// due returns the events that are to be sent, in order of PCI address.
func (s *gpuStates) due(now time.Time) []nodeEvent {
	var events []nodeEvent
	for _, bdf := range slices.Sorted(maps.Keys(s.gpus)) {
		g := s.gpus[bdf]
		if g.now == g.reported || !g.at.IsZero() && now.Sub(g.at).Abs() < stateQuiet {
			continue
		}
		g.reported, g.at = g.now, now
		what := fmt.Sprintf("GPU %s (%s)", bdf, g.name)
		switch g.now {
		case unhealthy:
			events = append(events, nodeEvent{corev1.EventTypeWarning, eventUnhealthy, what + " is unhealthy: " + g.detail})
		case missing:
			events = append(events, nodeEvent{corev1.EventTypeWarning, eventMissing, what + " is missing"})
		case healthy:
			events = append(events, nodeEvent{corev1.EventTypeNormal, eventRecovered, what + " is healthy again"})
		}
	}
	return events
}

// modeChanged is the event about pods that hold GPUs whose mode has changed
// since, none if there are no such pods. before is what the node offered when
// they got them; holders maps pods to the IDs of their devices.
func modeChanged(before []annotations.Device, after []partition.Registered, holders map[string][]string) []nodeEvent {
	pods := partition.ModeChangedInUse(before, after, holders)
	if len(pods) == 0 {
		return nil
	}
	return []nodeEvent{{corev1.EventTypeWarning, eventModeChangedInUse,
		"GPUs changed their compute partition mode while these pods use them: " + names(pods, 20)}}
}
