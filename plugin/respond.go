package plugin

import (
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/allocate"
)

// responder turns what containers get into what kubelet is told.
type responder struct {
	src snapshotSource
	cdi bool // name devices instead of listing their nodes
	log klog.Logger
}

func newResponder(cfg Config, src snapshotSource, log klog.Logger) *responder {
	return &responder{src: src, cdi: cfg.CDISpecDir != "", log: log}
}

// respond names CDI devices only if a container runtime can resolve them by
// now. Device nodes always work, so they are the answer when it cannot; never
// both, since runtimes need not merge them.
func (r *responder) respond(s *snapshot, containers []allocate.Container) *pluginapi.AllocateResponse {
	cdi := r.cdi
	if cdi {
		if err := r.src.PrepareCDI(s); err != nil {
			r.log.Error(err, "Handing out device nodes instead of CDI devices")
			cdi = false
		}
	}
	response := &pluginapi.AllocateResponse{}
	for _, c := range containers {
		response.ContainerResponses = append(response.ContainerResponses, respondContainer(c, cdi))
	}
	return response
}

func respondContainer(c allocate.Container, cdi bool) *pluginapi.ContainerAllocateResponse {
	r := &pluginapi.ContainerAllocateResponse{Envs: make(map[string]string, len(c.Env))}
	for _, e := range c.Env {
		r.Envs[e.Name] = e.Value
	}
	for _, m := range c.Mounts {
		r.Mounts = append(r.Mounts, &pluginapi.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, ReadOnly: m.ReadOnly})
	}
	if cdi && len(c.CDIDevices) > 0 {
		for _, name := range c.CDIDevices {
			r.CdiDevices = append(r.CdiDevices, &pluginapi.CDIDevice{Name: name})
		}
		return r
	}
	for _, n := range c.DeviceNodes {
		r.Devices = append(r.Devices, &pluginapi.DeviceSpec{ContainerPath: n.Path, HostPath: n.Path, Permissions: n.Permissions})
	}
	return r
}
