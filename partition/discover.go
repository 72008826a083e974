package partition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Sentinels for why a device was left out, and why discovery failed.
var (
	// ErrNotVisible: a device cgroup hides the GPU from this process, as in a
	// container that was given other GPUs.
	ErrNotVisible = errors.New("not visible to this process")
	// ErrGone: KFD still lists the node, the GPU behind it has left.
	ErrGone = errors.New("the gpu is gone")
	// ErrNoRenderNode: nothing in /dev/dri stands for the device, and ROCr
	// does not start with such a node.
	ErrNoRenderNode = errors.New("no render node")
	// ErrNoKFDNode: a card without a KFD node cannot compute.
	ErrNoKFDNode = errors.New("no kfd node")
	// ErrConflict: two sources of sysfs disagree about which device it is.
	ErrConflict = errors.New("conflicting sysfs entries")
	// ErrTopologyChanged: the topology kept changing while it was read, as
	// during a mode switch or a driver reload. Trying again later helps.
	ErrTopologyChanged = errors.New("kfd topology changed while it was read")
)

// DiscoverOptions are choices about what discovery reads. The zero value reads
// what Discover does.
type DiscoverOptions struct {
	// AMDGPUIDs is the path of the host's amdgpu.ids, with the market names of
	// products that this package's table lacks: /usr/share/libdrm/amdgpu.ids.
	// It is the one file read outside the sysfs root, and only when named;
	// a file that is not there changes nothing.
	AMDGPUIDs string
	// AllLinks reads the link records of every KFD node. By default those of
	// one node per GPU are read, which say how GPUs are joined: 64 partitions
	// have over 4,000 records.
	AllLinks bool
}

// Discover finds the AMD GPUs of a node. The root is a sysfs mount, "/sys" on
// the node itself; nothing outside of it is read, links included. A root that
// does not exist is an error, and so is a topology that is there and cannot be
// listed; a machine without AMD GPUs gives an empty inventory.
func Discover(root string) (*Inventory, error) {
	return DiscoverWith(root, DiscoverOptions{})
}

// DiscoverWith is Discover with options.
func DiscoverWith(root string, opts DiscoverOptions) (*Inventory, error) {
	inv, _, err := discover(root, opts)
	return inv, err
}

// attempts is how often a topology is read that changes meanwhile.
const attempts = 4

// discover also returns how many files and folders it opened.
func discover(root string, opts DiscoverOptions) (*Inventory, int, error) {
	t, err := openTree(root)
	if err != nil {
		return nil, 0, fmt.Errorf("discover gpus: %w", err)
	}
	defer t.close()
	w := walker{t: t, opts: opts}
	if opts.AMDGPUIDs != "" {
		if w.ids, err = readProductIDs(opts.AMDGPUIDs); err != nil && !isAbsent(err) {
			w.idsNote = fmt.Sprintf("product names: %v", err)
		}
	}
	path, err := topologyPath(t)
	if err != nil {
		return nil, t.opened, fmt.Errorf("discover gpus: %w", err)
	}
	inv, err := settled(
		func() string { return generation(t, path) },
		func() (*Inventory, error) { return w.walk(path) },
	)
	if err != nil {
		return nil, t.opened, fmt.Errorf("discover gpus: %w", err)
	}
	return inv, t.opened, nil
}

// settled reads until the generation is the same before and after. A read that
// overlapped with a change counts for nothing, its error included.
func settled(generation func() string, read func() (*Inventory, error)) (*Inventory, error) {
	for range attempts {
		before := generation()
		inv, err := read()
		if generation() == before {
			return inv, err
		}
	}
	return nil, fmt.Errorf("%w, %d times", ErrTopologyChanged, attempts)
}

// topologyPath finds KFD's topology, "" where there is none.
func topologyPath(t *tree) (string, error) {
	for _, path := range topologyPaths {
		f, err := t.folder(path)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("open kfd topology: %w", err)
		}
		f.close()
		return path, nil
	}
	return "", nil
}

// generation is the content of generation_id, which the kernel counts up with
// every change of the topology. A capture may lack it.
func generation(t *tree, path string) string {
	if path == "" {
		return ""
	}
	s, err := t.read(path + "/generation_id")
	if err != nil {
		return ""
	}
	return s
}

// walker builds an inventory from one walk over the tree.
type walker struct {
	t       *tree
	opts    DiscoverOptions
	ids     productIDs
	idsNote string

	topo topology
	pci  *pciTree
	inv  *Inventory
	// functions are the PCI functions of addresses whose function is not 0.
	functions map[address]BDF
}

func (w *walker) walk(path string) (*Inventory, error) {
	w.inv, w.functions = &Inventory{}, map[address]BDF{}
	if w.idsNote != "" {
		w.inv.Notes = append(w.inv.Notes, w.idsNote)
	}
	var err error
	if w.topo, err = readTopology(w.t, path); err != nil {
		return nil, err
	}
	if w.pci, err = readPCI(w.t); err != nil {
		return nil, err
	}
	if path == "" && w.pci.listed == nil && w.pci.cards == nil {
		w.note(w.t.root.Name(), "neither class/kfd nor bus/pci nor class/drm below it: is it a sysfs mount?")
	}
	drafts := w.group()
	drafts = slices.DeleteFunc(drafts, func(d *draft) bool { return !w.readDraft(d) })
	w.assignMinors(drafts)
	w.finish(drafts)
	w.report(drafts)
	w.readLinks()
	return w.inv, nil
}

func (w *walker) skip(device string, reason error) {
	w.inv.Skipped = append(w.inv.Skipped, Skipped{Device: device, Reason: reason})
}

