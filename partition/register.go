package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// Registration is what a node offers under given options.
type Registration struct {
	// Devices are in ascending order of PCI address, partitions of one GPU in
	// ascending order of their index.
	Devices []Registered
	// Notes are things worth telling an operator that stopped nothing, one
	// line each.
	Notes []string
}

// Entries are the devices that HAMi schedules, as the register annotation
// lists them: those of the resource amd.com/gpu. Partitions that the mixed
// strategy gave names of their own are kubelet's alone.
func (r *Registration) Entries() []annotations.Device {
	out := make([]annotations.Device, 0, len(r.Devices))
	for i := range r.Devices {
		if r.Devices[i].Resource == ResourceGPU {
			out = append(out, r.Devices[i].Device)
		}
	}
	return out
}

// Devices is what the node writes into hami.io/node-amd-register. It is
// Register without the notes and the part only the plugin needs; see there for
// the errors.
func (inv *Inventory) Devices(opts RegisterOptions) ([]annotations.Device, error) {
	r, err := inv.Register(opts)
	if err != nil {
		return nil, err
	}
	return r.Entries(), nil
}

// Registered is Register without the notes.
func (inv *Inventory) Registered(opts RegisterOptions) ([]Registered, error) {
	r, err := inv.Register(opts)
	if err != nil {
		return nil, err
	}
	return r.Devices, nil
}

// Register decides what the node offers. It reads nothing but the inventory,
// changes nothing, and gives the same answer for the same inventory and
// options.
//
// In cu mode every GPU is one soft device. One that is not in SPX is
// registered unhealthy with the remedy, because its first render node reaches
// only one partition.
//
// In partition mode GPUs that can change their compute partition mode are
// hard, SPX included, and so is every GPU with more than one KFD node. A GPU
// whose KFD nodes each have a render minor of their own registers each node as
// a device; a partitioned GPU that shows KFD one node, or nodes behind one
// minor (kernel 6.8.0-136 does not list XCP render minors), is one hard device
// over all of them, since a container can only be given render nodes. GPUs
// without a compute partition mode and GPUs that cannot change it (SR-IOV
// virtual functions) stay soft.
//
// Index numbers whole GPUs from 0 in order of PCI address and partition k of
// GPU i as i + k*n, n being the GPUs of the inventory. So it is unique on the
// node, index modulo n is the GPU, and neither exclusion nor a mode switch
// moves another GPU's. It is not an identity: that is ID.
//
// Numa is 0 where the kernel knows no NUMA node: HAMi's value for "not said",
// and a number that every reader of the annotation accepts. GPU.NUMANode tells
// the difference, and is what kubelet's topology hints must come from.
//
// Devmem is 0 where the VRAM size is unknown, so that requests with gpumem do
// not fit there. Options that cannot be, and a memory scaling that leaves a
// GPU without memory or with more MiB than an int32 holds, are errors.
func (inv *Inventory) Register(opts RegisterOptions) (*Registration, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("registering GPUs: %w", err)
	}
	skip, notes, err := excluded(inv.GPUs, opts.Exclude)
	if err != nil {
		return nil, fmt.Errorf("registering GPUs: %w", err)
	}
	reg := &registrar{inv: inv, opts: opts, ids: wholeIDs(inv.GPUs, opts.NodeName), peers: xgmiPeers(inv.GPUs)}
	reg.notes = notes
	for i := range inv.GPUs {
		if g := &inv.GPUs[i]; !skip[g.BDF] && len(g.Nodes) > 0 {
			if err := reg.add(i, g); err != nil {
				return nil, fmt.Errorf("registering GPU %s: %w", g.BDF, err)
			}
		}
	}
	if note := mixedModes(reg.devices, opts.Naming); note != "" {
		reg.notes = append(reg.notes, note)
	}
	return &Registration{Devices: reg.devices, Notes: reg.notes}, nil
}

// registrar collects the devices of one Register call.
type registrar struct {
	inv     *Inventory
	opts    RegisterOptions
	ids     map[BDF]wholeID
	peers   map[BDF][]string
	devices []Registered
	notes   []string
}

