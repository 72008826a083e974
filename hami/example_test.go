package hami_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/hami"
)

// A scheduler of one's own puts the backend in place of HAMi's, after
// config.InitDevices and before scheduler.NewScheduler. The program
// examples/scheduler does this and what is left to do.
func ExampleNew() {
	config, err := hami.ParseDeviceConfig([]byte(`
nvidia:
  resourceCountName: nvidia.com/gpu
amd:
  resourceCountName: amd.com/gpu
  strictAdmission: true
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	backend, err := hami.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	device.DevicesMap = map[string]device.Devices{} // made by config.InitDevices
	device.DevicesMap[hami.CommonWord] = backend

	container := corev1.Container{Name: "train", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"amd.com/gpu": resource.MustParse("1"), "amd.com/gpumem": resource.MustParse("16Gi")},
	}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	_, err = backend.MutateAdmission(&pod.Spec.Containers[0], pod)
	fmt.Println(err)
	// Output:
	// container "train": amd.com/gpumem: want a whole number of MiB from 0 (all of a GPU) to 2147483647, found "16Gi" (the unit is MiB: for 16Gi write 16384)
}
