package annotations

import "fmt"

// Next returns the first container that still has grants: the one the next
// Allocate call of the kubelet is for, since the kubelet goes through the
// containers in the same order. ok is false when all are served.
func (p PodGrants) Next() (i int, grants []Grant, ok bool) {
	for i, grants := range p {
		if len(grants) > 0 {
			return i, grants, true
		}
	}
	return 0, nil, false
}

// Serve returns a copy in which entry i is empty, as the plugin writes it back
// once container i has its devices. An index that p has no entry for changes
// nothing. The other entries are shared with p and must not be written to.
func (p PodGrants) Serve(i int) PodGrants {
	served := make(PodGrants, len(p))
	copy(served, p)
	if i >= 0 && i < len(served) {
		served[i] = []Grant{}
	}
	return served
}

// Served reports whether every entry is empty, so that the pod's binding has
// succeeded and the node lock can go.
func (p PodGrants) Served() bool {
	_, _, more := p.Next()
	return !more
}

// Align puts each entry at its container's place: the k-th entry that has
// grants belongs to the k-th container that asks for the resource. asks has one
// element per container, the init containers first. The result has one entry
// per container.
//
// The order of the entries is reliable in every HAMi version, their index is
// not (see PodGrants). It is an error when the numbers of entries and of asking
// containers differ: a pod's AllocatedKey always has them all, its ToAllocateKey
// only until the first container is served.
func (p PodGrants) Align(asks []bool) (PodGrants, error) {
	aligned := make(PodGrants, len(asks))
	next := 0
	for i, ask := range asks {
		aligned[i] = []Grant{}
		if !ask {
			continue
		}
		for next < len(p) && len(p[next]) == 0 {
			next++
		}
		if next < len(p) {
			aligned[i] = p[next]
			next++
			continue
		}
		return nil, p.misaligned(asks)
	}
	for ; next < len(p); next++ {
		if len(p[next]) > 0 {
			return nil, p.misaligned(asks)
		}
	}
	return aligned, nil
}

func (p PodGrants) misaligned(asks []bool) error {
	entries, containers := 0, 0
	for _, grants := range p {
		if len(grants) > 0 {
			entries++
		}
	}
	for _, ask := range asks {
		if ask {
			containers++
		}
	}
	return fmt.Errorf("align pod devices: %d containers ask for GPUs, found grants for %d", containers, entries)
}
