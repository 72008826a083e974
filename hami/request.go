package hami

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
)

// refused is the request of a container that asks for what no node can grant:
// more GPUs than any node has. It is for the callers that have no error to
// return, of which a request for nothing would let the container run without a
// GPU on its books.
var refused = device.ContainerDeviceRequest{Nums: math.MaxInt32, Type: CommonWord}

// request is what the container asks for, refused when it is invalid.
func (d *Devices) request(ctr *corev1.Container) device.ContainerDeviceRequest {
	r, err := d.amd.Request(ctr)
	if err != nil {
		return refused
	}
	return toHAMi(r)
}

// toHAMi is a request in HAMi's terms.
func toHAMi(r amd.Request) device.ContainerDeviceRequest {
	if r.Count == 0 {
		return device.ContainerDeviceRequest{}
	}
	return device.ContainerDeviceRequest{
		Nums: r.Count, Type: CommonWord,
		Memreq: r.MemoryMiB, MemPercentagereq: r.MemoryPercent, Coresreq: r.Cores,
	}
}

// noPercentage is how some of HAMi's code says that no percentage of memory is
// asked for.
const noPercentage = 101

// fromHAMi is the way back.
func fromHAMi(r device.ContainerDeviceRequest) amd.Request {
	percent := r.MemPercentagereq
	if percent == noPercentage {
		percent = 0
	}
	return amd.Request{Count: r.Nums, MemoryMiB: r.Memreq, MemoryPercent: percent, Cores: r.Coresreq}
}