func (r *registrar) note(g *GPU, format string, args ...any) {
	r.notes = append(r.notes, string(g.BDF)+": "+fmt.Sprintf(format, args...))
}

// add registers one GPU, the i-th of the inventory.
func (r *registrar) add(i int, g *GPU) error {
	s := shapeOf(g, r.opts.Mode)
	for _, note := range s.notes {
		r.note(g, "%s", note)
	}
	id := r.ids[g.BDF]
	if id.note != "" {
		r.note(g, "%s", id.note)
	}
	// What the devices of one GPU have in common.
	common := annotations.Device{
		ID: id.id, Index: uint(i), Type: annotations.SanitizeType(g.Name),
		CustomInfo: annotations.CustomInfo{
			PCIBDF:            string(g.BDF),
			XGMIPeers:         r.peers[g.BDF],
			PartitionProfile:  profileName(s.compute, g.Memory),
			PartitionProfiles: profiles(g.Profiles),
		},
	}
	if g.NUMANode != nil && *g.NUMANode >= 0 {
		common.Numa = *g.NUMANode
	}
	if !s.perNode {
		return r.append(g, Registered{Device: common, Partition: -1, Nodes: g.Nodes}, s, g.VRAMBytes)
	}
	nodes := slices.Clone(g.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return a.Partition - b.Partition })
	for j := range nodes {
		k := nodes[j].Partition
		d := Registered{Device: common, Partition: k, Nodes: nodes[j : j+1 : j+1]}
		d.ID, d.Index = partitionID(id.id, k), uint(i+k*len(r.inv.GPUs))
		if err := r.append(g, d, s, partitionVRAM(g, &nodes[j], s.compute)); err != nil {
			return fmt.Errorf("partition %d: %w", k, err)
		}
	}
	return nil
}

// append completes a device and adds it.
func (r *registrar) append(g *GPU, d Registered, s shape, vram *uint64) error {
	d.GPU, d.Hard = g, s.hard
	d.Count = 1
	if s.hard {
		d.Mode = string(s.compute)
	} else {
		d.Count = int32(r.opts.splitCount(g))
	}
	d.KubeletIDs = kubeletIDs(g.BDF, d.Partition, s.hard, int(d.Count))
	d.Resource = resource(r.opts.Naming, s.hard, s.compute, g.Memory)

	geometry := sumGeometry(d.Nodes)
	d.Devcore = int32(min(max(geometry.CUs, 0), math.MaxInt32))
	d.CustomInfo.NumXCC, d.CustomInfo.CUsPerWGP = geometry.XCCs, geometry.CUsPerWGP
	d.CustomInfo.ComputeQueues = sumQueues(d.Nodes)

	mib, known := mebibytes(vram)
	if !known {
		r.note(g, "%s: VRAM size unknown, registered as 0 MiB: requests with gpumem do not fit", d.ID)
	}
	var err error
	if d.Devmem, err = scale(mib, r.opts.MemoryScaling); err != nil {
		return err
	}
	d.Unhealthy = r.unhealthy(g, d.Nodes, s)
	d.Health = d.Unhealthy == ""
	r.devices = append(r.devices, d)
	return nil
}

// unhealthy gives the first reason that holds: what the GPU's mode says, what
// was found of the GPU, what was found of one of the render nodes.
func (r *registrar) unhealthy(g *GPU, nodes []Node, s shape) string {
	if s.unhealthy != "" {
		return s.unhealthy
	}
	if reason, ok := r.opts.Unhealthy[g.BDF]; ok {
		return orUnnamed(reason)
	}
	for i := range nodes {
		if reason, ok := r.opts.UnhealthyRenderMinors[nodes[i].RenderMinor]; ok {
			return orUnnamed(reason)
		}
	}
	return ""
}

// orUnnamed keeps a GPU that is named without a reason unhealthy.
func orUnnamed(reason string) string {
	if reason == "" {
		return "a health check failed"
	}
	return reason
}
