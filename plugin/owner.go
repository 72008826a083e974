package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// errServed is a pod that has all its devices, or was granted none: a call
// that comes now is another pod's.
var errServed = errors.New("has no devices left to allocate")

// waiting is what a pod still waits for.
type waiting struct {
	pod *corev1.Pod
	// spec is the pod as allocate plans it, with its grants.
	spec allocate.Pod
	// grants is where spec's come from: hami.io/amd-devices-allocated.
	grants string
	// before is hami.io/amd-devices-to-allocate, decoded in entries.
	before  string
	entries annotations.PodGrants
	// next are the containers still to be served, in the order of the spec,
	// which is the order in which kubelet asks.
	next []waitingContainer
}

type waitingContainer struct {
	entry     int // index into entries
	container int // index into spec.Containers
	grants    []annotations.Grant
}

// readWaiting finds out what a pod still waits for. An error that is not an
// errServed is a pod that cannot be served. before is what the pod was handed
// earlier, nil for nothing; its grants are believed, not the annotation.
func readWaiting(devices *amd.Devices, pod *corev1.Pod, before *record) (*waiting, error) {
	w := &waiting{pod: pod, before: pod.Annotations[annotations.ToAllocateKey]}
	var err error
	if w.entries, err = annotations.DecodePod(w.before); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotations.ToAllocateKey, err)
	}
	if w.entries.Served() {
		return nil, errServed
	}
	if w.spec, w.grants, err = readSpec(devices, pod, before); err != nil {
		return nil, err
	}
	if w.next, err = w.remaining(); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotations.ToAllocateKey, err)
	}
	return w, nil
}

// readSpec reads the parts of a pod that a plan depends on. What the pod says
// it was handed is not read, and what it was granted only if the ledger does
// not know.
func readSpec(devices *amd.Devices, pod *corev1.Pod, before *record) (allocate.Pod, string, error) {
	bare := *pod
	bare.Annotations = make(map[string]string, len(pod.Annotations)+1)
	maps.Copy(bare.Annotations, pod.Annotations)
	delete(bare.Annotations, annotations.CUAllocatedKey)
	delete(bare.Annotations, annotations.CUContainersKey)
	if before != nil {
		bare.Annotations[annotations.AllocatedKey] = before.grants
	}
	spec, err := podspec.Pod(devices, &bare)
	if err != nil {
		return allocate.Pod{}, "", err
	}
	if before != nil {
		spec.Recorded = allocate.Recorded{CUs: before.cus, Containers: before.containers}
	}
	return spec, bare.Annotations[annotations.AllocatedKey], nil
}

// remaining pairs what is left in the annotation with the containers: an entry
// has the index of the grant it is, and the k-th grant that is not empty
// belongs to the k-th container that asks. The index alone says nothing, since
// HAMi v2.10 leaves containers without GPUs out.
func (w *waiting) remaining() ([]waitingContainer, error) {
	var asking []int
	for i, c := range w.spec.Containers {
		if c.Asks {
			asking = append(asking, i)
		}
	}
	var next []waitingContainer
	rank := 0
	for i, granted := range w.spec.Grants {
		if len(granted) == 0 {
			continue
		}
		if rank >= len(asking) {
			return nil, fmt.Errorf("more grants than the %d containers that ask for %s", len(asking), amd.DefaultCountName)
		}
		if i < len(w.entries) && len(w.entries[i]) > 0 {
			if !slices.Equal(w.entries[i], granted) {
				return nil, fmt.Errorf("entry %d: not what %s granted", i, annotations.AllocatedKey)
			}
			next = append(next, waitingContainer{entry: i, container: asking[rank], grants: granted})
		}
		rank++
	}
	if rank != len(asking) {
		return nil, fmt.Errorf("grants of %d containers, %d ask for %s", rank, len(asking), amd.DefaultCountName)
	}
	left := 0
	for _, e := range w.entries {
		if len(e) > 0 {
			left++
		}
	}
	if left != len(next) {
		return nil, fmt.Errorf("%d entries, %d of them granted by %s", left, len(next), annotations.AllocatedKey)
	}
	return next, nil
}

// errCountMismatch is a container for which kubelet asks for another number of
// devices than the scheduler granted.
var errCountMismatch = errors.New("count mismatch")

// take returns the containers that a call with these numbers of devices is
// for.
func (w *waiting) take(sizes []int) ([]waitingContainer, error) {
	if len(sizes) > len(w.next) {
		return nil, fmt.Errorf("%w: kubelet asks for %d containers, %d wait for devices", errCountMismatch, len(sizes), len(w.next))
	}
	for i, size := range sizes {
		if granted := len(w.next[i].grants); granted != size {
			return nil, fmt.Errorf("%w: container %q: kubelet asks for %d devices, the scheduler granted %d",
				errCountMismatch, w.spec.Containers[w.next[i].container].Name, size, granted)
		}
	}
	return w.next[:len(sizes)], nil
}

// after is hami.io/amd-devices-to-allocate once the containers are served, and
// whether that was all.
func (w *waiting) after(served []waitingContainer) (value string, last bool, err error) {
	left := w.entries
	for _, c := range served {
		left = left.Serve(c.entry)
	}
	value, err = annotations.EncodePod(left)
	return value, left.Served(), err
}
