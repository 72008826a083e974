package allocate

import (
	"slices"
	"strconv"
)

// DeviceNode is a device node of the host that the container gets at the same
// path.
type DeviceNode struct {
	Path        string
	Permissions string // of the device cgroup: "rw"
}

// CDIKind is the kind of the CDI devices; a device's name is its DRM card,
// such as "amd.com/gpu=card1".
const CDIKind = "amd.com/gpu"

// kfdNode is the compute interface, one for all GPUs of the host.
const kfdNode = "/dev/kfd"

// deviceNodes are the nodes a container needs: /dev/kfd once, then the card
// and the render node of every device, in grant order, none twice (partitions
// without their own DRM devices share one). Compute needs only the render
// node, so a device whose card is unknown goes without it; CDI names, which are
// made of cards, are then left out altogether.
func deviceNodes(demands []demand) (nodes []DeviceNode, cdi []string) {
	paths := []string{kfdNode}
	add := func(list []string, s string) []string {
		if slices.Contains(list, s) {
			return list
		}
		return append(list, s)
	}
	unnamed := false
	for _, d := range demands {
		for _, n := range d.device.Nodes {
			card := n.Card
			if card == nil && d.device.Partition < 0 {
				card = d.device.GPU.Card
			}
			if card == nil {
				unnamed = true
			} else {
				name := "card" + strconv.Itoa(*card)
				paths = add(paths, "/dev/dri/"+name)
				cdi = add(cdi, CDIKind+"="+name)
			}
			paths = add(paths, "/dev/dri/renderD"+strconv.Itoa(n.RenderMinor))
		}
	}
	for _, p := range paths {
		nodes = append(nodes, DeviceNode{Path: p, Permissions: "rw"})
	}
	if unnamed {
		cdi = nil
	}
	return nodes, cdi
}
