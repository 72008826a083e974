package amd

import (
	"slices"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// How much a placement strands is counted in GPUs.
const (
	// A GPU is as useful as the scarcer of its free memory and its free CUs:
	// what is left over of the other counts as stranded, up to one GPU.
	//
	// Half a GPU counts for each XGMI group that has idle GPUs and used ones:
	// jobs over the whole group can no longer start there.
	brokenGroup = 0.5
	// A quarter counts for each GPU some of whose partitions are taken: it can
	// no longer be given out, or switched to another mode, as one.
	brokenRow = 0.25
	// scoreSteps is how finely scores tell nodes apart. HAMi multiplies a score
	// like this one by 10,000, so that placements which strand about the same
	// have to score exactly the same for its node policy to decide.
	scoreSteps = 16
	// Per device granted, between -1.75 and 1.75 GPUs become stranded.
	scoreRange = 2.0
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
	score := f.score.run(grants, n, at)
	clear(f.score.before)
	d.scratch.Put(f)
	return score
}

// scorer is the working memory of one Score.
type scorer struct {
	before  []Usage
	idle    []bool // before the placement
	left    []bool // idle after it as well
	granted []granted
	seen    []int // first devices of the groups judged
}

// granted is what a placement adds to one device.
type granted struct {
	device, shares int
	mem, cus       int64
}

func (s *scorer) run(grants []annotations.Grant, n int, at func(i int, u *Usage)) float32 {
	s.before = slices.Grow(s.before[:0], n)[:n]
	clear(s.before)
	s.idle = s.idle[:0]
	for i := range s.before {
		at(i, &s.before[i])
		s.idle = append(s.idle, s.before[i].Used <= 0)
	}
	s.collect(grants)
	if len(s.granted) == 0 {
		return 0
	}
	s.left = append(s.left[:0], s.idle...)
	for i := range s.granted {
		s.left[s.granted[i].device] = false
	}
	var delta float64
	for i := range s.granted {
		g := &s.granted[i]
		u := &s.before[g.device]
		after := *u
		after.Used = saturate(after.Used, int32(g.shares))
		after.UsedMiB = int32(min(int64(after.UsedMiB)+g.mem, int64(after.MemoryMiB)))
		after.UsedCUs = int32(min(int64(after.UsedCUs)+g.cus, int64(after.Geometry.CUs)))
		delta += stranded(&after) - stranded(u)
	}
	delta += brokenGroup*float64(s.broken(xgmiGroup)) + brokenRow*float64(s.broken(partitionsOf))
	delta /= float64(len(s.granted))
	score := (scoreRange - delta) / (2 * scoreRange)
	return float32(int(score*scoreSteps+0.5)) / scoreSteps
}

// collect adds up the grants on each device.
func (s *scorer) collect(grants []annotations.Grant) {
	s.granted = s.granted[:0]
	for i := range grants {
		g := &grants[i]
		device := slices.IndexFunc(s.before, func(u Usage) bool { return u.ID == g.UUID })
		if device < 0 {
			continue
		}
		at := slices.IndexFunc(s.granted, func(h granted) bool { return h.device == device })
		if at < 0 {
			at = len(s.granted)
			s.granted = append(s.granted, granted{device: device})
		}
		s.granted[at].shares++
		s.granted[at].mem += int64(g.MemoryMiB)
		s.granted[at].cus += int64(g.CUs)
	}
}

// stranded is the part of a device that can no longer be used, in GPUs.
func stranded(u *Usage) float64 {
	if u.MemoryMiB <= 0 || u.Geometry.CUs <= 0 || u.Hard() {
		return 0
	}
	mem := free(u.UsedMiB, float64(u.MemoryMiB))
	cus := free(u.UsedCUs, float64(u.Geometry.CUs))
	if u.Used >= u.Count {
		return max(mem, cus) // no share is left to use it
	}
	return max(mem, cus) - min(mem, cus)
}

func free(used int32, total float64) float64 {
	return min(max(1-float64(used)/total, 0), 1)
}

// broken is how many more groups are partly used after the placement than were
// before it. in says whether a device is in the group of another one.
func (s *scorer) broken(in func(u, of *Usage) bool) int {
	s.seen = s.seen[:0]
	more := 0
	for i := range s.granted {
		of := &s.before[s.granted[i].device]
		first, size, idle, left := -1, 0, 0, 0
		for j := range s.before {
			if !in(&s.before[j], of) {
				continue
			}
			if first < 0 {
				first = j
			}
			size++
			idle += count(s.idle[j])
			left += count(s.left[j])
		}
		if size < 2 || slices.Contains(s.seen, first) {
			continue
		}
		s.seen = append(s.seen, first)
		more += count(0 < left && left < size) - count(0 < idle && idle < size)
	}
	return more
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// xgmiGroup: the GPUs of a hive are all linked to one another.
func xgmiGroup(u, of *Usage) bool {
	return len(of.XGMIPeers) > 0 && (u.PCIBDF == of.PCIBDF || slices.Contains(of.XGMIPeers, u.PCIBDF))
}

func partitionsOf(u, of *Usage) bool { return of.PCIBDF != "" && u.PCIBDF == of.PCIBDF }
