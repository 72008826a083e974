package partition

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Scanner looks at the same sysfs again and again, for a health pulse of a
// few seconds. It reads KFD's generation number, which GPUs and DRM devices
// there are, and each GPU's partition modes, some 20 small files, and
// discovers anew only when one of them moved. It is not safe for concurrent
// use.
type Scanner struct {
	root    string
	inv     *Inventory
	print   fingerprint
	partial int // looks since discovery left a device out
}

// NewScanner makes a Scanner of the sysfs at root. It reads nothing yet.
func NewScanner(root string) *Scanner { return &Scanner{root: root} }

// Scan is the result of one look.
type Scan struct {
	// Inventory is what there is. Its GPUs and nodes are shared with earlier
	// results as long as nothing changed; do not modify them.
	Inventory *Inventory
	// Changed is true for the first look and whenever discovery ran again. The
	// inventory may still be the same: compare registrations with Diff.
	Changed bool
	// InReset are the GPUs whose partition mode the kernel does not tell
	// because they are in reset, with the reason, in the shape of
	// RegisterOptions.Unhealthy. They keep the mode they had.
	InReset map[BDF]string
}

// retryPartial is after how many looks discovery runs again without a change
// because it left a device out: what was unreadable for a moment comes back.
const retryPartial = 6

// Scan looks once. On an error, which comes from the root or from Discover,
// the scanner keeps what it knew and tries again at the next call.
func (s *Scanner) Scan() (Scan, error) {
	t, err := openTree(s.root)
	if err != nil {
		return Scan{}, err
	}
	defer t.close()

	print := takeFingerprint(t, s.inv)
	if s.inv != nil && len(s.inv.Skipped) > 0 {
		s.partial++ // a skipped device may come back without any of this moving
	}
	if s.inv != nil && s.partial < retryPartial && print.equal(s.print) {
		return Scan{Inventory: s.inv, InReset: print.inReset()}, nil
	}
	inv, err := Discover(s.root)
	if err != nil {
		return Scan{}, err
	}
	// Taken again over the new GPUs. What changed while Discover ran shows in
	// the parts taken before it, and the next look discovers once more.
	after := takeFingerprint(t, inv)
	after.common = print.common
	keepModes(inv, s.inv, after)
	s.inv, s.print, s.partial = inv, after, 0
	return Scan{Inventory: inv, Changed: true, InReset: after.inReset()}, nil
}

// fingerprint is what moves when the node's GPUs do. Two equal ones mean that
// discovery would find the same, but for sensor-like values.
type fingerprint struct {
	common string
	gpus   []gpuPrint // in the order of the inventory
}

// gpuPrint holds the partition modes of one GPU as read.
type gpuPrint struct {
	bdf             BDF
	compute, memory string
	reset           bool // reading gave EPERM
}

// takeFingerprint reads the files. What cannot be read goes in as its error:
// a file that vanishes is a change.
func takeFingerprint(t *tree, inv *Inventory) fingerprint {
	print := fingerprint{common: commonPrint(t)}
	if inv == nil {
		return print
	}
	for i := range inv.GPUs {
		print.gpus = append(print.gpus, printGPU(t, inv.GPUs[i].BDF))
	}
	return print
}

func printGPU(t *tree, bdf BDF) gpuPrint {
	g := gpuPrint{bdf: bdf}
	f, err := t.folder("bus/pci/devices/" + string(bdf))
	if err != nil {
		g.compute = orError("", err)
		return g
	}
	defer f.close()
	g.compute, err = f.text("current_compute_partition")
	g.reset = errors.Is(err, syscall.EPERM)
	g.compute = orError(g.compute, err)
	g.memory, err = f.text("current_memory_partition")
	g.memory = orError(g.memory, err)
	return g
}

// commonPrint is the part of a fingerprint that does not need to know the GPUs:
// KFD's generation number, and which nodes, GPUs and DRM devices there are.
func commonPrint(t *tree) string {
	var b strings.Builder
	add := func(text string, err error) {
		b.WriteString(orError(text, err))
		b.WriteByte(0)
	}
	list := func(folder string) {
		names, err := t.names(folder)
		slices.Sort(names)
		add(strings.Join(names, " "), err)
	}
	path, err := topologyPath(t)
	add(path, err)
	if path != "" {
		printTopology(t, path, add)
	}
	list("bus/pci/drivers/amdgpu")
	list("class/drm")
	return b.String()
}

func printTopology(t *tree, path string, add func(string, error)) {
	f, err := t.folder(path)
	if err != nil {
		add("", err)
		return
	}
	defer f.close()
	generation, err := f.text("generation_id")
	add(generation, err)
	nodes, openErr := f.sub("nodes")
	if openErr != nil {
		add("", openErr)
		return
	}
	defer nodes.close()
	names, listErr := nodes.names()
	slices.Sort(names)
	add(strings.Join(names, " "), listErr)
	if err == nil {
		return
	}
	// Without a generation number only the nodes tell. Discovery refuses a
	// topology with more of them.
	ids := numbered(names)
	for _, id := range ids[:min(len(ids), maxNodes)] {
		text, err := nodes.readIn(strconv.Itoa(id), "properties", maxProps)
		add(string(text), err)
	}
}

// equal compares two fingerprints. A GPU in reset tells nothing about its
// modes, so it counts as unchanged until the reset is over.
func (p fingerprint) equal(q fingerprint) bool {
	return p.common == q.common && slices.EqualFunc(p.gpus, q.gpus, func(a, b gpuPrint) bool {
		return a == b || (a.bdf == b.bdf && a.reset)
	})
}

func (p fingerprint) inReset() map[BDF]string {
	var out map[BDF]string
	for _, g := range p.gpus {
		if g.reset {
			if out == nil {
				out = make(map[BDF]string)
			}
			out[g.bdf] = "the GPU is in reset"
		}
	}
	return out
}

// keepModes gives GPUs in reset the modes they had when they were last seen
// with as many KFD nodes: a reset changes no mode, it only hides it.
func keepModes(inv, old *Inventory, print fingerprint) {
	if old == nil {
		return
	}
	for i, p := range print.gpus {
		g := &inv.GPUs[i]
		if !p.reset || g.Compute != "" {
			continue
		}
		if was, err := old.find(g.BDF); err == nil && len(was.Nodes) == len(g.Nodes) {
			g.Compute, g.RawCompute, g.ComputeModes = was.Compute, was.RawCompute, was.ComputeModes
			g.Memory, g.MemoryModes, g.Profiles = was.Memory, was.MemoryModes, was.Profiles
		}
	}
}

// orError stands an error in for a text that could not be read. The path is
// left out: it is where the text would have been.
func orError(text string, err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return text
	case errors.As(err, &errno):
		return "error: " + errno.Error()
	}
	return "error: " + err.Error()
}
