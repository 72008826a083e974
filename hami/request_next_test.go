//go:build hami_next

package hami_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// generate reads a container's request.
func generate(d device.Devices, c *corev1.Container) (device.ContainerDeviceRequest, error) {
	return d.GenerateResourceRequests(c)
}

func TestInvalidRequestIsHAMisError(t *testing.T) {
	c := hamitest.Container("train", "1", "", "101")
	r, err := newBackend(t, hami.Config{}).GenerateResourceRequests(&c)
	var invalid *device.ErrInvalidDeviceRequest
	if !errors.As(err, &invalid) || r.Nums != 0 {
		t.Fatalf("%+v, %v, want an error of HAMi's", r, err)
	}
	const reason = `amd.com/gpucores: want an integer 1–100 (percent of each GPU's compute units), found "101"`
	if invalid.Container != "train" || invalid.Device != hami.CommonWord || invalid.Reason != reason {
		t.Errorf("%+v", invalid)
	}
}

func TestCheckHealthByAllocatable(t *testing.T) {
	d := newBackend(t, hami.Config{})
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	node.Status.Capacity = nil
	if healthy, update := d.CheckHealth(hami.CommonWord, node); !healthy || !update {
		t.Errorf("%v, %v for a node with GPUs to allocate, want true, true", healthy, update)
	}
	node.Status.Allocatable, node.Status.Capacity = nil, hamitest.Node(t, "node", hamitest.MI300X("GPU-")).Status.Capacity
	if healthy, update := d.CheckHealth(hami.CommonWord, node); healthy || update {
		t.Errorf("%v, %v for a node whose GPUs are all unhealthy, want false, false", healthy, update)
	}
}
