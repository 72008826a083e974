package amd

import (
	"math"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// This file orders the devices of a node and the nodes as HAMi v2.10 does
// (pkg/scheduler/policy), so that the same cluster gives the same choice.

// ordering is the order in which a pod wants a node's devices tried.
type ordering struct {
	keys                []orderKey
	shares, cus, memory float32 // hami.io/device-scoring-weights
}

type orderKey uint8

const (
	fullest     orderKey = iota // highest score first
	emptiest                    // lowest score first
	leastShared                 // fewest shares in use first
	highestNUMA
	highestIndex
)

// hamiWeight is util.Weight, the factor of HAMi's device and node scores.
const hamiWeight = 10

// parseOrdering reads a policy. One word is a key with the NUMA node to break
// ties; "numa" and lists are chains of keys with the index to break ties.
// Words that only filter (mutex in a list, topology-aware) are no keys.
func parseOrdering(policy string, weights annotations.ScoringWeights) ordering {
	o := ordering{shares: float32(weights.Slot), cus: float32(weights.Core), memory: float32(weights.Memory)}
	if !strings.Contains(policy, ",") && policy != annotations.PolicyNUMA {
		key := emptiest
		switch policy {
		case annotations.PolicyBinpack:
			key = fullest
		case annotations.PolicyMutex:
			key = leastShared
		}
		o.keys = []orderKey{key, highestNUMA}
		return o
	}
	for word := range annotations.Policies(policy) {
		key := highestIndex
		switch word {
		case annotations.PolicyBinpack:
			key = fullest
		case annotations.PolicySpread:
			key = emptiest
		case annotations.PolicyNUMA:
			key = highestNUMA
		default:
			continue
		}
		if !slices.Contains(o.keys, key) {
			o.keys = append(o.keys, key)
		}
	}
	if len(o.keys) == 0 {
		o.keys = append(o.keys, emptiest)
	}
	o.keys = append(o.keys, highestIndex)
	return o
}

// ranked is a device to be ordered: where it is in the node's usage, and its
// keys, one after the other in 32 bits each. More is tried sooner.
type ranked struct {
	device int32
	keys   [maxKeys / 2]uint64
}

// maxKeys is how many keys a chain can have: each of the chained kinds once.
const maxKeys = 4

// fill is how full a device is, and what else orders it. A node keeps those of its
// devices side by side: a pod is compared with every device of every node, and
// most of that time would go into fetching all of each Usage from memory.
type fill struct {
	shares, cus, memory float32 // parts in use
	used                int32   // shares
	numa                int32
	index               uint32
}

func fillOf(u *Usage) fill {
	f := fill{used: u.Used, numa: int32(u.NUMA), index: uint32(u.Index)}
	if u.Used > 0 && u.Count > 0 && u.CUs > 0 && u.MemoryMiB > 0 {
		f.shares = float32(u.Used) / float32(u.Count)
		f.cus = float32(u.UsedCUs) / float32(u.CUs)
		f.memory = float32(u.UsedMiB) / float32(u.MemoryMiB)
	}
	return f
}

// fillsOf appends the fill of each device to fills.
func fillsOf(fills []fill, usage []Usage) []fill {
	for i := range usage {
		fills = append(fills, fillOf(&usage[i]))
	}
	return fills
}

// rank works out the keys of a device.
func (o *ordering) rank(device int, f *fill) ranked {
	r := ranked{device: int32(device)}
	for i, key := range o.keys {
		var k uint32
		switch key {
		case fullest:
			k = math.Float32bits(o.score(f)) // monotonic: scores are never negative
		case emptiest:
			k = ^math.Float32bits(o.score(f))
		case leastShared:
			k = ^uint32(f.used)
		case highestNUMA:
			k = uint32(f.numa) ^ 1<<31 // -1 before 0
		case highestIndex:
			k = f.index
		}
		r.keys[i/2] |= uint64(k) << (32 * (1 - i%2))
	}
	return r
}

// score is HAMi's score of a device. HAMi adds the request only to devices whose
// type is just "AMD"; real types name a product.
func (o *ordering) score(f *fill) float32 {
	return hamiWeight * (o.shares*f.shares + o.cus*f.cus + o.memory*f.memory)
}

// sort puts the device to be tried first last. Devices that are equal in every
// key keep their order.
func sortRanked(devices []ranked) {
	if len(devices) > 32 {
		slices.SortStableFunc(devices, func(a, b ranked) int { return slices.Compare(a.keys[:], b.keys[:]) })
		return
	}
	for i := 1; i < len(devices); i++ {
		for j := i; j > 0 && devices[j].before(&devices[j-1]); j-- {
			devices[j], devices[j-1] = devices[j-1], devices[j]
		}
	}
}

func (r *ranked) before(o *ranked) bool {
	if r.keys[0] != o.keys[0] {
		return r.keys[0] < o.keys[0]
	}
	return r.keys[1] < o.keys[1]
}

// nodeScore is HAMi's score of a node before the placement: how full it is, 0
// when it has nothing to fill.
func nodeScore(usage []Usage) float32 {
	var used, cus, mem, shares, allCUs, allMem int64
	for i := range usage {
		u := &usage[i]
		used, cus, mem = used+int64(u.Used), cus+int64(u.UsedCUs), mem+int64(u.UsedMiB)
		shares, allCUs, allMem = shares+int64(u.Count), allCUs+int64(u.CUs), allMem+int64(u.MemoryMiB)
	}
	if shares == 0 || allCUs == 0 || allMem == 0 {
		return 0
	}
	return hamiWeight * (float32(used)/float32(shares) + float32(cus)/float32(allCUs) + float32(mem)/float32(allMem))
}
