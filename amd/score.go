package amd

import (
	"slices"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// How much a placement strands is counted in GPUs. A GPU is as useful as the
// scarcer of its free memory and its free CUs; what is left over of the other is
// stranded, up to one GPU.
const (
	// brokenGroup counts for each XGMI group that has idle GPUs and used ones:
	// jobs over the whole group can no longer start there.
	brokenGroup = 0.5
	// brokenRow counts for each GPU some of whose partitions are taken: it can no
	// longer be given out, or switched to another mode, as one.
	brokenRow = 0.25
	// scoreRange is more than can become stranded, or stop being so, for each
	// device granted: 1.75.
	scoreRange = 2.0
	// scoreSteps is how finely scores tell nodes apart. HAMi multiplies a score
	// like this one by 10,000, so that placements which strand about the same
	// have to score exactly the same for its node policy to decide.
	scoreSteps = 16
)

// Score says how little a placement strands on a node: from 0 to 1, more is
// better, 0.5 is a placement that strands no more than was stranded before. n
// devices make up the node and at fills in their usage before the placement;
// grants are the pod's, those of containers that run at the same time, in any
// order. Grants on devices that are not there are left out.
//
// Three things are stranded: memory without CUs to go with it and CUs without
// memory, XGMI groups broken into used and idle GPUs, and GPUs of which only
// some partitions are taken. The score never depends on the node policy, is the
// same for the same input, and comes in steps of 1/16, so that nearly equal
// nodes are left to the policy. It is 0 where there is nothing to judge, and
// always with Config.DisableScore.
func (d *Devices) Score(grants []annotations.Grant, n int, at func(i int, u *Usage)) float32 {
	if d.config.DisableScore || len(grants) == 0 || n <= 0 {
		return 0
	}
	f := d.scratch.Get().(*fitter)
	defer d.scratch.Put(f)
	s := &f.score
	s.copies = slices.Grow(s.copies[:0], n)[:n]
	clear(s.copies)
	for i := range s.copies {
		at(i, &s.copies[i])
	}
	// The groups of a few devices are found faster by looking than by numbering.
	var numbered []groups
	if n > maxSites {
		numbered = groupsOf(s.copies)
	}
	s.fresh = fillsOf(s.fresh[:0], s.copies)
	s.begin(s.copies, s.fresh, numbered)
	for i := range grants {
		for device := range s.copies {
			if s.copies[device].ID == grants[i].UUID {
				s.grant(device, 1, &grants[i])
				break
			}
		}
	}
	return s.result()
}

// groups tells the groups of a node's devices apart. -1 is none.
type groups struct{ xgmi, gpu int32 }

// scorer is the working memory of one Score.
type scorer struct {
	copies  []Usage
	fresh   []fill
	before  []Usage
	fills   []fill   // of before
	groups  []groups // of the devices, where they are known already
	granted []granted
	seen    []int // first devices of the groups judged
}

// granted is what a placement adds to one device.
type granted struct {
	device int
	shares int32
	mem    int32
	cus    int32
}

// begin starts on a node whose usage is before.
func (s *scorer) begin(before []Usage, fills []fill, groups []groups) {
	s.before, s.fills, s.groups, s.granted = before, fills, groups, s.granted[:0]
}

// grant adds shares of a device, which hold g together.
func (s *scorer) grant(device int, shares int32, g *annotations.Grant) {
	for i := range s.granted {
		if o := &s.granted[i]; o.device == device {
			o.shares, o.mem, o.cus = saturate(o.shares, shares), saturate(o.mem, g.MemoryMiB), saturate(o.cus, g.CUs)
			return
		}
	}
	s.granted = append(s.granted, granted{device: device, shares: shares, mem: g.MemoryMiB, cus: g.CUs})
}

// result is the score of the grants so far.
func (s *scorer) result() float32 {
	if len(s.granted) == 0 {
		return 0
	}
	var delta float64
	for i := range s.granted {
		g := &s.granted[i]
		u := &s.before[g.device]
		delta += stranded(u, saturate(u.Used, g.shares), saturate(u.UsedMiB, g.mem), saturate(u.UsedCUs, g.cus)) -
			stranded(u, u.Used, u.UsedMiB, u.UsedCUs)
	}
	delta += brokenGroup * float64(s.broken(func(g groups) int32 { return g.xgmi }, xgmiGroup))
	delta += brokenRow * float64(s.broken(func(g groups) int32 { return g.gpu }, partitionsOf))
	delta /= float64(len(s.granted))
	score := (scoreRange - delta) / (2 * scoreRange)
	return float32(int(score*scoreSteps+0.5)) / scoreSteps
}

// stranded is the part of a device that can no longer be used, in GPUs, when
// this much of it is in use.
func stranded(u *Usage, used, mem, cus int32) float64 {
	if u.MemoryMiB <= 0 || u.CUs <= 0 || u.Hard() {
		return 0
	}
	freeMem, freeCUs := free(mem, u.MemoryMiB), free(cus, u.CUs)
	if used >= u.Count {
		return max(freeMem, freeCUs) // no share is left to use it
	}
	return max(freeMem, freeCUs) - min(freeMem, freeCUs)
}

// free is the free part of total, between 0 and 1.
func free(used, total int32) float64 {
	return min(max(1-float64(used)/float64(total), 0), 1)
}

// broken is how many more groups are partly used after the placement than were
// before it. A group is known by its number, or where groups have no numbers yet
// by in, which says whether a device is in the group of another one.
func (s *scorer) broken(number func(groups) int32, in func(u, of *Usage) bool) int {
	s.seen = s.seen[:0]
	more := 0
	for i := range s.granted {
		device := s.granted[i].device
		if s.groups != nil && number(s.groups[device]) < 0 {
			continue
		}
		first, size, idle, left := -1, 0, 0, 0
		for j := range s.fills {
			if s.groups != nil && number(s.groups[j]) != number(s.groups[device]) ||
				s.groups == nil && !in(&s.before[j], &s.before[device]) {
				continue
			}
			if first < 0 {
				first = j
			}
			size++
			if s.fills[j].used <= 0 {
				idle++
				left += 1 - s.uses(j)
			}
		}
		if size < 2 || slices.Contains(s.seen, first) {
			continue
		}
		s.seen = append(s.seen, first)
		if 0 < left && left < size {
			more++
		}
		if 0 < idle && idle < size {
			more--
		}
	}
	return more
}

// uses is 1 when the placement uses the device.
func (s *scorer) uses(device int) int {
	for i := range s.granted {
		if s.granted[i].device == device {
			return 1
		}
	}
	return 0
}

// xgmiGroup: the GPUs of a hive are all linked to one another.
func xgmiGroup(u, of *Usage) bool {
	return of.PCIBDF != "" && len(of.XGMIPeers) > 0 &&
		(u.PCIBDF == of.PCIBDF || slices.Contains(of.XGMIPeers, u.PCIBDF))
}

func partitionsOf(u, of *Usage) bool { return of.PCIBDF != "" && u.PCIBDF == of.PCIBDF }

// groupsOf numbers the groups of a node's devices by their first members.
func groupsOf(usage []Usage) []groups {
	first := make(map[string]int32, len(usage))
	for i := range usage {
		if _, ok := first[usage[i].PCIBDF]; !ok {
			first[usage[i].PCIBDF] = int32(i)
		}
	}
	numbers := make([]groups, len(usage))
	for i := range usage {
		u := &usage[i]
		numbers[i] = groups{xgmi: -1, gpu: -1}
		if u.PCIBDF == "" {
			continue
		}
		numbers[i].gpu = first[u.PCIBDF]
		if len(u.XGMIPeers) > 0 {
			numbers[i].xgmi = first[u.PCIBDF]
		}
		for _, peer := range u.XGMIPeers {
			if at, ok := first[peer]; ok {
				numbers[i].xgmi = min(numbers[i].xgmi, at)
			}
		}
	}
	return numbers
}
