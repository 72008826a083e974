// Package monitor has a Prometheus collector for the AMD GPUs of one node and
// the containers that share them, and serves it.
//
//	collector, err := monitor.New(monitor.Options{NodeName: node, Cluster: watch, ...})
//	registry.MustRegister(collector)
//
// The metrics are those of HAMi's NVIDIA monitor, all gauges with the constant
// label zone="vGPU":
//
//	hami_host_gpu_memory_used_bytes       node, device_index, device_uuid, device_type
//	hami_host_gpu_memory_total_bytes      the same
//	hami_host_gpu_utilization_ratio       the same; 0 to 100
//	hami_host_gpu_temperature_celsius     the same
//	hami_host_gpu_power_usage_watts       the same
//	hami_vgpu_memory_used_bytes           namespace, pod, container, vdevice_index, device_uuid
//	hami_vgpu_memory_limit_bytes          the same
//	hami_vgpumonitor_collect_success      node; 1, or 0 if any part failed
//
// and some of its own, with the labels of the container metrics:
//
//	hami_vgpu_memory_granted_bytes        the memory the container was granted, enforced or not
//	hami_vgpu_compute_units               the CUs the container holds of the device
//	hami_vgpu_effective_compute_units     those that its mask makes effective
//
// and with the labels of the GPU metrics, for each device that the node
// registers, which is a GPU or a partition of one:
//
//	hami_gpu_registered_memory_bytes      what the scheduler may give out
//	hami_gpu_registered_compute_units
//	hami_gpu_registered_shares
//	hami_gpu_committed_memory_bytes       what it has given to pods, as it counts
//	hami_gpu_committed_compute_units
//	hami_gpu_committed_shares             all, while one container has the GPU whole
//	hami_gpu_healthy                      1, or 0 while the node registers it as unhealthy
//
// What is not known is absent, and never 0. The kernel does not account compute
// time to processes, so there is no utilization by container.
//
// # Where the numbers come from
//
//   - Which GPUs there are: the node annotation hami.io/node-amd-register, and
//     discovery in sysfs for those that are not registered.
//   - A GPU's sensors: sysfs attributes of its PCI function (amdgpu_pm.c,
//     amdgpu_vram_mgr.c) and its hwmon. They are the GPU's as a whole, so each
//     GPU has one series, called by the UUID it has without partitions. No device
//     node is opened: whoever opens /dev/kfd keeps every GPU from changing its
//     partition mode.
//   - What a container holds: the pod annotations hami.io/amd-devices-allocated,
//     hami.io/amd-cu-containers and hami.io/amd-cu-allocated.
//   - What pods hold of a device: the same annotation, where a pod counts with
//     the most it may hold at once, as an init container can hold more than what
//     comes after it.
//   - Memory a container uses: dmem.current of its cgroup, else the shared
//     region of the memory hook. The kernel counts by the GPU: a container with
//     several partitions of one GPU has one series for them, with the index of
//     the first and the UUID of the GPU.
//   - Its limit: the grant, where dmem.max of its pod or the hook's region shows
//     that something holds the container to it.
//
// Annotations, regions and what sysfs says are checked before use. A pod or GPU
// that cannot be read costs its own series and sets
// hami_vgpumonitor_collect_success to 0; Options.Problems says why. One that
// hangs in the kernel is left behind when the scrape ends.
package monitor
