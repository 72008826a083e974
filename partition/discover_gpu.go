package partition

import (
	"cmp"
	"fmt"
	"slices"
)

// assignMinors gives each node its render minor's card, and leaves out nodes
// whose minor is another device's: a container would be handed that device.
func (w *walker) assignMinors(drafts []*draft) {
	functions := slices.Clone(w.pci.bound)
	for _, d := range drafts {
		if !slices.Contains(functions, d.bdf) {
			functions = append(functions, d.bdf)
		}
	}
	owners := w.pci.owners(functions)

	users := map[int]map[BDF]bool{} // by minor: the GPUs whose nodes name it
	for _, d := range drafts {
		for _, n := range d.nodes {
			if n.noMinor {
				w.minorOfFunction(d, n)
			}
			if users[n.RenderMinor] == nil {
				users[n.RenderMinor] = map[BDF]bool{}
			}
			users[n.RenderMinor][d.bdf] = true
		}
	}
	for _, d := range drafts {
		d.nodes = slices.DeleteFunc(d.nodes, func(n *kfdNode) bool {
			err := w.assignMinor(d, n, owners, len(users[n.RenderMinor]) > 1)
			if err != nil {
				w.skip(nodeName(n.ID), fmt.Errorf("%s: %w", d.bdf, err))
			}
			return err != nil
		})
	}
}

// minorOfFunction takes the render minor from the function's folder, for
// kernels that do not print drm_render_minor.
func (w *walker) minorOfFunction(d *draft, n *kfdNode) {
	if renders := w.pci.minors(d.bdf).renders; len(renders) == 1 {
		n.RenderMinor = renders[0]
	}
}

func (w *walker) assignMinor(d *draft, n *kfdNode, owners map[int]minorOwner, shared bool) error {
	minor := n.RenderMinor
	if minor == 0 {
		return ErrNoRenderNode
	}
	if shared {
		return fmt.Errorf("render minor %d is named by nodes of several gpus: %w", minor, ErrConflict)
	}
	owner, ok := owners[minor]
	if !ok {
		owner.card, owner.bdf = w.pci.cardBeside(minor)
	}
	if owner.bdf != "" && owner.bdf != d.bdf {
		return fmt.Errorf("render minor %d belongs to %s: %w", minor, owner.bdf, ErrConflict)
	}
	if owner.ambiguous {
		return fmt.Errorf("render minor %d belongs to several devices: %w", minor, ErrConflict)
	}
	n.Card = owner.card
	return nil
}

// finish turns the drafts into GPUs.
func (w *walker) finish(drafts []*draft) {
	for _, d := range drafts {
		if len(d.nodes) == 0 {
			continue // each node was skipped with its reason
		}
		w.inv.GPUs = append(w.inv.GPUs, w.gpu(d))
	}
	w.rank()
}

// rank numbers the nodes in KFD order, the order of ROCr's indices.
func (w *walker) rank() {
	var all []*Node
	for i := range w.inv.GPUs {
		for j := range w.inv.GPUs[i].Nodes {
			all = append(all, &w.inv.GPUs[i].Nodes[j])
		}
	}
	slices.SortFunc(all, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
	for i, n := range all {
		n.Rank = i
	}
}

// partitions puts the nodes in order of their partition. The bits of
// location_id say which it is, unless two nodes have the same: then the order
// of the render minors does, and that of the nodes where they share one.
func (d *draft) partitions() {
	seen := map[int]bool{}
	for _, i := range d.index {
		seen[i] = true
	}
	distinct := len(seen) == len(d.index)
	slices.SortFunc(d.nodes, func(a, b *kfdNode) int {
		if distinct {
			return cmp.Compare(d.index[a], d.index[b])
		}
		return cmp.Or(cmp.Compare(a.RenderMinor, b.RenderMinor), cmp.Compare(a.ID, b.ID))
	})
	for i, n := range d.nodes {
		n.Partition = i
		if distinct {
			n.Partition = d.index[n]
		}
	}
}

func (w *walker) gpu(d *draft) GPU {
	d.partitions()
	first, fn := d.nodes[0], &d.fn
	g := GPU{
		BDF: d.bdf, DeviceID: first.device, Revision: fn.revision, GFX: gfxName(first.gfx),
		NUMANode: fn.numa, HiveID: first.hive, VF: fn.vf, Card: w.pci.minors(d.bdf).card,
		ComputeModes: parseModes(fn.available, parseComputeMode), MemoryModes: parseModes(fn.npsModes, parseMemoryMode),
	}
	if !fn.vf {
		_, g.VF, _ = boardOf(g.DeviceID)
	}
	cus := 0
	for _, n := range d.nodes {
		g.Nodes = append(g.Nodes, n.Node)
		cus += n.Geometry.CUs
	}
	g.Name = productName(fn.product, w.ids, g.DeviceID, g.Revision, cus)
	var known bool
	if g.Compute, known = parseComputeMode(fn.compute); !known {
		g.RawCompute = cleanName(fn.compute)
	}
	g.Memory, _ = parseMemoryMode(fn.memory)
	g.UniqueID = d.serial()
	g.APU = d.isAPU(&g)
	w.vram(&g, d)
	g.Profiles = profilesOf(&g, fn.profiles)
	return g
}

// serial is unique_id of the PCI function. A tree without that file has KFD's,
// which is the GPU's own only where all nodes agree: kernels since 6.18 give
// each partition its own.
func (d *draft) serial() uint64 {
	if d.fn.hasSerial {
		return d.fn.serial
	}
	id := d.nodes[0].UniqueID
	for _, n := range d.nodes {
		if n.UniqueID != id {
			return 0
		}
	}
	return id
}

func (d *draft) isAPU(g *GPU) bool {
	b, _, known := boardOf(g.DeviceID)
	return d.nodes[0].apu || known && b.apu || slices.Contains(apuTargets[:], g.GFX)
}

// vram decides about the size of the GPU's memory: KFD's banks, else what the
// PCI function says. Banks that are there and make no sense leave the size
// unknown. An APU's memory is the host's: KFD's bank is what HIP can allocate
// (the GTT limit on current kernels), mem_info_vram_total the BIOS carve-out,
// so without banks the GTT size is taken, and either way a note says so.
func (w *walker) vram(g *GPU, d *draft) {
	var sum uint64
	whole := true
	for _, n := range d.nodes {
		if n.badBanks != nil {
			w.note(nodeName(n.ID), "%s: size of video memory unknown: %v", d.bdf, n.badBanks)
			return
		}
		if n.VRAMBytes == nil {
			whole = false
			continue
		}
		sum += *n.VRAMBytes
	}
	switch {
	case whole:
		g.VRAMBytes = &sum
	case g.APU && d.fn.gtt != nil:
		g.VRAMBytes = d.fn.gtt
	default:
		g.VRAMBytes = d.fn.vram
	}
	if g.APU && g.VRAMBytes != nil {
		carveOut := "unknown"
		if d.fn.vram != nil {
			carveOut = fmt.Sprintf("%d MiB", *d.fn.vram>>20)
		}
		w.note(string(d.bdf), "APU: its %d MiB are shared with the host; carve-out: %s", *g.VRAMBytes>>20, carveOut)
	}
}
