package hami

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/amd"
)

// MutateAdmission completes one container of a pod that is being created, and the
// pod itself, see amd.Devices.AdmitContainer, and reports whether the container
// asks for AMD GPUs. An error refuses the pod, whose author reads it; the pod is
// then left as it was.
//
// HAMi calls it for each container. What is done to the pod is done in the first
// call, the others find nothing left to do.
func (d *Devices) MutateAdmission(ctr *corev1.Container, pod *corev1.Pod) (bool, error) {
	if sidecar(pod, ctr) {
		tried, err := d.amd.AdmitContainer(pod.DeepCopy(), ctr.DeepCopy())
		if err != nil {
			return false, err
		}
		if tried.Asks {
			return false, &amd.InvalidRequestError{
				Container: ctr.Name, Resource: d.names.ResourceCountName,
				Reason: "want it in an app container or an ordinary init container, found a sidecar (an init container with restartPolicy: Always): " +
					"this version of HAMi counts GPUs of init containers as free once the app containers run",
			}
		}
	}
	admission, err := d.amd.AdmitContainer(pod, ctr)
	if err != nil {
		return false, err
	}
	for _, note := range admission.Notes {
		klog.V(2).InfoS("Admitted pod with a note", "pod", podName(pod), "container", ctr.Name, "note", note)
	}
	return admission.Asks, nil
}

// sidecar reports whether ctr is a sidecar of the pod. An app container may have
// a restartPolicy of its own too, so it is looked for among the init containers.
func sidecar(pod *corev1.Pod, ctr *corev1.Container) bool {
	if !amd.Sidecar(ctr) {
		return false
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == ctr.Name {
			return true
		}
	}
	return false
}

// sidecarAsks reports whether a sidecar of the pod asks for GPUs.
func (d *Devices) sidecarAsks(pod *corev1.Pod) bool {
	for i := range pod.Spec.InitContainers {
		ctr := &pod.Spec.InitContainers[i]
		if amd.Sidecar(ctr) && d.request(ctr).Nums > 0 {
			return true
		}
	}
	return false
}

// podName names a pod that the API server may have given no name yet.
func podName(pod *corev1.Pod) string {
	name := pod.Name
	if name == "" {
		name = pod.GenerateName + "*"
	}
	return fmt.Sprintf("%s/%s", pod.Namespace, name)
}
