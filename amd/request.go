package amd

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A Request is what one container asks of each of its GPUs. The zero value asks
// for nothing.
type Request struct {
	// Count is the number of GPUs, distinct devices of one node. 0 asks for none.
	Count int32
	// MemoryMiB is the VRAM on each GPU. 0 leaves it to MemoryPercent.
	MemoryMiB int32
	// MemoryPercent of each GPU's VRAM, 1 to 100; used when MemoryMiB is 0.
	// 0 as well means all of it.
	MemoryPercent int32
	// Cores is the percentage of each GPU's CUs, 1 to 100. 0 is memory alone:
	// the container holds no CUs and gets no mask.
	Cores int32
}

// Whole reports whether the request is for entire GPUs, shared with nobody: all
// memory, and all CUs or none by name.
func (r Request) Whole() bool {
	return r.MemoryMiB == 0 && r.MemoryPercent%100 == 0 && r.Cores%100 == 0
}

// Request reads what a container asks for, each resource from its limits, else
// from its requests. A container that names no GPU, or 0 of them, asks for
// nothing. What no node can grant is an *InvalidRequestError, never a smaller
// or an empty request.
//
// A container that names memory or cores but no number of GPUs is such an error
// too: Admit would have completed it, and without amd.com/gpu in its limits
// kubelet hands it no device, whatever the scheduler books.
func (d *Devices) Request(ctr *corev1.Container) (Request, error) {
	a, err := d.readAsk(ctr)
	switch {
	case err != nil:
		return Request{}, err
	case a.hasCount && a.count == 0, !a.any():
		return Request{}, nil
	case !a.hasCount:
		return Request{}, &InvalidRequestError{
			Container: ctr.Name, Resource: d.config.ResourceCountName,
			Reason: "want a number of GPUs beside memory or cores, found none (the admission webhook sets it)",
		}
	}
	return d.request(a), nil
}

// ask is what a container's resources say, before any default.
type ask struct {
	count, memory, percent, cores int32
	hasCount, hasMemory, hasCores bool // a percentage of 0 is the same as none
}

// any reports whether the container names any resource that needs a GPU.
func (a ask) any() bool {
	return a.hasCount || a.hasMemory || a.percent > 0 || a.hasCores
}

// request applies the defaults.
func (d *Devices) request(a ask) Request {
	r := Request{Count: a.count, MemoryMiB: a.memory, MemoryPercent: a.percent, Cores: a.cores}
	if !a.hasCount {
		r.Count = d.config.DefaultCount
	}
	if r.MemoryMiB > 0 {
		r.MemoryPercent = 0
	}
	namesMemory := a.hasMemory || a.percent > 0
	switch {
	case a.hasCores && !namesMemory:
		r.MemoryMiB = d.config.DefaultMemory
	case !a.hasCores && (r.MemoryMiB > 0 || r.MemoryPercent > 0):
		r.Cores = d.cores
	case !a.hasCores:
		r.Cores = 100
	}
	return r
}

// readAsk reads and checks a container's resources.
func (d *Devices) readAsk(ctr *corev1.Container) (ask, error) {
	var a ask
	var err error
	if a.count, a.hasCount, err = d.read(ctr, d.config.ResourceCountName, parseGPUCount); err != nil {
		return ask{}, err
	}
	if a.memory, a.hasMemory, err = d.read(ctr, d.config.ResourceMemoryName, parseMemory); err != nil {
		return ask{}, err
	}
	if a.percent, _, err = d.read(ctr, d.config.ResourceMemoryPercentageName, parseMemoryPercentage); err != nil {
		return ask{}, err
	}
	if a.cores, a.hasCores, err = d.read(ctr, d.config.ResourceCoreName, parseCores); err != nil {
		return ask{}, err
	}
	if a.hasCount && a.count == 0 && (a.memory > 0 || a.percent > 0 || a.hasCores) {
		return ask{}, &InvalidRequestError{
			Container: ctr.Name, Resource: d.config.ResourceCountName,
			Reason: "want at least 1 GPU beside memory or cores, found 0",
		}
	}
	if d.config.StrictAdmission && a.memory > 0 && a.percent > 0 {
		return ask{}, &InvalidRequestError{
			Container: ctr.Name, Resource: d.config.ResourceMemoryPercentageName,
			Reason: "want this or " + d.config.ResourceMemoryName + ", found both",
		}
	}
	return a, nil
}

// read looks a resource up in the limits, then in the requests.
func (d *Devices) read(ctr *corev1.Container, name string, parse func(resource.Quantity) (int32, string)) (int32, bool, error) {
	q, ok := ctr.Resources.Limits[corev1.ResourceName(name)]
	if !ok {
		if q, ok = ctr.Resources.Requests[corev1.ResourceName(name)]; !ok {
			return 0, false, nil
		}
	}
	n, reason := parse(q)
	if reason != "" {
		return 0, false, &InvalidRequestError{Container: ctr.Name, Resource: name, Reason: reason}
	}
	return n, true, nil
}

// Asks says for each container of the pod, init containers first, whether
// kubelet will ask the device plugin for GPUs for it: whether it names a number
// of them above 0. The k-th container that does is the one the k-th non-empty
// entry of the pod's grants is for, see annotations.PodGrants.Align.
func (d *Devices) Asks(pod *corev1.Pod) []bool {
	asks := make([]bool, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		asks = append(asks, d.asks(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		asks = append(asks, d.asks(&pod.Spec.Containers[i]))
	}
	return asks
}

func (d *Devices) asks(ctr *corev1.Container) bool {
	name := corev1.ResourceName(d.config.ResourceCountName)
	q, ok := ctr.Resources.Limits[name]
	if !ok {
		q = ctr.Resources.Requests[name]
	}
	return q.Sign() > 0
}