func (w *walker) note(device, format string, args ...any) {
	w.inv.Notes = append(w.inv.Notes, device+": "+fmt.Sprintf(format, args...))
}

// draft is a GPU while it is put together.
type draft struct {
	bdf   BDF
	fn    function
	nodes []*kfdNode
	// index is the partition index that location_id gives to each node.
	index map[*kfdNode]int
}

// group sorts the nodes into GPUs by PCI function. unique_id says nothing:
// partitions share one value or have one each, by kernel version.
func (w *walker) group() []*draft {
	byBDF := map[BDF]*draft{}
	for i := range w.topo.nodes {
		n := &w.topo.nodes[i]
		bdf := w.functionOf(n.addr, n.device)
		d := byBDF[bdf]
		if d == nil {
			d = &draft{bdf: bdf, index: map[*kfdNode]int{}}
			byBDF[bdf] = d
		}
		d.nodes = append(d.nodes, n)
		d.index[n] = int(n.high)
		if n.high == 0 && bdf != formatBDF(n.addr) {
			d.index[n] = int(n.addr.function)
		}
	}
	return slices.SortedFunc(maps.Values(byBDF), func(a, b *draft) int { return compareBDF(a.bdf, b.bdf) })
}

// functionOf is the PCI function of a node. On a GPU that is split, the
// function bits of location_id hold the partition and the GPU is function 0;
// but a virtual function's address is its own, so an address that is there
// literally comes first.
func (w *walker) functionOf(a address, device uint16) BDF {
	bdf := formatBDF(a)
	if a.function == 0 {
		return bdf
	}
	known, ok := w.functions[a]
	if !ok {
		known = bdf
		if !w.pci.isGPU(bdf, device) {
			a := a
			a.function = 0
			known = formatBDF(a)
		}
		w.functions[a] = known
	}
	return known
}

// readDraft reads the PCI function of a GPU; false is a GPU left out.
func (w *walker) readDraft(d *draft) bool {
	for _, n := range d.nodes[1:] {
		if n.device != d.nodes[0].device {
			w.skip(string(d.bdf), fmt.Errorf("nodes %d and %d are devices 0x%04x and 0x%04x: %w",
				d.nodes[0].ID, n.ID, d.nodes[0].device, n.device, ErrConflict))
			return false
		}
	}
	f, err := w.pci.folder(d.bdf)
	if err != nil {
		w.skip(string(d.bdf), err)
		return false
	}
	if f == nil {
		return true
	}
	defer f.close()
	if d.fn, err = readFunction(w.pci, f, d.bdf, d.nodes[0].device); err != nil {
		w.skip(string(d.bdf), err)
		return false
	}
	return true
}

// report completes the list of skipped devices with the sick nodes, and with
// the functions that amdgpu drives and KFD does not show. A node that could
// not be read has no address: where it must be the one function that is
// missing, it gets that, and what a device cgroup hides is told by function,
// since 63 partitions are of no interest to anybody.
func (w *walker) report(drafts []*draft) {
	known := map[BDF]bool{}
	for _, s := range w.inv.Skipped {
		known[BDF(s.Device)] = true
	}
	for _, d := range drafts {
		known[d.bdf] = true
	}
	var hidden, broken []sickNode
	for _, s := range w.topo.sick {
		switch {
		case s.placed:
			bdf := w.functionOf(s.addr, s.device)
			known[bdf] = true
			w.skip(nodeName(s.id), fmt.Errorf("%s: %w", bdf, s.reason))
		case errors.Is(s.reason, ErrNotVisible):
			hidden = append(hidden, s)
		default:
			broken = append(broken, s)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(w.pci.bound), func(bdf BDF) bool { return known[bdf] })
	if len(missing) == 1 && len(broken) == 1 && len(hidden) == 0 {
		w.skip(nodeName(broken[0].id), fmt.Errorf("%s: %w", missing[0], broken[0].reason))
		return
	}
	if len(missing) == 0 {
		broken = append(broken, hidden...)
	}
	for _, s := range broken {
		w.skip(nodeName(s.id), s.reason)
	}
	reason := ErrNoKFDNode
	switch {
	case len(hidden) > 0:
		reason = fmt.Errorf("%w that can be read: %w", ErrNoKFDNode, ErrNotVisible)
	case len(broken) > 0:
		reason = fmt.Errorf("%w that can be read", ErrNoKFDNode)
	}
	for _, bdf := range missing {
		if card := w.pci.minors(bdf).card; card != nil {
			w.skip(string(bdf), fmt.Errorf("card%d: %w", *card, reason))
			continue
		}
		w.skip(string(bdf), reason)
	}
}

// readLinks fills in the links of one node per GPU, or of all.
func (w *walker) readLinks() {
	if w.topo.path == "" {
		return
	}
	nodes, err := w.t.folder(w.topo.path)
	if err != nil {
		return
	}
	defer nodes.close()
	for i := range w.inv.GPUs {
		for j := range w.inv.GPUs[i].Nodes {
			n := &w.inv.GPUs[i].Nodes[j]
			if j > 0 && !w.opts.AllLinks {
				break
			}
			dir, err := nodes.sub(strconv.Itoa(n.ID))
			if err != nil {
				continue
			}
			var notes []string
			n.Links, notes = readLinks(dir, w.topo.all)
			dir.close()
			for _, note := range notes {
				w.note(nodeName(n.ID), "%s", note)
			}
		}
	}
}

func sortBDFs(s []BDF) { slices.SortFunc(s, compareBDF) }
