package partition

import (
	"fmt"
	"slices"
	"strings"
)

// NamingStrategy decides which extended resource a partition belongs to.
type NamingStrategy string

const (
	// NamingSingle makes every GPU and every partition an amd.com/gpu. It is
	// the default, and what "" means.
	NamingSingle NamingStrategy = "single"
	// NamingMixed names partitions after their mode, such as amd.com/cpx_nps4.
	NamingMixed NamingStrategy = "mixed"
)

// ResourceGPU is the extended resource of whole GPUs, and with the single
// strategy of partitions too. HAMi schedules this one only.
const ResourceGPU = "amd.com/gpu"

// ParseNamingStrategy reads "single" or "mixed" and nothing else; "" is single.
func ParseNamingStrategy(s string) (NamingStrategy, error) {
	switch n := NamingStrategy(s); n {
	case "":
		return NamingSingle, nil
	case NamingSingle, NamingMixed:
		return n, nil
	}
	return "", fmt.Errorf("resource naming strategy %s: want %q or %q", quoted(s), NamingSingle, NamingMixed)
}

// Resources are the extended resources of a list of devices, each once, in
// alphabetical order.
func Resources(devices []Registered) []string {
	var out []string
	for i := range devices {
		out = append(out, devices[i].Resource)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resource is the extended resource of a device. Soft devices and GPUs in SPX
// are whole GPUs under both strategies.
func resource(naming NamingStrategy, hard bool, compute ComputeMode, memory MemoryMode) string {
	profile := profileName(compute, memory)
	if naming != NamingMixed || !hard || compute == SPX || profile == "" {
		return ResourceGPU
	}
	return "amd.com/" + profile
}

// profileName is AMD's name of a partition profile, "cpx_nps4". Where the
// memory mode is not known it is the compute mode alone, and without a compute
// mode it is "": half a name could be taken for another profile.
func profileName(compute ComputeMode, memory MemoryMode) string {
	switch {
	case !compute.known():
		return ""
	case !memory.known():
		return string(compute)
	}
	return string(compute) + "_" + string(memory)
}

// mixedModes is the note for a node whose partitions differ while the single
// strategy hides it: a pod then cannot say which kind it gets.
func mixedModes(devices []Registered, naming NamingStrategy) string {
	if naming == NamingMixed {
		return ""
	}
	var modes []string
	for i := range devices {
		if devices[i].Hard {
			modes = append(modes, profileName(ComputeMode(devices[i].Mode), devices[i].GPU.Memory))
		}
	}
	slices.Sort(modes)
	modes = slices.Compact(modes)
	if len(modes) < 2 {
		return ""
	}
	return fmt.Sprintf("partitions of different modes (%s) are all %s: the mixed naming strategy tells them apart", strings.Join(modes, ", "), ResourceGPU)
}
