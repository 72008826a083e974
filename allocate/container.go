package allocate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

// The variables that choose and mask devices. ROCr applies
// ROCR_VISIBLE_DEVICES first and numbers what is left in the order of that
// list; HIP_VISIBLE_DEVICES and HSA_CU_MASK use the new numbers.
const (
	rocrVisibleEnv = "ROCR_VISIBLE_DEVICES"
	hipVisibleEnv  = "HIP_VISIBLE_DEVICES"
	cuMaskEnv      = "HSA_CU_MASK"
)

// Whole is what a container gets that holds devices whole and without grants:
// resources HAMi does not schedule, and nodes without HAMi. Devices keep their
// order.
func Whole(name string, devices []partition.Registered) (Container, error) {
	demands := make([]demand, 0, len(devices))
	for i := range devices {
		g := geometryOf(&devices[i])
		if err := g.Validate(); err != nil {
			return Container{}, fmt.Errorf("device %q: %w", devices[i].ID, err)
		}
		demands = append(demands, demand{
			device: &devices[i], geometry: g, whole: true, cus: g.CUs,
			memoryMiB: devices[i].Devmem, set: g.All(),
		})
	}
	c, _, err := buildContainer(PodContainer{Name: name}, demands, "", Node{})
	return c, err
}

// buildContainer turns the served demands of one container into its answer.
func buildContainer(spec PodContainer, demands []demand, uid string, node Node) (c Container, notes []string, err error) {
	c.Name = spec.Name
	if len(demands) == 0 {
		return c, nil, nil
	}
	sliced := slices.ContainsFunc(demands, func(d demand) bool { return !d.whole })
	if sliced {
		if notes, err = checkSpecEnv(spec, node.Strict); err != nil {
			return Container{}, nil, err
		}
	}
	for _, d := range demands {
		c.Devices = append(c.Devices, Device{ID: d.device.ID, Whole: d.whole, CUs: d.set, MemoryMiB: d.memoryMiB})
	}
	agents := agentsOf(demands)
	if c.Env, err = visibleEnv(agents); err != nil {
		return Container{}, nil, err
	}
	injected, err := hook.Inject(hookDevices(agents), hook.Options{
		HostPath:      node.HookPath,
		PodUID:        uid,
		Container:     spec.Name,
		LogLevel:      node.HookLogLevel,
		Oversubscribe: node.MemoryScaling > 1,
		Audit:         specAudit(spec),
		LeftOut:       spec.HookLeftOut,
	})
	if err != nil {
		return Container{}, nil, err
	}
	c.Env = append(c.Env, injected.Env...)
	c.Mounts = injected.Mounts
	c.DeviceNodes, c.CDIDevices = deviceNodes(demands)
	return c, notes, nil
}

// agent is one device as ROCr enumerates it: a KFD node whose render node the
// container may open. A partitioned GPU that is granted as one device is
// several.
type agent struct {
	node   partition.Node
	demand *demand
}

func agentsOf(demands []demand) []agent {
	var agents []agent
	for i := range demands {
		for _, n := range demands[i].device.Nodes {
			agents = append(agents, agent{node: n, demand: &demands[i]})
		}
	}
	return agents
}

// visibleEnv is the visibility and the mask of a container. ROCr drops the
// rest of ROCR_VISIBLE_DEVICES at a name that matches no agent or several, so
// names are used only where each is known and unique; else every agent is
// addressed by its rank in KFD order among those the container can open.
func visibleEnv(agents []agent) ([]hook.EnvVar, error) {
	tokens := make([]string, len(agents))
	byName := true
	for i, a := range agents {
		tokens[i] = a.node.ROCrID()
		if tokens[i] == "" || slices.Contains(tokens[:i], tokens[i]) {
			byName = false
			break
		}
	}
	if !byName {
		for i, a := range agents {
			rank := 0
			for _, other := range agents {
				if other.node.Rank < a.node.Rank {
					rank++
				}
			}
			tokens[i] = strconv.Itoa(rank)
		}
	}

	indices := make([]string, len(agents))
	var masks []cumask.DeviceMask
	for i, a := range agents {
		indices[i] = strconv.Itoa(i)
		if !a.demand.whole && !a.demand.set.Empty() {
			masks = append(masks, cumask.DeviceMask{Device: i, CUs: a.demand.set})
		}
	}
	env := []hook.EnvVar{
		{Name: rocrVisibleEnv, Value: strings.Join(tokens, ",")},
		{Name: hipVisibleEnv, Value: strings.Join(indices, ",")},
	}
	if len(masks) > 0 {
		mask, err := cumask.FormatHSAMask(masks)
		if err != nil {
			return nil, err
		}
		env = append(env, hook.EnvVar{Name: cuMaskEnv, Value: mask})
	}
	return env, nil
}

func hookDevices(agents []agent) []hook.Device {
	devices := make([]hook.Device, len(agents))
	for i, a := range agents {
		devices[i].Whole = a.demand.whole
		if !a.demand.whole {
			devices[i].LimitMiB = a.demand.memoryMiB
		}
	}
	return devices
}
