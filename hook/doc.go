// Package hook puts HAMi's AMD memory hook, libamvgpu.so, into the containers
// that hold a slice of a GPU.
//
// The hook is an LD_AUDIT library: glibc's dynamic loader loads it into every
// dynamically linked program of the container, where it intercepts the HIP
// memory calls and refuses what goes beyond the limits it finds in the
// environment. It is cooperative: a musl or static program never loads it and
// a process may unset LD_AUDIT. The limit the kernel enforces is package
// dmem's; whether a slice may start with the one, the other or both is
// [Decide].
//
//   - [Inject] turns the grants of one container into its environment and
//     mounts, and [ReservedEnv] names the variables a pod may not set itself.
//   - [Install] keeps the library file on the host, [Check] says whether it
//     can be mounted, [Inspect] what it needs of a program.
//   - [Containers] are the per-container directories that hold the hook's
//     shared accounting file.
//
// Nothing here talks to Kubernetes or looks into images; hook/image tells
// which C library an image's entry point loads.
package hook
