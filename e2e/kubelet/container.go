package kubelet

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// Container is what the runtime would be told about one container because of
// its devices. Lists are sorted.
type Container struct {
	// Env is what a process sees: the plugin's variables, then the literal
	// ones of the pod spec over them, as the last value of a name wins.
	Env         map[string]string
	Devices     []Device
	Mounts      []Mount
	CDIDevices  []string
	Annotations map[string]string
}

// Device is a device node with its cgroup permissions.
type Device struct{ Host, Container, Permissions string }

// Mount is a bind mount.
type Mount struct {
	Host, Container string
	ReadOnly        bool
}

func newContainer(options *devicemanager.DeviceRunContainerOptions, spec *corev1.Container) Container {
	c := Container{Env: map[string]string{}, Annotations: map[string]string{}}
	if options != nil { // nil for a container without devices
		for _, e := range options.Envs {
			c.Env[e.Name] = e.Value
		}
		for _, d := range options.Devices {
			c.Devices = append(c.Devices, Device{d.PathOnHost, d.PathInContainer, d.Permissions})
		}
		for _, m := range options.Mounts {
			c.Mounts = append(c.Mounts, Mount{m.HostPath, m.ContainerPath, m.ReadOnly})
		}
		for _, d := range options.CDIDevices {
			c.CDIDevices = append(c.CDIDevices, d.Name)
		}
		for _, a := range options.Annotations {
			c.Annotations[a.Name] = a.Value
		}
	}
	for _, e := range spec.Env {
		if e.ValueFrom == nil {
			c.Env[e.Name] = e.Value
		}
	}
	slices.SortFunc(c.Devices, func(a, b Device) int { return cmp.Compare(a.Container, b.Container) })
	slices.SortFunc(c.Mounts, func(a, b Mount) int { return cmp.Compare(a.Container, b.Container) })
	slices.Sort(c.CDIDevices)
	return c
}
