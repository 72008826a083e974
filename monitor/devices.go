package monitor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/partition"
)

// maxGPUs is more GPUs than a node can have: DRM has 64 render minors for GPUs
// and partitions alike. A node annotation that names more is cut.
const maxGPUs = 256

// gpu is one physical GPU, with all of its partitions.
type gpu struct {
	bdf partition.BDF
	// id is the AMD SMI UUID it has when it is not partitioned, which the ids
	// of its partitions start with.
	id     string
	index  uint
	typ    string
	apu    bool
	region string // of dmem
}

// device is what a grant names: a GPU or a partition of one.
type device struct {
	annotations.Device
	gpu *gpu // nil where its PCI address is not known
}

// hard devices are always granted whole.
func (d *device) hard() bool { return d.Mode != "" }

// devices are the GPUs of a node, and what grants can name.
type devices struct {
	gpus []*gpu // in order of PCI address
	// registered are the devices the scheduler gives out, in its order.
	registered []*device
	byID       map[string]*device
}

// newDevices puts together what the node registered with HAMi and what
// discovery found. The registration counts where both know a GPU: it is what
// the scheduler's metrics go by, and a container without the right to use the
// GPUs discovers none, as KFD hides them from it. Discovery adds the GPUs that
// the node keeps for itself or has not registered yet.
//
// What is wrong with a device is in problems and costs the others nothing.
func newDevices(registered []annotations.Device, inv *partition.Inventory, node string) (d *devices, problems []error) {
	d = &devices{byID: make(map[string]*device)}
	byBDF := make(map[partition.BDF]*gpu)
	if inv != nil {
		problems = append(problems, d.discovered(inv, node, byBDF)...)
	}

	groups := make(map[partition.BDF][]*device)
	for i := range registered {
		dev := &device{Device: registered[i]}
		d.byID[dev.ID] = dev
		d.registered = append(d.registered, dev)
		bdf, err := partition.ParseBDF(dev.CustomInfo.PCIBDF)
		if err != nil {
			problems = append(problems, fmt.Errorf("registered device %q: %w", dev.ID, err))
			continue
		}
		groups[bdf] = append(groups[bdf], dev)
	}
	for _, bdf := range slices.Sorted(maps.Keys(groups)) {
		g, known := byBDF[bdf]
		if !known {
			if len(byBDF) == maxGPUs {
				problems = append(problems, fmt.Errorf("want at most %d gpus, have %d registered", maxGPUs, len(groups)))
				break
			}
			g = &gpu{bdf: bdf}
			byBDF[bdf] = g
		}
		g.register(groups[bdf])
	}
	for _, bdf := range slices.Sorted(maps.Keys(byBDF)) {
		g := byBDF[bdf]
		// An address that partition accepts names a region.
		g.region, _ = dmem.VRAMRegion(string(bdf))
		d.gpus = append(d.gpus, g)
	}
	return d, problems
}

// discovered takes over the GPUs of the inventory, and all devices they can
// be registered as.
func (d *devices) discovered(inv *partition.Inventory, node string, byBDF map[partition.BDF]*gpu) (problems []error) {
	for _, mode := range []partition.OperatingMode{partition.ModePartition, partition.ModeCU} {
		list, err := inv.Registered(partition.RegisterOptions{Mode: mode, NodeName: node})
		if err != nil {
			problems = append(problems, fmt.Errorf("discovered gpus: %w", err))
			continue
		}
		for _, r := range list {
			g := byBDF[r.GPU.BDF]
			if g == nil {
				g = &gpu{bdf: r.GPU.BDF, apu: r.GPU.APU}
				byBDF[g.bdf] = g
			}
			if mode == partition.ModeCU {
				g.id, g.index, g.typ = r.ID, r.Index, r.Type
			}
			if d.byID[r.ID] == nil {
				d.byID[r.ID] = &device{Device: r.Device, gpu: g}
			}
		}
	}
	return problems
}

// register makes the registered devices of a GPU its own.
func (g *gpu) register(list []*device) {
	first := slices.MinFunc(list, func(a, b *device) int { return cmp.Compare(a.Index, b.Index) })
	g.id, g.index, g.typ = first.ID, first.Index, first.Type
	if parent, ok := parentOf(list); ok {
		g.id = parent
	}
	for _, dev := range list {
		dev.gpu = g
	}
}

// parentOf is the id of the GPU whose partitions these are.
func parentOf(list []*device) (string, bool) {
	parent, ok := cutPartition(list[0].ID)
	for _, dev := range list[1:] {
		if p, is := cutPartition(dev.ID); !is || p != parent {
			return "", false
		}
	}
	return parent, ok
}

// cutPartition takes the "-p<k>" off a partition's id.
func cutPartition(id string) (string, bool) {
	i := strings.LastIndex(id, "-p")
	if i <= 0 {
		return "", false
	}
	if _, err := strconv.ParseUint(id[i+2:], 10, 8); err != nil {
		return "", false
	}
	return id[:i], true
}

// find looks up what a grant names. A pod that was granted a GPU before its
// partition mode changed names one that is registered otherwise by now: then
// the GPU is still known, and the shape of the device is not.
func (d *devices) find(id string) (*device, bool) {
	if dev, ok := d.byID[id]; ok {
		return dev, true
	}
	whole := id
	if parent, ok := cutPartition(id); ok {
		whole = parent
	}
	for _, g := range d.gpus {
		if g.id == whole {
			return &device{Device: annotations.Device{ID: id}, gpu: g}, true
		}
	}
	return nil, false
}
