package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Occupancy is who holds which CUs of a node's devices, by device ID, from the
// annotation hami.io/amd-cu-allocated of the node's pods, each called by its
// [Holder] name. Every registered device has an entry.
//
// A pod's annotation can be written by whoever may edit the pod, so it counts
// only as far as it can be true: no more CUs of a device than the scheduler
// granted, on a pod that asks for GPUs and has not finished. What does not
// count is in problems, one for each pod and device, and takes nothing from
// the other pods.
func Occupancy(d *amd.Devices, node string, devices []annotations.Device, pods []corev1.Pod) (held map[string]*cumask.Occupancy, problems []error) {
	held = make(map[string]*cumask.Occupancy, len(devices))
	registered := make(map[string]*annotations.Device, len(devices))
	for i := range devices {
		held[devices[i].ID] = cumask.NewOccupancy(devices[i].Geometry())
		registered[devices[i].ID] = &devices[i]
	}
	for i := range pods {
		pod := &pods[i]
		value, ok := pod.Annotations[annotations.CUAllocatedKey]
		if !ok || On(pod) != node || finished(pod) {
			continue
		}
		report := func(err error) {
			problems = append(problems, fmt.Errorf("pod %q: %w", Holder(pod), err))
		}
		most, err := granted(d, pod, registered)
		if err != nil {
			report(err)
			continue
		}
		err = annotations.RangeCUs(value, func(device string, cus cumask.Set) error {
			o, known := held[device]
			switch {
			case !known:
				report(fmt.Errorf("annotation %s: device %q is not registered by node %q", annotations.CUAllocatedKey, device, node))
			case cus.Len() > most[device]:
				report(fmt.Errorf("annotation %s: device %q: %d CUs, granted %d", annotations.CUAllocatedKey, device, cus.Len(), most[device]))
			default:
				if err := o.Add(Holder(pod), cus); err != nil {
					report(fmt.Errorf("annotation %s: device %q: %w", annotations.CUAllocatedKey, device, err))
				}
			}
			return nil
		})
		if err != nil {
			report(err)
		}
	}
	return held, problems
}

// granted is the most CUs the pod can hold of each device.
func granted(d *amd.Devices, pod *corev1.Pod, registered map[string]*annotations.Device) (map[string]int, error) {
	grants, err := annotations.DecodePod(pod.Annotations[annotations.AllocatedKey])
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotations.AllocatedKey, err)
	}
	if grants, err = grants.Align(d.Asks(pod)); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", annotations.AllocatedKey, err)
	}
	// The node hands out whole units, and hard devices whole.
	for i := range grants {
		raised := make([]annotations.Grant, len(grants[i]))
		for k, g := range grants[i] {
			if device := registered[g.UUID]; device != nil {
				usage := amd.UsageOf(device)
				switch {
				case usage.Hard():
					g.CUs = device.Devcore
				case g.CUs > 0:
					g.CUs = int32(device.Geometry().RoundUp(int(g.CUs)))
				}
			}
			raised[k] = g
		}
		grants[i] = raised
	}
	most := make(map[string]int)
	for _, h := range amd.Peak(pod, grants) {
		most[h.UUID] = int(h.CUs)
	}
	return most, nil
}

// On is the node a pod runs on or was chosen for, "" if there is none.
func On(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return pod.Annotations[annotations.VGPUNodeKey]
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Holder is the name of a pod in an occupancy: "<namespace>/<name>".
func Holder(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
