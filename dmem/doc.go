// Package dmem limits how much VRAM the pods of a node may use, with the
// kernel's cgroup v2 controller of that name, and reads what they do use.
//
// The kernel files (kernel/cgroup/dmem.c, mainline since 6.14) are
// dmem.capacity in the root cgroup and dmem.current, dmem.max and dmem.peak in
// each cgroup whose parent enables the controller. A line is a region and a
// number of bytes; amdgpu's region is drm/<PCI address>/vram, one per GPU
// whatever its partitions.
//
// What a caller should know of the controller:
//
//   - it counts at allocation, VRAM only: GTT is free, so it limits no APU;
//   - a limit below what is in use gives nothing back. Kernels differ in
//     whether the write is refused, ignored or taken, which is why every limit
//     is read back ([ErrBusy], [ErrNotInForce]);
//   - several lines in one write are applied one by one or refused, and a
//     region without a value crashes kernels before 2026. This package writes
//     one whole line at a time and nothing else;
//   - a limit holds for all cgroups below, so a pod's cgroup limits its
//     containers together.
//
// A [Tree] is one cgroup2 mount. [Tree.Prepare] tells whether pods can be
// limited there, [PeakCaps] what a pod's limits are, [Tree.CapPods] waits for
// pods' cgroups and sets them, [Tree.Usage] reads them for a monitor.
//
// Package dmemtest has a tree that behaves like the kernel's, for tests on
// machines without the controller.
package dmem
