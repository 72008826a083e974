package exporter

import (
	"fmt"
	"slices"
	"strings"
)

// Verdicts is one reply of the exporter.
type Verdicts struct {
	// byDevice holds the verdicts under the PCI addresses as reported, in
	// lower case.
	byDevice map[string]Health
	// Notes are states of the reply that were of no use, one line each.
	Notes []string
}

// Len is the number of PCI addresses the exporter spoke of.
func (v Verdicts) Len() int { return len(v.byDevice) }

// Of gives the verdict of each of the given PCI functions, which must be all
// of the node's GPUs in the form "0000:05:00.0". GPUs without a verdict are
// left out.
//
// AMD SMI, where the exporter takes its addresses from, writes the partitions
// of one GPU as functions of it (0000:05:00.1 and so on). An address that is
// no GPU of the node therefore counts for function 0 of the same device, and
// the worst verdict wins: one unhealthy partition makes the whole GPU
// unhealthy.
func Of[BDF ~string](v Verdicts, gpus []BDF) map[BDF]Health {
	known := make(map[string]BDF, len(gpus))
	for _, g := range gpus {
		known[strings.ToLower(string(g))] = g
	}
	out := make(map[BDF]Health)
	for device, health := range v.byDevice {
		gpu, ok := known[device]
		if !ok {
			gpu, ok = known[device[:len(device)-1]+"0"]
		}
		if ok {
			out[gpu] = worse(out[gpu], health)
		}
	}
	return out
}

// Reasons is Of reduced to the unhealthy GPUs, with the sentence an operator
// reads: the shape a registration takes.
func Reasons[BDF ~string](v Verdicts, gpus []BDF) map[BDF]string {
	out := make(map[BDF]string)
	for gpu, health := range Of(v, gpus) {
		if health == Unhealthy {
			out[gpu] = "the metrics exporter reports the GPU as unhealthy"
		}
	}
	return out
}

func newVerdicts(states []state) Verdicts {
	v := Verdicts{byDevice: make(map[string]Health, len(states))}
	for i, s := range states {
		device := strings.ToLower(s.device)
		if !isBDF(device) {
			v.Notes = append(v.Notes, fmt.Sprintf("metrics exporter: state %d (UUID %q): device %q is no PCI address such as \"0000:05:00.0\"", i, s.uuid, s.device))
			continue
		}
		health := Health(s.health)
		if health != Healthy && health != Unhealthy {
			v.Notes = append(v.Notes, fmt.Sprintf("metrics exporter: %s: health %q is neither %q nor %q, taken as unknown", device, s.health, Healthy, Unhealthy))
			continue
		}
		v.byDevice[device] = worse(v.byDevice[device], health)
	}
	v.Notes = bounded(v.Notes)
	return v
}

// maxNotes keeps a reply full of nonsense from filling a log.
const maxNotes = 16

func bounded(notes []string) []string {
	slices.Sort(notes)
	notes = slices.Compact(notes)
	if more := len(notes) - maxNotes; more > 0 {
		notes = append(notes[:maxNotes], fmt.Sprintf("metrics exporter: %d more states of no use", more))
	}
	return notes
}

// worse lets one bad report stand against any number of good ones.
func worse(a, b Health) Health {
	switch {
	case a == Unhealthy || b == Unhealthy:
		return Unhealthy
	case a == Healthy || b == Healthy:
		return Healthy
	}
	return Unknown
}

// isBDF reports whether s is "dddd:bb:dd.f" in lower-case hex; domains may be
// longer than four digits.
func isBDF(s string) bool {
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || len(domain) < 4 || len(domain) > 8 || !isHex(domain) {
		return false
	}
	return len(rest) == len("bb:dd.f") &&
		isHex(rest[0:2]) && rest[2] == ':' && isHex(rest[3:5]) &&
		rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
