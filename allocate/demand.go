package allocate

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// demand is one grant of one container, checked against its device.
type demand struct {
	device    *partition.Registered
	geometry  cumask.Geometry
	whole     bool
	cus       int // after RoundUp; 0 for a memory-only slice
	memoryMiB int32
	set       cumask.Set // filled by assignCUs
}

// readDemands turns the grants into demands, one list for each container.
func readDemands(pod Pod, node Node) (demands [][]demand, notes []string, err error) {
	asks := make([]bool, len(pod.Containers))
	for i, c := range pod.Containers {
		asks[i] = c.Asks
	}
	grants, err := pod.Grants.Align(asks)
	if err != nil {
		return nil, nil, err
	}
	devices := make(map[string]*partition.Registered, len(node.Devices))
	for i := range node.Devices {
		devices[node.Devices[i].ID] = &node.Devices[i]
	}

	demands = make([][]demand, len(pod.Containers))
	for i, c := range pod.Containers {
		seen := make(map[string]bool, len(grants[i]))
		for _, g := range grants[i] {
			d, note, err := readDemand(g, devices[g.UUID])
			if err != nil {
				return nil, nil, fmt.Errorf("container %q: device %q: %w", c.Name, g.UUID, err)
			}
			if seen[g.UUID] {
				return nil, nil, fmt.Errorf("container %q: device %q is granted twice: %w", c.Name, g.UUID, ErrGrant)
			}
			seen[g.UUID] = true
			if note != "" {
				notes = append(notes, fmt.Sprintf("container %q: device %q: %s", c.Name, g.UUID, note))
			}
			demands[i] = append(demands[i], d)
		}
	}
	return demands, notes, nil
}

// geometryOf is the device's geometry, with the shader engines that KFD names
// and the register annotation does not, so that packing can balance them too.
func geometryOf(device *partition.Registered) cumask.Geometry {
	g := device.Geometry()
	if len(device.Nodes) == 1 {
		known := device.Nodes[0].Geometry
		if known.CUs == g.CUs && max(known.XCCs, 1) == max(g.XCCs, 1) && max(known.CUsPerWGP, 1) == max(g.CUsPerWGP, 1) {
			return known
		}
	}
	return g
}

func readDemand(g annotations.Grant, device *partition.Registered) (d demand, note string, err error) {
	if device == nil {
		return demand{}, "", ErrUnknownDevice
	}
	d = demand{device: device, geometry: geometryOf(device), cus: int(g.CUs), memoryMiB: g.MemoryMiB}
	if err := d.geometry.Validate(); err != nil {
		return demand{}, "", err
	}
	switch {
	case g.CUs < 0 || g.CUs > device.Devcore:
		return demand{}, "", fmt.Errorf("%w: want 0 to %d CUs, have %d", ErrGrant, device.Devcore, g.CUs)
	case g.MemoryMiB < 0 || g.MemoryMiB > device.Devmem:
		return demand{}, "", fmt.Errorf("%w: want 0 to %d MiB, have %d", ErrGrant, device.Devmem, g.MemoryMiB)
	}
	d.whole = device.Hard || g.CUs == device.Devcore && g.MemoryMiB == device.Devmem
	switch {
	case d.whole:
		d.cus = d.geometry.CUs
		return d, "", nil
	case len(device.Nodes) != 1:
		// The GPU is partitioned but registered as one soft device: its DRM
		// nodes reach one partition, so a mask over all CUs means nothing.
		return demand{}, "", fmt.Errorf("%w: the GPU is in a partitioned mode (%d KFD nodes) and cannot be sliced", ErrGrant, len(device.Nodes))
	case g.MemoryMiB == 0:
		// The hook and dmem would both read a limit of zero as none.
		return demand{}, "", fmt.Errorf("%w: a slice without memory", ErrGrant)
	case g.CUs == 0:
		return d, "", nil
	}
	if d.cus = d.geometry.RoundUp(int(g.CUs)); d.cus != int(g.CUs) {
		note = fmt.Sprintf("grant of %d CUs raised to %d, the fewest whole units of this GPU that hold it", g.CUs, d.cus)
	}
	return d, note, nil
}
