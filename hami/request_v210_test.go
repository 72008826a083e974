//go:build !hami_next

package hami_test

import (
	"errors"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

var errNoNode = errors.New("more GPUs than any node has")

// generate reads a container's request. HAMi v2.10 has no error for an invalid
// one: it asks for more GPUs than any node has.
func generate(d device.Devices, c *corev1.Container) (device.ContainerDeviceRequest, error) {
	r := d.GenerateResourceRequests(c)
	if r.Nums == math.MaxInt32 {
		return device.ContainerDeviceRequest{}, errNoNode
	}
	return r, nil
}

func TestCheckHealthByCapacity(t *testing.T) {
	d := newBackend(t, hami.Config{})
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	node.Status.Allocatable = nil
	if healthy, update := d.CheckHealth(hami.CommonWord, node); !healthy || !update {
		t.Errorf("%v, %v for a node with capacity, want true, true", healthy, update)
	}
	node.Status.Capacity, node.Status.Allocatable = nil, hamitest.Node(t, "node", hamitest.MI300X("GPU-")).Status.Allocatable
	if healthy, update := d.CheckHealth(hami.CommonWord, node); healthy || update {
		t.Errorf("%v, %v for a node without capacity, want false, false", healthy, update)
	}
}
