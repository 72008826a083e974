package allocate

import (
	"errors"
	"fmt"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
)

// What a caller may want to tell apart. A GPU without enough free CUs is
// cumask.ErrInsufficient.
var (
	// ErrUnknownDevice is a grant of a device the node does not have, for
	// example after its compute partitions changed.
	ErrUnknownDevice = errors.New("device is not registered on this node")
	// ErrGrant is a grant that its device cannot take, or that does not fit
	// the pod's spec.
	ErrGrant = errors.New("grant cannot be served")
	// ErrEnvOverride is a slice whose pod spec sets a variable that would
	// switch its limits off.
	ErrEnvOverride = errors.New("pod spec overrides the limits of a GPU slice")
	// ErrRecorded is a recorded answer that contradicts the grants or what
	// other pods hold.
	ErrRecorded = errors.New("recorded allocation contradicts the grants")
)

// Allocation is the answer for a whole pod.
type Allocation struct {
	// Containers has one entry for each container of the pod, in its order.
	// Containers without a grant have no devices.
	Containers []Container
	// CUs is the union of what the pod's containers hold, by device ID: the
	// value of hami.io/amd-cu-allocated. A device the pod holds no CUs of
	// (memory-only slices) is absent.
	CUs map[string]cumask.Set
	// Notes are things worth logging, one line each.
	Notes []string
}

// Container is what one container gets. Env, DeviceNodes, CDIDevices and
// Mounts are in a fixed order; a container without devices has none of them.
type Container struct {
	Name string
	// Devices are the container's devices in grant order.
	Devices []Device
	// Env holds no variable twice.
	Env []hook.EnvVar
	// DeviceNodes and CDIDevices are two ways to say the same: answer kubelet
	// with one of them. CDIDevices is empty where a device's DRM card, which
	// names it, is unknown.
	DeviceNodes []DeviceNode
	CDIDevices  []string
	Mounts      []hook.Mount
}

// Device is one device of a container.
type Device struct {
	ID string
	// Whole devices are held by this container alone and have neither mask
	// nor limit: a grant of everything, and every hard partition.
	Whole bool
	// CUs are what the container may use. All of them for a whole device,
	// none for a memory-only slice, which is not masked.
	CUs cumask.Set
	// MemoryMiB is the VRAM granted.
	MemoryMiB int32
}

// CUs are the container's CUs by device ID, as hami.io/amd-cu-containers
// holds them. Devices without CUs are absent.
func (c Container) CUs() map[string]cumask.Set {
	cus := make(map[string]cumask.Set, len(c.Devices))
	for _, d := range c.Devices {
		if !d.CUs.Empty() {
			cus[d.ID] = d.CUs
		}
	}
	return cus
}

// ContainerCUs is the value of hami.io/amd-cu-containers. ids are the device
// IDs kubelet sent, by container name; a container it has not asked for yet is
// absent from both.
func (a *Allocation) ContainerCUs(ids map[string][]string) map[string]annotations.ContainerCUs {
	served := make(map[string]annotations.ContainerCUs, len(ids))
	for _, c := range a.Containers {
		if len(ids[c.Name]) > 0 && len(c.Devices) > 0 {
			served[c.Name] = annotations.ContainerCUs{IDs: ids[c.Name], CUs: c.CUs()}
		}
	}
	return served
}

// Plan decides what every container of pod gets on node.
//
// Grants are served as they are: the devices the scheduler chose, in its
// order, with exactly the CUs it counted. A grant the GPU cannot take, written
// by a scheduler that does not know the GPU's unit, is raised by
// [cumask.Geometry.RoundUp] if that many CUs are free, and noted.
//
// A pod that was planned before gets its recorded CUs again. Plan returns an
// error and no allocation if any container cannot be served.
func Plan(pod Pod, node Node) (*Allocation, error) {
	demands, notes, err := readDemands(pod, node)
	if err != nil {
		return nil, err
	}
	if err := assignCUs(demands, pod, node); err != nil {
		return nil, err
	}

	a := &Allocation{Containers: make([]Container, len(pod.Containers)), CUs: make(map[string]cumask.Set), Notes: notes}
	for i, spec := range pod.Containers {
		c, notes, err := buildContainer(spec, demands[i], pod.UID, node)
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", spec.Name, err)
		}
		a.Containers[i] = c
		a.Notes = append(a.Notes, notes...)
		for id, cus := range c.CUs() {
			a.CUs[id] = a.CUs[id].Union(cus)
		}
	}
	return a, nil
}
