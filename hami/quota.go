package hami

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"
)

// beyondAnyQuota is more MiB than any ResourceQuota allows.
const beyondAnyQuota = 1 << 60

// quota returns the question whether the pod's namespace may hold so many MiB of
// VRAM more for this container, nil where no ResourceQuota limits them. HAMi
// adds up what runs in the namespace; the pod's own containers are added here.
func (d *Devices) quota(pod *corev1.Pod, request device.ContainerDeviceRequest, allocated *device.PodDevices) func(memMiB int64) bool {
	if fitsQuota(pod.Namespace, beyondAnyQuota) {
		return nil
	}
	held := d.heldBefore(pod, request, allocated)
	return func(memMiB int64) bool { return fitsQuota(pod.Namespace, held+memMiB) }
}

func fitsQuota(namespace string, memMiB int64) bool {
	return device.GetLocalCache().FitQuota(namespace, memMiB, 1, 0, CommonWord)
}

// heldBefore is the MiB that the pod's containers placed before this one hold
// while it runs. Ordinary init containers run one after the other, so for one of
// them it is 0.
func (d *Devices) heldBefore(pod *corev1.Pod, request device.ContainerDeviceRequest, allocated *device.PodDevices) int64 {
	if allocated == nil {
		return 0
	}
	placed, held := 0, int64(0)
	for _, container := range (*allocated)[CommonWord] {
		if len(container) > 0 {
			placed++
		}
		for i := range container {
			held += int64(container[i].Usedmem)
		}
	}
	if d.isNext(pod.Spec.InitContainers, placed, request) && !d.isNext(pod.Spec.Containers, placed, request) {
		return 0
	}
	return held
}

// isNext reports whether the request can be that of these containers' first one
// after so many that ask for GPUs were placed. HAMi places init and app
// containers in two rounds and does not say which this is. Where both can be, the
// containers count as running together: then as many app containers make the
// same requests, and the pod has to hold as much in any case.
func (d *Devices) isNext(containers []corev1.Container, placed int, request device.ContainerDeviceRequest) bool {
	for i := range containers {
		r := d.request(&containers[i])
		if r.Nums == 0 {
			continue
		}
		if placed == 0 {
			return r == request
		}
		placed--
	}
	return false
}
