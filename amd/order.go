package amd

import (
	"cmp"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// This file orders the devices of a node and the nodes as HAMi v2.10 does
// (pkg/scheduler/policy), so that the same cluster gives the same choice.

// ordering is the order in which a pod wants a node's devices tried.
type ordering struct {
	keys    []orderKey
	weights annotations.ScoringWeights
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
	o := ordering{weights: weights}
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

// ranked is a device to be ordered.
type ranked struct {
	device int32 // place in the node's usage
	score  float32
	used   int32
	numa   int
	index  uint
}

// sort puts the device to be tried first last. Devices that are equal in every
// key keep their order.
func (o *ordering) sort(devices []ranked) {
	slices.SortStableFunc(devices, func(a, b ranked) int {
		for _, key := range o.keys {
			d := 0
			switch key {
			case fullest:
				d = cmp.Compare(a.score, b.score)
			case emptiest:
				d = cmp.Compare(b.score, a.score)
			case leastShared:
				d = cmp.Compare(b.used, a.used)
			case highestNUMA:
				d = cmp.Compare(a.numa, b.numa)
			case highestIndex:
				d = cmp.Compare(a.index, b.index)
			}
			if d != 0 {
				return d
			}
		}
		return 0
	})
}

// rank scores a device by what is in use of it. HAMi adds the request only to
// devices whose type is just "AMD"; real types name a product.
func (o *ordering) rank(device int32, u *Usage) ranked {
	r := ranked{device: device, used: u.Used, numa: u.NUMA, index: u.Index}
	if u.Count != 0 && u.Geometry.CUs != 0 && u.MemoryMiB != 0 {
		r.score = hamiWeight * (float32(o.weights.Slot)*float32(u.Used)/float32(u.Count) +
			float32(o.weights.Core)*float32(u.UsedCUs)/float32(u.Geometry.CUs) +
			float32(o.weights.Memory)*float32(u.UsedMiB)/float32(u.MemoryMiB))
	}
	return r
}

// nodeScore is HAMi's score of a node before the placement: how full it is, 0
// when it has nothing to fill.
func nodeScore(usage []Usage) float32 {
	var used, cus, mem, shares, allCUs, allMem int64
	for i := range usage {
		u := &usage[i]
		used, cus, mem = used+int64(u.Used), cus+int64(u.UsedCUs), mem+int64(u.UsedMiB)
		shares, allCUs, allMem = shares+int64(u.Count), allCUs+int64(u.Geometry.CUs), allMem+int64(u.MemoryMiB)
	}
	if shares == 0 || allCUs == 0 || allMem == 0 {
		return 0
	}
	return hamiWeight * (float32(used)/float32(shares) + float32(cus)/float32(allCUs) + float32(mem)/float32(allMem))
}
