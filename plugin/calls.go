package plugin

import (
	"context"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Allocate implements the device plugin API. Kubelet shows the error to the
// pod's owner.
func (s *server) Allocate(ctx context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	containers := make([][]string, len(req.ContainerRequests))
	for i, c := range req.ContainerRequests {
		containers[i] = c.GetDevicesIds()
	}
	resp, err := s.alloc.Allocate(ctx, s.resource, containers)
	if err != nil {
		s.log.Error(err, "Allocate failed", "devices", containers)
		return nil, err
	}
	return resp, nil
}

// PreStartContainer implements the device plugin API. Kubelet tries again after
// an error, as long as the pod lives.
func (s *server) PreStartContainer(_ context.Context, req *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	if err := s.alloc.Starts(s.resource, req.GetDevicesIds()); err != nil {
		s.log.Error(err, "A container cannot start", "devices", req.GetDevicesIds())
		return nil, err
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}

// GetPreferredAllocation implements the device plugin API. It never fails: an
// error would fail the pod, while kubelet fills up an answer that is short.
func (s *server) GetPreferredAllocation(ctx context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	sizes := make([]int, len(req.ContainerRequests))
	for i, c := range req.ContainerRequests {
		sizes[i] = int(c.GetAllocationSize())
	}
	known := s.alloc.Pending(ctx, s.resource, sizes)
	node := s.devices.Snapshot()
	resp := &pluginapi.PreferredAllocationResponse{}
	taken := make(map[string]bool)
	for i, c := range req.ContainerRequests {
		ask := preference{
			resource: s.resource, policy: s.policy, size: sizes[i],
			available: c.GetAvailableDeviceIDs(), must: c.GetMustIncludeDeviceIDs(), taken: taken,
		}
		ask.learn(known, i)
		ids := prefer(node, ask)
		for _, id := range ids {
			taken[id] = true
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	s.log.V(4).Info("Preferred devices", "granted", known.granted, "sizes", sizes, "answer", resp.ContainerResponses)
	return resp, nil
}
