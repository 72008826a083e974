package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// nodeState is what a collection knows of the node as a whole.
type nodeState struct {
	inventory *partition.Inventory // nil before discovery worked once
	regions   map[string]bool      // what dmem counts
	errs      []error              // why part of it is missing or old

	// value is the register annotation that devices was made from, registered
	// what it says, or the last one before it that said anything.
	value      string
	registered []annotations.Device
	devices    *devices
	problems   []error // about them
}

// discoveryShare of the time is spent at most on discovery, so that a GPU which
// hangs it leaves time to read the others.
const discoveryShare = 4

// readNode finds the node's devices and the memory that the kernel counts.
func (c *Collector) readNode(ctx context.Context, out *output) (*devices, map[string]bool) {
	flight := c.flights.DoChan("node", func() (any, error) { return c.lookAtNode(), nil })
	deadline, _ := ctx.Deadline()
	short, cancel := context.WithTimeout(ctx, time.Until(deadline)/discoveryShare)
	defer cancel()
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	found, err := wait[nodeState](short, flight)
	if err != nil {
		found = last
		found.errs = []error{fmt.Errorf("discover gpus: %w", err)}
	}

	found.value = c.registered(out)
	if last.devices != nil && last.value == found.value && last.inventory == found.inventory {
		found.registered, found.devices, found.problems = last.registered, last.devices, last.problems
	} else {
		c.name(&found, last)
	}
	for _, err := range slices.Concat(found.errs, found.problems) {
		out.problem(err)
	}
	c.mu.Lock()
	c.last = found
	c.mu.Unlock()
	return found.devices, found.regions
}

// name makes the devices of a node. An annotation that cannot be read says
// nothing, so the devices that were registered before are still good.
func (c *Collector) name(found *nodeState, last nodeState) {
	var err error
	if found.registered, err = annotations.DecodeDevices(found.value); err != nil {
		found.registered = last.registered
	}
	found.devices, found.problems = newDevices(found.registered, found.inventory, c.node)
	c.findAPUs(found.devices)
	if err != nil {
		found.problems = append(found.problems, fmt.Errorf("node %q: annotation %s: %w", c.node, annotations.NodeRegisterKey, err))
	}
}

// lookAtNode reads sysfs and the root cgroup. What discovery skips is not a
// problem: cards that cannot compute, and all GPUs where the monitor may not
// use them.
func (c *Collector) lookAtNode() nodeState {
	var s nodeState
	scan, err := c.scanner.Scan()
	if err != nil {
		c.mu.Lock()
		s.inventory = c.last.inventory
		c.mu.Unlock()
		s.errs = append(s.errs, fmt.Errorf("discover gpus: %w", err))
	} else {
		s.inventory = scan.Inventory
	}
	if s.regions, err = c.cgroups.regions(); err != nil {
		s.errs = append(s.errs, err)
	}
	return s
}

// findAPUs marks the GPUs that are part of a CPU and that discovery does not
// see. Only their sensors have a voltage vddnb (amdgpu_pm.c
// hwmon_attributes_visible). MI300A, whose memory is HBM as on a card, has none.
func (c *Collector) findAPUs(known *devices) {
	for _, g := range known.gpus {
		g.apu = g.apu || hasVDDNB(c.sysfs, g.bdf)
	}
}

// registered is the node's register annotation, "" without one.
func (c *Collector) registered(out *output) string {
	node, err := c.cluster.Node()
	if err != nil {
		out.problem(err)
	}
	if node == nil {
		return ""
	}
	return node.Annotations[annotations.NodeRegisterKey]
}

// byName orders pods by namespace and name.
func byName(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
