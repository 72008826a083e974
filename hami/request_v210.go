//go:build !hami_next

package hami

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/HAMi/pkg/device"
)

// This file is the part of device.Devices that changed after HAMi v2.10, as it
// was there.

// GenerateResourceRequests reads what the container asks for. Nums is 0 when that
// is nothing. An invalid request, which can come here only past the admission
// webhook, becomes one for more GPUs than any node has, so that the pod stays
// pending; HAMi v2.10 takes a request for nothing for a pod without GPUs and lets
// it run.
func (d *Devices) GenerateResourceRequests(ctr *corev1.Container) device.ContainerDeviceRequest {
	r, err := d.amd.Request(ctr)
	if err != nil {
		klog.ErrorS(err, "Refusing a GPU request that no node can grant", "container", ctr.Name)
		return refused
	}
	return toHAMi(r)
}

// CheckHealth reports whether the node's capacity offers AMD GPUs, and that its
// devices are to be read if so.
func (d *Devices) CheckHealth(_ string, n *corev1.Node) (healthy, needUpdate bool) {
	healthy = d.amd.Healthy(n.Status.Capacity)
	return healthy, healthy
}
