package partition

import (
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// EventModeChangedInUse is the reason of the Warning event on a node whose GPUs
// changed their mode while pods held them.
const EventModeChangedInUse = "AMDGPUModeChangedInUse"

// ModeChangedInUse finds the pods that hold a device whose GPU is registered in
// another way than when they got it: as partitions instead of whole, the other
// way round, or under another Mode.
//
// before is what the node offered then, usually what its register annotation
// held when the plugin started; it may be empty, and then IDs alone are
// compared. after is every device it offers now. holders maps each pod to the
// device IDs it holds. The result is sorted. A pod whose GPU is gone altogether
// is not in it: that GPU changed no mode.
func ModeChangedInUse(before []annotations.Device, after []Registered, holders map[string][]string) []string {
	was, now := make(map[string]string, len(before)), make(map[string]string, len(after))
	for i := range before {
		was[before[i].ID] = before[i].Mode
	}
	onNode := make(map[string]bool, len(after))
	for i := range after {
		now[after[i].ID] = after[i].Mode
		onNode[parentID(after[i].ID)] = true
	}
	var out []string
	for _, pod := range slices.Sorted(maps.Keys(holders)) {
		if slices.ContainsFunc(holders[pod], func(id string) bool {
			mode, registered := now[id]
			if !registered {
				return onNode[parentID(id)]
			}
			old, known := was[id]
			return known && old != mode
		}) {
			out = append(out, pod)
		}
	}
	return out
}
