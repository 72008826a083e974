package annotations

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// The words of GPUSchedulerPolicyKey; NodeSchedulerPolicyKey knows the first two.
const (
	PolicyBinpack  = "binpack"        // the fullest first
	PolicySpread   = "spread"         // the emptiest first
	PolicyMutex    = "mutex"          // only devices nobody uses
	PolicyTopology = "topology-aware" // devices that are well linked
	PolicyNUMA     = "numa"           // devices of one NUMA node
)

// Policies yields the words of a scheduler policy, a comma-separated list, as
// HAMi reads it: spaces around a word do not count. Empty words are left out.
func Policies(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(value, ",") {
			if word = strings.TrimSpace(word); word != "" && !yield(word) {
				return
			}
		}
	}
}

// ScoringWeights weigh the parts of a device's score.
type ScoringWeights struct {
	Slot, Core, Memory int32
}

// ParseWeights reads the value of ScoringWeightsKey, "slot=1,core=1,memory=3":
// all three, each once, in any order, whole numbers of which one is not 0.
func ParseWeights(s string) (ScoringWeights, error) {
	var w ScoringWeights
	if err := checkSize(s); err != nil {
		return w, fmt.Errorf("%s: %w", ScoringWeightsKey, err)
	}
	fields := map[string]*int32{"slot": &w.Slot, "core": &w.Core, "memory": &w.Memory}
	for part := range strings.SplitSeq(s, ",") {
		name, number, _ := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		field := fields[name]
		n, ok := parseCount(strings.TrimSpace(number))
		if field == nil || !ok {
			return ScoringWeights{}, fmt.Errorf("%s: want slot=N,core=N,memory=N, each once, N from 0 to %d, found %s", ScoringWeightsKey, math.MaxInt32, quote(part))
		}
		*field = n
		delete(fields, name)
	}
	if len(fields) > 0 || w == (ScoringWeights{}) {
		return ScoringWeights{}, fmt.Errorf("%s: want slot=N,core=N,memory=N with one N above 0, found %s", ScoringWeightsKey, quote(s))
	}
	return w, nil
}

// A BindPhase is the value of BindPhaseKey.
type BindPhase string

const (
	// BindAllocating: bound, the plugin has still to serve it. Written by the scheduler.
	BindAllocating BindPhase = "allocating"
	// BindSuccess: all containers have their devices. Written by the plugin.
	BindSuccess BindPhase = "success"
	// BindFailed: the plugin refused. Written by the plugin.
	BindFailed BindPhase = "failed"
)

// ParseBindPhase reads the value of BindPhaseKey.
func ParseBindPhase(s string) (BindPhase, error) {
	switch p := BindPhase(s); p {
	case BindAllocating, BindSuccess, BindFailed:
		return p, nil
	}
	return "", fmt.Errorf("%s: want %s, %s or %s, found %s", BindPhaseKey, BindAllocating, BindSuccess, BindFailed, quote(s))
}

// FormatTime writes the value of VGPUTimeKey and BindTimeKey, Unix seconds in decimal.
func FormatTime(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// maxTime is the last second of the year 9999, the last that RFC 3339 can name.
// Far beyond it comparisons of times go wrong.
const maxTime = 253402300799

// ParseTime reads the value of VGPUTimeKey and BindTimeKey.
func ParseTime(s string) (time.Time, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxTime || s != strconv.FormatInt(n, 10) {
		return time.Time{}, fmt.Errorf("want Unix seconds in decimal, 0 to %d, found %s", maxTime, quote(s))
	}
	return time.Unix(n, 0), nil
}

// A Cordon is the set of device ids that get no new pods.
type Cordon map[string]struct{}

// ParseCordon reads the value of DeviceCordonKey, a comma-separated list of
// device ids. An administrator types it by hand: spaces around an id, empty
// places and repeated ids are no mistakes, as in HAMi.
func ParseCordon(s string) (Cordon, error) {
	if err := checkSize(s); err != nil {
		return nil, fmt.Errorf("%s: %w", DeviceCordonKey, err)
	}
	cordon := Cordon{}
	for id := range strings.SplitSeq(s, ",") {
		if id = strings.TrimSpace(id); id != "" {
			cordon[id] = struct{}{}
		}
	}
	if len(cordon) > maxDevices {
		return nil, fmt.Errorf("%s: %d devices, want at most %d", DeviceCordonKey, len(cordon), maxDevices)
	}
	return cordon, nil
}

// Has reports whether a device gets no new pods.
func (c Cordon) Has(id string) bool {
	_, ok := c[id]
	return ok
}
