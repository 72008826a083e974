package plugin

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

// options are what kubelet calls.
func (s *server) options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true, PreStartRequired: s.preStart}
}

// GetDevicePluginOptions implements the device plugin API.
func (s *server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return s.options(), nil
}

// ListAndWatch sends the devices of the resource, and again whenever they or
// their health change. A message always holds all of them. An empty one is sent
// too: it is what makes kubelet forget devices of an earlier registration.
func (s *server) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	cut := s.streamBegins()
	defer s.streamEnds()
	var last []*pluginapi.Device
	for first := true; ; first = false {
		now, changed := s.devices.watch()
		if list := kubeletDevices(now.Devices, s.resource); first || !slices.EqualFunc(last, list, sameDevice) {
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: list}); err != nil {
				return err
			}
			s.log.V(4).Info("Sent the devices to kubelet", "devices", len(list))
			last = list
		}
		select {
		case <-changed:
		case <-cut:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// kubeletDevices are the devices of one resource as kubelet sees them: one for
// each share of a soft device, one for a hard device. A NUMA node that is not
// known is left out: kubelet takes -1 for a node of that number.
func kubeletDevices(devices []partition.Registered, resource string) []*pluginapi.Device {
	var out []*pluginapi.Device
	for i := range devices {
		r := &devices[i]
		if r.Resource != resource {
			continue
		}
		health := pluginapi.Unhealthy
		if r.Health {
			health = pluginapi.Healthy
		}
		var topology *pluginapi.TopologyInfo
		if numa := r.GPU.NUMANode; numa != nil && *numa >= 0 {
			topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(*numa)}}}
		}
		for _, id := range r.KubeletIDs {
			out = append(out, &pluginapi.Device{ID: id, Health: health, Topology: topology})
		}
	}
	return out
}

// sameDevice compares what kubeletDevices fills in.
func sameDevice(a, b *pluginapi.Device) bool {
	return a.ID == b.ID && a.Health == b.Health &&
		slices.EqualFunc(a.Topology.GetNodes(), b.Topology.GetNodes(), func(x, y *pluginapi.NUMANode) bool { return x.ID == y.ID })
}
