// Package hami puts package amd into HAMi: New returns a backend for AMD GPUs
// that satisfies HAMi's device.Devices and takes the place of the one in HAMi's
// pkg/device/amd.
//
// The package only translates. What a container asks for, which GPUs it gets,
// what is refused and why is decided in package amd, the wire formats and the
// decision about the node lock are those of package annotations. What is done
// here is what HAMi needs beside that:
//
//   - it realigns the entries of a pod's containers, which HAMi v2.10 shifts
//     (PatchAnnotations);
//   - it lets no invalid request pass for none, for which HAMi v2.10 has no error
//     (MutateAdmission, GenerateResourceRequests);
//   - it refuses a GPU on a sidecar, which HAMi v2.10 counts as if it had ended
//     before the app containers start;
//   - it takes and releases the node lock for pods whose GPUs are all on init
//     containers too, and never takes over the lock of a pod that still waits
//     for its GPUs.
//
// The default build is for HAMi v2.10. The build tag hami_next is for later
// versions, in which GenerateResourceRequests also returns an error and a node's
// health is read from its allocatable resources.
//
// New fills in HAMi's device.InRequestDevices and device.SupportDevices, which
// are not locked, so it is called before HAMi's scheduler starts. Afterwards the
// backend may be used from many goroutines at once. It writes to the cluster in
// LockNode, ReleaseNodeLock and NodeCleanUp alone, through HAMi's client.
package hami
