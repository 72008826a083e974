package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
	"github.com/Project-HAMi/hami-amd/partition"
)

// problem is something wrong with one pod that stops no other.
type problem struct {
	pod *corev1.Pod // nil where only the ledger knows it
	err error
}

// schedulable are the devices of a snapshot that HAMi schedules. Those of
// other resources are kubelet's, and no grant can name them.
func schedulable(s *snapshot) []partition.Registered {
	other := func(d partition.Registered) bool { return d.Resource != partition.ResourceGPU }
	if !slices.ContainsFunc(s.Devices, other) {
		return s.Devices
	}
	return slices.DeleteFunc(slices.Clone(s.Devices), other)
}

// heldByOthers returns the CUs of each device that pods other than one hold:
// what the ledger knows of the pods that are live, and of pods it does not
// know what their annotations claim, as far as that can be true. Where two
// pods claim one CU, it is held, and both are named in a problem. A device the
// node does not have, or no longer has, is a problem as well and blocks
// nothing.
func heldByOthers(scheduler *amd.Devices, l *ledger, v *view, s *snapshot, self types.UID) (map[string]cumask.Set, []problem) {
	devices := make([]annotations.Device, 0, len(s.Devices))
	for _, d := range schedulable(s) {
		devices = append(devices, d.Device)
	}
	records := l.all()
	pods := make(map[types.UID]*corev1.Pod, len(v.pods))
	var unknown []corev1.Pod
	for i := range v.pods {
		pod := &v.pods[i]
		pods[pod.UID] = pod
		if _, known := records[pod.UID]; !known && pod.UID != self {
			unknown = append(unknown, *pod)
		}
	}
	// Recorded first: if an annotation claims their CUs, it is the one named as
	// claiming them too.
	occupied := make(map[string]*cumask.Occupancy, len(devices))
	for i := range devices {
		occupied[devices[i].ID] = cumask.NewOccupancy(devices[i].Geometry())
	}
	var problems []problem
	for _, uid := range slices.Sorted(maps.Keys(records)) {
		r := records[uid]
		pod := pods[uid]
		if uid == self || !held(r, pod, v.mark) {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(r.cus)) {
			if err := occupy(occupied, id, r.holder(), r.cus[id]); err != nil {
				problems = append(problems, problem{pod, fmt.Errorf("pod %q: %w", r.holder(), err)})
			}
		}
	}
	claims, errs := claimedBy(scheduler, v.node.Name, devices, unknown)
	problems = append(problems, errs...)
	for _, c := range claims {
		if err := occupy(occupied, c.device, podspec.Holder(c.pod), c.cus); err != nil {
			problems = append(problems, problem{c.pod, fmt.Errorf("pod %q: annotation %s: %w", podspec.Holder(c.pod), annotations.CUAllocatedKey, err)})
		}
	}

	used := make(map[string]cumask.Set, len(occupied))
	for id, o := range occupied {
		used[id] = o.Used()
	}
	return used, problems
}

// held tells whether a recorded pod still holds what it was handed: it runs,
// or it was recorded after the pods were listed.
func held(r *record, pod *corev1.Pod, mark uint64) bool {
	if pod == nil {
		return r.mark > mark
	}
	return !finished(pod)
}

func occupy(occupied map[string]*cumask.Occupancy, device, holder string, cus cumask.Set) error {
	o, ok := occupied[device]
	if !ok {
		return fmt.Errorf("device %q is not registered on this node any more", device)
	}
	err := o.Add(holder, cus)
	if overlap := new(cumask.OverlapError); errors.As(err, &overlap) {
		return fmt.Errorf("device %q: %w; both are avoided", device, err)
	}
	if err != nil {
		return fmt.Errorf("device %q: %w", device, err)
	}
	return nil
}

// claim is what the annotation of one pod says it holds of one device.
type claim struct {
	pod    *corev1.Pod
	device string
	cus    cumask.Set
}

// claimedBy reads the annotations of pods, one pod at a time, so that a broken
// one costs only its own claims.
func claimedBy(scheduler *amd.Devices, node string, devices []annotations.Device, pods []corev1.Pod) (claims []claim, problems []problem) {
	for i := range pods {
		if _, ok := pods[i].Annotations[annotations.CUAllocatedKey]; !ok {
			continue
		}
		// Alone, a pod overlaps with nobody: what is refused is broken.
		held, errs := podspec.Occupancy(scheduler, node, devices, pods[i:i+1])
		for _, err := range errs {
			problems = append(problems, problem{&pods[i], err})
		}
		for _, d := range devices {
			if cus := held[d.ID].Used(); !cus.Empty() {
				claims = append(claims, claim{&pods[i], d.ID, cus})
			}
		}
	}
	return claims, problems
}

// adopt turns what the annotations of pods say into records, for pods the
// ledger does not know: those that another plugin served, or this one before
// its file was lost. From then on a later edit of theirs is noticed too. A pod
// none of whose grants has been served was handed nothing, whatever it claims.
func adopt(scheduler *amd.Devices, l *ledger, node string, pods []corev1.Pod, s *snapshot) ([]problem, error) {
	devices := make([]annotations.Device, 0, len(s.Devices))
	for _, d := range schedulable(s) {
		devices = append(devices, d.Device)
	}
	adopted := make(map[types.UID]*record)
	known := l.all()
	var problems []problem
	for i := range pods {
		pod := &pods[i]
		if _, ok := known[pod.UID]; ok || finished(pod) || !partlyServed(pod) {
			continue
		}
		claims, errs := claimedBy(scheduler, node, devices, pods[i:i+1])
		problems = append(problems, errs...)
		if len(errs) > 0 {
			continue
		}
		r := &record{
			namespace: pod.Namespace, name: pod.Name,
			grants: pod.Annotations[annotations.AllocatedKey],
			cus:    make(map[string]cumask.Set, len(claims)),
		}
		for _, c := range claims {
			r.cus[c.device] = c.cus
		}
		if text, ok := pod.Annotations[annotations.CUContainersKey]; ok {
			containers, err := annotations.DecodeContainerCUs(text)
			if err != nil {
				problems = append(problems, problem{pod, fmt.Errorf("pod %q: %w", podspec.Holder(pod), err)})
			} else {
				named := make(map[string]bool)
				for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
					named[container(pod, i).Name] = true
				}
				maps.DeleteFunc(containers, func(name string, _ annotations.ContainerCUs) bool { return !named[name] })
				r.containers = containers
			}
		}
		adopted[pod.UID] = r
	}
	if len(adopted) == 0 {
		return problems, nil
	}
	return problems, l.update(adopted)
}

// partlyServed tells whether a pod claims CUs and at least one of its grants
// is no longer waiting.
func partlyServed(pod *corev1.Pod) bool {
	if _, ok := pod.Annotations[annotations.CUAllocatedKey]; !ok {
		return false
	}
	granted, err := annotations.DecodePod(pod.Annotations[annotations.AllocatedKey])
	if err != nil {
		return true // for the problem to be reported
	}
	waiting, err := annotations.DecodePod(pod.Annotations[annotations.ToAllocateKey])
	if err != nil {
		return true
	}
	for i, g := range granted {
		if len(g) > 0 && (i >= len(waiting) || len(waiting[i]) == 0) {
			return true
		}
	}
	return false
}
