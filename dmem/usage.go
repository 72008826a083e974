package dmem

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Usage is one region of one cgroup, with everything below it. All numbers are
// bytes.
type Usage struct {
	Region  string
	Current uint64  // dmem.current
	Max     *Limit  // dmem.max; nil in the root cgroup, which has none
	Peak    *uint64 // dmem.peak; nil on kernels that do not keep it
}

// Usage reads what a cgroup uses of each region, in order of region. It is the
// kernel's count of VRAM: memory that was moved to system memory is not in it.
//
// Returns an [ErrNoCgroup] if the cgroup has no dmem files: it is gone, or the
// controller is not enabled for it.
func (t *Tree) Usage(cgroup string) ([]Usage, error) {
	current, err := t.values(path.Join(cgroup, currentFile))
	if notThere(err) {
		return nil, fmt.Errorf("dmem usage of %q: %w", t.path(cgroup), ErrNoCgroup)
	}
	if err != nil {
		return nil, fmt.Errorf("dmem usage: %w", err)
	}
	limits, err := t.optional(path.Join(cgroup, maxFileName))
	if err != nil {
		return nil, err
	}
	peak, err := t.optional(path.Join(cgroup, peakFile))
	if err != nil {
		return nil, err
	}
	list := make([]Usage, 0, len(current))
	for region, bytes := range current {
		u := Usage{Region: region, Current: uint64(bytes)}
		if limit, ok := limits[region]; ok {
			u.Max = &limit
		}
		if most, ok := peak[region]; ok {
			u.Peak = (*uint64)(&most)
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b Usage) int { return strings.Compare(a.Region, b.Region) })
	return list, nil
}

// optional reads a file that not every cgroup or kernel has.
func (t *Tree) optional(name string) (map[string]Limit, error) {
	values, err := t.values(name)
	if notThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dmem usage: %w", err)
	}
	return values, nil
}
