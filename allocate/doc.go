// Package allocate decides what each container of a pod gets on its node: the
// compute units of every GPU slice, the environment, the device nodes or CDI
// names and the mounts.
//
// It is the step between what the scheduler granted (package annotations) and
// what kubelet is told. [Plan] is pure: it reads no file, asks no server, and
// gives the same answer for the same input. It plans a pod whole, because the
// containers that run at the same time must get disjoint CUs and the GPU may
// be too full to find that out one container at a time.
//
// What runs at the same time follows Kubernetes: all app containers and all
// sidecars; and each ordinary init container with the sidecars declared before
// it. An ordinary init container is gone before the app containers start, so
// it reuses their CUs, and a pod never holds more CUs of a GPU than the
// largest of these groups, which is what the scheduler counted.
//
// Who the pod is, which other pods are live, and whether the memory hook may
// be loaded, is decided by the caller (package plugin).
package allocate
