package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// ErrNotScheduled is a pod without grants.
var ErrNotScheduled = fmt.Errorf("pod has no annotation %s: the scheduler has not placed it", annotations.AllocatedKey)

// Pod reads a pod's spec and annotations. The grants are those of
// hami.io/amd-devices-allocated, which never change once the pod is scheduled;
// what was handed out before is read from hami.io/amd-cu-allocated and
// hami.io/amd-cu-containers.
func Pod(devices *amd.Devices, pod *corev1.Pod) (allocate.Pod, error) {
	p := allocate.Pod{UID: string(pod.UID)}
	asks := devices.Asks(pod)
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		role := allocate.Init
		if amd.Sidecar(c) {
			role = allocate.Sidecar
		}
		p.Containers = append(p.Containers, container(c, role, asks[i]))
	}
	for i := range pod.Spec.Containers {
		p.Containers = append(p.Containers, container(&pod.Spec.Containers[i], allocate.App, asks[len(p.Containers)]))
	}

	value, ok := pod.Annotations[annotations.AllocatedKey]
	if !ok {
		return allocate.Pod{}, ErrNotScheduled
	}
	var err error
	if p.Grants, err = annotations.DecodePod(value); err != nil {
		return allocate.Pod{}, fmt.Errorf("annotation %s: %w", annotations.AllocatedKey, err)
	}
	if value, ok := pod.Annotations[annotations.CUAllocatedKey]; ok {
		if p.Recorded.CUs, err = annotations.DecodeCUs(value); err != nil {
			return allocate.Pod{}, fmt.Errorf("annotation: %w", err)
		}
	}
	if value, ok := pod.Annotations[annotations.CUContainersKey]; ok {
		if p.Recorded.Containers, err = annotations.DecodeContainerCUs(value); err != nil {
			return allocate.Pod{}, fmt.Errorf("annotation: %w", err)
		}
	}
	return p, nil
}

func container(c *corev1.Container, role allocate.Role, asks bool) allocate.PodContainer {
	p := allocate.PodContainer{Name: c.Name, Role: role, Asks: asks, EnvFrom: len(c.EnvFrom) > 0}
	for _, e := range c.Env {
		p.Env = append(p.Env, allocate.SpecEnv{Name: e.Name, Value: e.Value, Ref: e.ValueFrom != nil})
	}
	return p
}
