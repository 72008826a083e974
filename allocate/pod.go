package allocate

import (
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Pod is what of a pod an allocation depends on.
type Pod struct {
	// UID names the pod's directories on the host.
	UID string
	// Containers are all containers of the spec: the init containers in their
	// order, sidecars in place, then the app containers.
	Containers []PodContainer
	// Grants are the scheduler's grants as the annotation
	// hami.io/amd-devices-allocated holds them, nothing erased yet. The k-th
	// entry that is not empty belongs to the k-th container that asks.
	Grants annotations.PodGrants
	// Recorded is what an earlier plan gave this pod; the zero value if there
	// was none.
	Recorded Recorded
}

// Role is when a container runs.
type Role int

const (
	// App containers run side by side for the life of the pod.
	App Role = iota
	// Init containers run one after another before the app containers.
	Init
	// Sidecar is an init container with restartPolicy Always: it starts in
	// its place among the init containers and stays.
	Sidecar
)

// PodContainer is one container of the spec.
type PodContainer struct {
	Name string
	Role Role
	// Asks is whether the container's limits name the GPU resource.
	Asks bool
	// Env are the entries of the spec's env, in their order.
	Env []SpecEnv
	// EnvFrom is whether the spec takes variables from a ConfigMap or Secret,
	// whose names cannot be seen from here.
	EnvFrom bool
	// HookLeftOut is set when the hook is not to be loaded into the container
	// (hook.LeaveOut): the kernel caps its memory and its image cannot load
	// the library.
	HookLeftOut bool
}

// SpecEnv is one entry of a container's env in the pod spec.
type SpecEnv struct {
	Name string
	// Value is the literal value; "" for one that comes from a reference.
	Value string
	// Ref is set for an entry with valueFrom.
	Ref bool
}

// Recorded is what a pod was given before. Kubelet asks again after a reboot
// or when it lost its checkpoint, and must then get the same answer.
type Recorded struct {
	// CUs is hami.io/amd-cu-allocated: by device ID, all that the pod holds.
	CUs map[string]cumask.Set
	// Containers is hami.io/amd-cu-containers: by container name, the part of
	// each.
	Containers map[string]annotations.ContainerCUs
}

// Node is the node the pod was bound to.
type Node struct {
	// Devices are the node's registered devices.
	Devices []partition.Registered
	// Held are the CUs that other live pods hold, by device ID.
	Held map[string]cumask.Set
	// HookPath is the host directory that holds vgpu/; "" is
	// hook.DefaultHostPath.
	HookPath string
	// HookLogLevel is the hook's log level in containers; 0 leaves its own.
	HookLogLevel int
	// MemoryScaling is what the registered VRAM was multiplied by; above 1,
	// slices oversubscribe. 0 is 1.
	MemoryScaling float64
	// Strict refuses a slice whose container takes variables from a ConfigMap
	// or Secret; otherwise the plan notes it.
	Strict bool
}
