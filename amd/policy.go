package amd

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// GPUIndexKey lists the only registered indexes (annotations.Device.Index) a
// pod's GPUs may have, "0,2".
const GPUIndexKey = "amd.com/gpu-index"

// maxListItems bounds the lists a pod's annotations may hold: every device of
// every node is compared with them.
const maxListItems = 1024

// Policy is what a pod's annotations say about the choice of devices. It is
// parsed once per pod and never changes; the zero value has no wishes.
type Policy struct {
	// Mutex takes only devices nobody uses.
	Mutex bool
	// TopologyAware takes the best connected set of devices: fewest pairs
	// without an XGMI link, then fewest across NUMA nodes, then fewest on
	// different GPUs. One device alone is taken where it breaks fewest links.
	TopologyAware bool
	// NUMA takes the set with the fewest pairs across NUMA nodes, then the best
	// connected one. Beside TopologyAware that one's order of things holds.
	NUMA bool
	// NUMABind takes a set on one NUMA node or none. Devices whose NUMA node is
	// unknown count as one node: on machines with one, Linux names none.
	NUMABind bool
	// Quota reports whether the pod's namespace may hold memMiB of VRAM for this
	// container, all its devices together. nil is no quota. It is for the caller
	// to count in what the namespace and the pod's other containers hold.
	Quota func(memMiB int64) bool

	useType, noUseType []string
	useUUID, noUseUUID []string
	// index filters on the registered index where indexed is set.
	index   []uint
	indexed bool
	filters bool // any of these is set
}

// ParsePolicy reads a pod's annotations; gpuPolicy is the scheduler's
// --gpu-scheduler-policy, used when the pod names none. It follows HAMi: words
// nobody knows are no wish (see [CheckPolicy]), a missing or blank list is no constraint, "," is one
// that nothing satisfies.
func ParsePolicy(pod map[string]string, gpuPolicy string) Policy {
	var p Policy
	if word, ok := pod[annotations.GPUSchedulerPolicyKey]; ok {
		gpuPolicy = word
	}
	p.parseWords(gpuPolicy)
	if len(pod) == 0 {
		return p
	}
	p.useType = parseList(pod[annotations.UseTypeKey])
	p.useUUID = parseList(pod[annotations.UseUUIDKey])
	p.noUseType = parseList(pod[annotations.NoUseTypeKey])
	p.noUseUUID = parseList(pod[annotations.NoUseUUIDKey])
	// Nobody knows what a list too long to be compared would have kept out.
	if len(p.noUseType) > maxListItems {
		p.useType = []string{}
	}
	if len(p.noUseUUID) > maxListItems {
		p.useUUID = []string{}
	}
	for _, types := range [][]string{p.useType, p.noUseType} {
		for i := range types {
			types[i] = strings.ToUpper(types[i])
		}
	}
	if value := pod[GPUIndexKey]; strings.TrimSpace(value) != "" {
		p.index, _ = parseIndexes(value)
		p.indexed = true
	}
	p.filters = p.indexed || p.useType != nil || p.noUseType != nil || p.useUUID != nil || p.noUseUUID != nil
	if value, ok := pod[annotations.NUMABindKey]; ok {
		p.NUMABind, _ = strconv.ParseBool(value)
	}
	return p
}

// CheckPolicy reports the first word of a scheduler policy that nobody knows. key
// says which policy it is: annotations.GPUSchedulerPolicyKey, a comma-separated
// list, or annotations.NodeSchedulerPolicyKey. HAMi ignores such a word.
func CheckPolicy(key, value string) error {
	words := [...]string{
		annotations.PolicyBinpack, annotations.PolicySpread, // of the nodes too
		annotations.PolicyMutex, annotations.PolicyTopology, annotations.PolicyNUMA,
	}
	known := words[:]
	if key != annotations.GPUSchedulerPolicyKey {
		known = words[:2]
	}
	for word := range annotations.Policies(value) {
		if !slices.Contains(known, word) {
			return fmt.Errorf("want %s, found %.64q", strings.Join(known, " or "), word)
		}
	}
	return nil
}

// ignoredWishes are the annotations of a pod that HAMi takes for no wish because
// it does not know what they say.
func ignoredWishes(pod map[string]string) (ignored []error) {
	if value, ok := pod[annotations.NUMABindKey]; ok {
		if _, err := strconv.ParseBool(value); err != nil {
			ignored = append(ignored, fmt.Errorf("pod annotation %s: want true or false, found %.64q", annotations.NUMABindKey, value))
		}
	}
	for _, key := range [...]string{annotations.GPUSchedulerPolicyKey, annotations.NodeSchedulerPolicyKey} {
		if value, ok := pod[key]; ok {
			if err := CheckPolicy(key, value); err != nil {
				ignored = append(ignored, fmt.Errorf("pod annotation %s: %w", key, err))
			}
		}
	}
	return ignored
}

// Connected reports whether Fit compares the devices' links for this request and
// so needs Usage.NUMA, Usage.PCIBDF and Usage.XGMIPeers.
func (p *Policy) Connected(req Request) bool {
	return p.TopologyAware || (p.NUMA || p.NUMABind) && req.Count > 1
}

func (p *Policy) parseWords(value string) {
	for word := range annotations.Policies(value) {
		switch word {
		case annotations.PolicyMutex:
			p.Mutex = true
		case annotations.PolicyTopology:
			p.TopologyAware = true
		case annotations.PolicyNUMA:
			p.NUMA = true
		}
	}
}

// parseList splits a comma list and sorts it. A blank value is nil, no
// constraint. Any other value gives a list that is not nil, though it may be
// empty. No more than one item beyond maxListItems is read.
func parseList(value string) []string {
	if strings.TrimSpace(value) == "" {
		return nil
	}
	items := []string{}
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
		if len(items) > maxListItems {
			break
		}
	}
	slices.Sort(items)
	return items
}

// parseIndexes reads a comma list of registered indexes. fault is the first
// item that is none, "" when all are; such items match nothing.
func parseIndexes(value string) (indexes []uint, fault string) {
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		n, err := strconv.ParseUint(item, 10, 31)
		if err != nil {
			if fault == "" {
				fault = item
			}
			continue
		}
		if len(indexes) < maxListItems {
			indexes = append(indexes, uint(n))
		}
	}
	return indexes, fault
}

// allowsType applies the type lists: case-insensitive substrings.
func (p *Policy) allowsType(typ string) bool {
	if p.useType == nil && p.noUseType == nil {
		return true
	}
	typ = strings.ToUpper(typ)
	within := func(item string) bool { return strings.Contains(typ, item) }
	if p.useType != nil && !slices.ContainsFunc(p.useType, within) {
		return false
	}
	return !slices.ContainsFunc(p.noUseType, within)
}

// allowsUUID applies the id lists: exact, with case.
func (p *Policy) allowsUUID(id string) bool {
	if p.useUUID != nil {
		if _, ok := slices.BinarySearch(p.useUUID, id); !ok {
			return false
		}
	}
	if p.noUseUUID != nil {
		if _, ok := slices.BinarySearch(p.noUseUUID, id); ok {
			return false
		}
	}
	return true
}

func (p *Policy) allowsIndex(index uint) bool {
	return !p.indexed || index <= math.MaxInt32 && slices.Contains(p.index, index)
}
