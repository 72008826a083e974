//go:build hami_next

package hami

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
)

// This file is the part of device.Devices that changed after HAMi v2.10, as it
// is since HAMi#2994.

// GenerateResourceRequests reads what the container asks for. Nums is 0 when that
// is nothing. An invalid request is a *device.ErrInvalidDeviceRequest.
func (d *Devices) GenerateResourceRequests(ctr *corev1.Container) (device.ContainerDeviceRequest, error) {
	r, err := d.amd.Request(ctr)
	if err == nil {
		return toHAMi(r), nil
	}
	reason := err.Error()
	var invalid *amd.InvalidRequestError
	if errors.As(err, &invalid) {
		reason = invalid.Resource + ": " + invalid.Reason
	}
	return device.ContainerDeviceRequest{}, &device.ErrInvalidDeviceRequest{
		Container: ctr.Name, Device: CommonWord, Reason: reason,
	}
}

// CheckHealth reports whether the node's allocatable resources offer AMD GPUs,
// and that its devices are to be read if so. Kubelet keeps unhealthy GPUs in
// the capacity and takes them off allocatable.
func (d *Devices) CheckHealth(_ string, n *corev1.Node) (healthy, needUpdate bool) {
	healthy = d.amd.Healthy(n.Status.Allocatable)
	return healthy, healthy
}
