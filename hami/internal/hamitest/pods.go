package hamitest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/amd"
)

// Container asks for figures of amd.com/gpu, gpumem and gpucores; an empty one
// is left out.
func Container(name, count, mem, cores string) corev1.Container {
	c := corev1.Container{Name: name}
	for resourceName, value := range map[corev1.ResourceName]string{
		amd.DefaultCountName: count, amd.DefaultMemoryName: mem, amd.DefaultCoreName: cores,
	} {
		if value == "" {
			continue
		}
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[resourceName] = resource.MustParse(value)
	}
	return c
}

// Plain is a container without a GPU.
func Plain(name string) corev1.Container { return Container(name, "", "", "") }

// Slice is a container with a quarter of a GPU's CUs and 16 GiB of its memory.
func Slice(name string) corev1.Container { return Container(name, "1", "16384", "25") }

// Sidecar makes an init container one.
func Sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// Pod is a pending pod of these containers.
func Pod(name string, init []corev1.Container, app ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{InitContainers: init, Containers: app},
		Status:     corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// Annotated adds an annotation to a pod.
func Annotated(pod *corev1.Pod, key, value string) *corev1.Pod {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	return pod
}
