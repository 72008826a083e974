package monitor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// holding is what one container was granted of one device.
type holding struct {
	index  int // among the container's devices, which is HIP's number for it
	id     string
	device *device // nil where the node does not know the device
	bytes  uint64
	cus    int
	// effective is the effective CUs of its mask, nil without a mask or where
	// the shape of the device is not known.
	effective *int
}

// container is a container with its holdings, in the order of the grant.
type container struct {
	name string
	// id of the running container without the runtime's prefix, "" if it does
	// not run.
	id       string
	holdings []holding
}

// holdings reads what the containers of a pod hold: the sizes from
// hami.io/amd-devices-allocated, which the scheduler wrote, and the CUs from
// hami.io/amd-cu-containers and hami.io/amd-cu-allocated, which the plugin
// wrote. An init container that does not run holds nothing: its devices are
// the app containers' by then, or not yet its own.
//
// All of these can have been edited. A CU list that the grant does not allow
// is a problem and does not count, and so is an annotation that cannot be
// read; what the others say is still good.
func holdings(pod *corev1.Pod, known *devices) (list []container, problems []error) {
	list, grants, err := podGrants(pod)
	if grants == nil {
		if err != nil {
			problems = append(problems, err)
		}
		return nil, problems
	}
	masks, problems := readMasks(pod, grants)
	held := list[:0]
	for i, c := range list {
		if len(grants[i]) == 0 || i < len(pod.Spec.InitContainers) && c.id == "" && !sidecar(&pod.Spec.InitContainers[i]) {
			continue
		}
		for k, g := range grants[i] {
			h := holding{index: k, id: g.UUID, bytes: uint64(g.MemoryMiB) << 20, cus: int(g.CUs)}
			if dev, ok := known.find(g.UUID); ok {
				h.device = dev
			} else {
				problems = append(problems, fmt.Errorf("container %q: the node has no device %q", c.name, g.UUID))
			}
			if err := masks.apply(&h, c.name); err != nil {
				problems = append(problems, fmt.Errorf("container %q: device %q: %w", c.name, g.UUID, err))
			}
			c.holdings = append(c.holdings, h)
		}
		held = append(held, c)
	}
	return held, problems
}

// podGrants are the containers of a pod with what the scheduler granted each of
// them. The grants are nil for a pod that holds none, or whose annotation cannot
// be read.
func podGrants(pod *corev1.Pod) ([]container, annotations.PodGrants, error) {
	value, ok := pod.Annotations[annotations.AllocatedKey]
	if !ok || finished(pod) {
		return nil, nil, nil
	}
	list, asks := containers(pod)
	if !slices.Contains(asks, true) {
		return nil, nil, nil
	}
	grants, err := annotations.DecodePod(value)
	if err == nil {
		grants, err = grants.Align(asks)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("annotation %s: %w", annotations.AllocatedKey, err)
	}
	return list, grants, nil
}

// containers are the pod's containers in the order of the spec, init
// containers first, and which of them ask for GPUs.
func containers(pod *corev1.Pod) (list []container, asks []bool) {
	running := make(map[string]string)
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.State.Running != nil {
				running[s.Name] = runtimeID(s.ContainerID)
			}
		}
	}
	for _, specs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range specs {
			c := &specs[i]
			list = append(list, container{name: c.Name, id: running[c.Name]})
			asks = append(asks, asksForGPU(c))
		}
	}
	return list, asks
}

// runtimeID takes the runtime off a container's id, "containerd://<id>".
func runtimeID(id string) string {
	if _, after, ok := strings.Cut(id, "://"); ok {
		return after
	}
	return id
}

// asksForGPU reads the resource as the scheduler does: from the limits, else
// from the requests.
func asksForGPU(c *corev1.Container) bool {
	q, ok := c.Resources.Limits[partition.ResourceGPU]
	if !ok {
		q = c.Resources.Requests[partition.ResourceGPU]
	}
	return q.Sign() > 0
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
