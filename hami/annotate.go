package hami

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// PatchAnnotations adds to annoinput what the pod's containers get. Before, it
// puts each entry of pd at its container's place, because HAMi v2.10 leaves out
// the entries of containers without a GPU and goes by the place when it tells
// init containers from app containers. pd is what HAMi counts usage from next.
func (d *Devices) PatchAnnotations(pod *corev1.Pod, annoinput *map[string]string, pd device.PodDevices) map[string]string {
	entries := asking(pd[CommonWord])
	if len(entries) == 0 {
		return *annoinput
	}
	aligned, ok := d.align(pod, entries)
	if ok {
		pd[CommonWord] = aligned
	} else {
		// Cannot be: HAMi places exactly the containers that ask.
		klog.ErrorS(nil, "Entries do not match the containers that ask for GPUs", "pod", klog.KObj(pod), "entries", len(entries))
		aligned = pd[CommonWord]
	}
	grants := make(annotations.PodGrants, len(aligned))
	for i := range aligned {
		grants[i] = appendGrants(nil, aligned[i])
	}
	value, err := annotations.EncodePod(grants)
	if err != nil {
		// Without the annotations the device plugin refuses the pod.
		klog.ErrorS(err, "Cannot write the pod's GPUs", "pod", klog.KObj(pod))
		return *annoinput
	}
	if *annoinput == nil {
		*annoinput = map[string]string{}
	}
	(*annoinput)[annotations.ToAllocateKey] = value
	(*annoinput)[annotations.AllocatedKey] = value
	return *annoinput
}

// asking are the entries of the containers that got devices, in their order.
func asking(pod device.PodSingleDevice) device.PodSingleDevice {
	var entries device.PodSingleDevice
	for _, container := range pod {
		if len(container) > 0 {
			entries = append(entries, container)
		}
	}
	return entries
}

// align gives each container of the pod, init containers first, its entry: the
// k-th belongs to the k-th container that asks. ok is false when the numbers
// differ.
func (d *Devices) align(pod *corev1.Pod, entries device.PodSingleDevice) (aligned device.PodSingleDevice, ok bool) {
	for _, containers := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			entry := device.ContainerDevices{}
			if d.request(&containers[i]).Nums > 0 {
				if len(entries) == 0 {
					return nil, false
				}
				entry, entries = entries[0], entries[1:]
			}
			aligned = append(aligned, entry)
		}
	}
	return aligned, len(entries) == 0
}
