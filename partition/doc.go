// Package partition knows the AMD GPUs of a node: whole ones, and the compute
// partitions that Instinct GPUs can be split into. It needs no ROCm library.
//
// [Discover] reads a sysfs mount into an [Inventory]:
//
//   - class/kfd/kfd/topology: the nodes that compute, their CUs, memory banks
//     and links (kernel: drivers/gpu/drm/amd/amdkfd/kfd_topology.c);
//   - bus/pci/devices: the PCI functions with serial number, memory size, NUMA
//     node and partition modes (amdgpu_device.c, amdgpu_gfx.c, amdgpu_xcp.c);
//   - class/drm and devices/platform/amdgpu_xcp_N: the device nodes in /dev/dri
//     that stand for GPUs and partitions.
//
// A GPU is known by its PCI address on the node and by its AMD SMI UUID in the
// cluster; both stay the same across reboots and mode switches. KFD node
// numbers, DRM minors and unique ids of partitions do not.
//
// What the kernel does not say is absent from the inventory, a nil pointer or
// an empty string, and never 0. A device that cannot be used is left out and
// reported in Inventory.Skipped; the others stay. The values of sysfs are
// checked before use, links out of the mount are refused, and everything is
// bounded.
//
// An inventory in hand, [Inventory.Register] decides what the node offers in an
// operating mode, and [Switch] changes the compute partition mode of idle GPUs.
//
// # Adding a product
//
// A new part works without a change here: its figures come from the kernel. A
// market name for hosts that lack one is a row in names_table.go; a product
// with compute partitions also is a row in profiles_table.go, with which its
// modes can be listed where the kernel does not.
package partition
