package hook_test

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/hook"
)

// A container with half of one GPU and a quarter of another.
func ExampleInject() {
	in, err := hook.Inject(
		[]hook.Device{{LimitMiB: 98304}, {LimitMiB: 49152}},
		hook.Options{PodUID: "6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11", Container: "train"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range in.Env {
		fmt.Printf("%s=%s\n", v.Name, v.Value)
	}
	for _, m := range in.Mounts {
		fmt.Println(m.HostPath, "->", m.ContainerPath)
	}
	// Output:
	// HIP_DEVICE_MEMORY_LIMIT=98304m
	// HIP_DEVICE_MEMORY_LIMIT_0=98304m
	// HIP_DEVICE_MEMORY_LIMIT_1=49152m
	// HIP_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/shared/hipdevshr.cache
	// LD_AUDIT=/usr/local/vgpu/libamvgpu.so
	// /usr/local/vgpu/libamvgpu.so -> /usr/local/vgpu/libamvgpu.so
	// /usr/local/vgpu/containers/6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11_train -> /usr/local/vgpu/shared
}

// An Alpine image on a node with fail-closed on: the slice starts only where
// the kernel limits it.
func ExampleDecide() {
	c := hook.Case{
		Slice: true, FailClosed: true, HookFile: true,
		Image: hook.ImageCannot, ImageDetail: "musl does not implement LD_AUDIT",
	}
	fmt.Println(hook.Decide(c))
	c.DmemCaps = true
	fmt.Println(hook.Decide(c))
	// Output:
	// refuse image cannot load the memory hook and dmem does not cap its VRAM: musl does not implement LD_AUDIT
	// leave out <nil>
}
