package draw

import (
	"fmt"
	"slices"
	"strings"
)

type htmlNode struct {
	ID, Name  string
	Open      bool
	Chips     []string
	Lock      string
	Meters    []htmlMeter
	Badges    []htmlBadge
	Strip     htmlStrip
	Problems  []htmlProblem
	Lost      []string
	Cards     []htmlCard
	Query     string
	Troubled  bool // the node itself has a problem
	NoDevices bool
}

func newHTMLNode(n *nodeView, id string, open bool, shapes *shapeSet, ids map[any]string) htmlNode {
	h := htmlNode{
		ID: id, Name: plain(n.Name), Open: open, Chips: slices.Clone(n.products), Meters: n.sum.meters(), Badges: n.sum.badges(),
		Strip: n.strip(), Troubled: len(n.problems) > 0, NoDevices: len(n.GPUs) == 0,
	}
	if h.NoDevices {
		h.Meters = nil
	}
	ids[n] = id
	if n.Mode != "" {
		h.Chips = append(h.Chips, plain(n.Mode)+" mode")
	}
	if n.Lock != nil {
		h.Lock = lockWords(n.Node)
	}
	lines := []string{"node:" + h.Name}
	for _, p := range n.problems {
		h.Problems = append(h.Problems, newHTMLProblem(p, ids))
		lines = append(lines, "code:"+plain(string(p.Code)))
	}
	for _, t := range n.lost {
		h.Lost = append(h.Lost, lostWords(t))
		lines = append(lines, "ns:"+plain(t.Namespace), "pod:"+plain(t.Pod))
	}
	h.Query = query(lines...)
	for i, c := range n.cards {
		cardID := fmt.Sprintf("%sg%d", id, i)
		ids[c] = cardID
		h.Cards = append(h.Cards, newHTMLCard(c, cardID, shapes))
	}
	return h
}

// htmlStrip is a node at a glance: two small bars for each GPU, granted CUs and
// granted VRAM, and a mark below those with a problem.
type htmlStrip struct {
	Width                   int
	Tracks, CUs, VRAM, Mark string // paths
	Words                   string
}

// Sizes of the strip, in pixels.
const (
	stripBar    = 6
	stripPitch  = 2*stripBar + 5
	stripHeight = 18
)

func (n *nodeView) strip() htmlStrip {
	var tracks, cus, vram, mark strings.Builder
	bar := func(b *strings.Builder, x, height int) {
		if height > 0 {
			fmt.Fprintf(b, "M%d %dh%dv%dh-%dz", x, stripHeight, stripBar, -height, stripBar)
		}
	}
	height := func(part, whole int64) int {
		if part > 0 && whole > 0 { // something is never nothing
			return int(max(1, min(part*stripHeight/whole, stripHeight)))
		}
		return 0
	}
	var words []string
	for i, c := range n.cards {
		x := i * stripPitch
		bar(&tracks, x, stripHeight)
		bar(&tracks, x+stripBar+1, stripHeight)
		bar(&cus, x, height(int64(c.sum.usedCUs), int64(c.sum.cus)))
		bar(&vram, x+stripBar+1, height(c.sum.usedMiB, c.sum.mib))
		word := fmt.Sprintf("%s: %d %% of CUs, %d %% of VRAM", c.name(),
			percent(int64(c.sum.usedCUs), int64(c.sum.cus)), percent(c.sum.usedMiB, c.sum.mib))
		if len(c.problems) > 0 {
			fmt.Fprintf(&mark, "M%d %dh%dv3h-%dz", x, stripHeight+2, 2*stripBar+1, 2*stripBar+1)
			word += ", " + c.sum.tally()
		}
		words = append(words, word)
	}
	return htmlStrip{
		Width: max(len(n.cards)*stripPitch-4, 1), Tracks: tracks.String(), CUs: cus.String(), VRAM: vram.String(),
		Mark: mark.String(), Words: "granted: " + strings.Join(words, "; "),
	}
}

// htmlCard is a GPU.
type htmlCard struct {
	ID, Name, Product string
	Chips             []string
	States            []string
	Badges            []htmlBadge
	Sum               string
	Details           string // of the GPU, see details
	Map               *cardMap
	Faults            []string
	HasParts, HasXCCs bool
	Rows              []htmlRow
	Free              htmlRow
	Clashes           string
	Problems          []htmlProblem
	Query             string
}

// htmlRow is a tenant in a card's table.
type htmlRow struct {
	Letter, Colour string
	Pod            int // a number that is the same for all rows of one pod
	Name, Sub      string
	CUs, Effective string
	MiB            string
	Details        string
	Bad            bool
}

func newHTMLCard(c *card, id string, shapes *shapeSet) htmlCard {
	h := htmlCard{
		ID: id, Name: c.name(), Product: c.product(), States: c.state(), Badges: c.sum.badges(),
		Map: newCardMap(c, shapes), HasParts: c.partitioned(), Clashes: strings.Join(c.clashes(), "; "),
		Details: c.details(),
		Sum:     fmt.Sprintf("%d of %d CUs and %s granted", c.sum.usedCUs, c.sum.cus, gibOf(c.sum.usedMiB, c.sum.mib)),
	}
	if profile := c.profile(); profile != "" {
		h.Chips = append(h.Chips, profile)
	}
	h.Chips = append(h.Chips, c.shares())
	for _, p := range c.parts {
		h.HasXCCs = h.HasXCCs || p.Geometry.XCCs > 1
		if p.fault != "" {
			h.Faults = append(h.Faults, strings.TrimSpace(p.label+" no map: "+plain(p.fault)))
		}
	}
	for i, hold := range c.holdings {
		h.Rows = append(h.Rows, newHTMLRow(c, i, hold))
	}
	h.Free = c.freeRow()
	for _, p := range c.problems {
		h.Problems = append(h.Problems, newHTMLProblem(p, nil))
	}
	h.Query = c.query()
	return h
}

func newHTMLRow(c *card, i int, h *holding) htmlRow {
	r := htmlRow{
		Letter: letter(i), Colour: fmt.Sprint(h.colour), Name: h.podName(), MiB: decimal(int64(h.MemoryMiB)),
		Bad: len(h.problems) > 0, Pod: h.number,
	}
	sub := []string{h.role()}
	if h.part.label != "" {
		sub = append(sub, h.part.label)
	}
	if h.Mask.Empty() && !h.Whole {
		sub = append(sub, h.mask())
	}
	r.Sub = strings.Join(sub, " · ")
	if h.CUs > 0 || h.Whole {
		r.CUs = decimal(int64(h.CUs))
	}
	if !h.cus().Empty() {
		r.Effective = decimal(int64(h.Effective))
	}
	r.Details = h.details(c)
	return r
}

func (c *card) freeRow() htmlRow {
	r := htmlRow{Name: "free"}
	cus, effective := 0, 0
	var parts []string
	for _, p := range c.parts {
		n, e := p.freeCUs()
		cus += n
		effective += e
		if p.label != "" && len(p.Tenants) == 0 {
			parts = append(parts, p.label)
		}
	}
	r.CUs, r.Effective = decimal(int64(cus)), decimal(int64(effective))
	r.MiB = decimal(max(0, c.sum.mib-c.sum.usedMiB))
	r.Sub = strings.Join(parts, " ")
	return r
}

// details are lines of a label, a tab and a value.
type details []string

func (d *details) add(label, format string, args ...any) {
	*d = append(*d, label+"\t"+fmt.Sprintf(format, args...))
}

func (d *details) problems(problems []*problem) {
	for _, p := range problems {
		d.add("! "+plain(string(p.Code)), "%s", prose(p.Detail))
		if p.Remedy != "" {
			d.add("Remedy", "%s", prose(p.Remedy))
		}
	}
}

// details of a GPU: what there is no room for on its card.
func (c *card) details() string {
	var d details
	first := c.parts[0].Device
	d.add("Product", "%s", plain(first.Type))
	d.add("Node", "%s", plain(c.node.Name))
	d.add("PCI address", "%s", plain(c.physical))
	if c.partitioned() {
		d.add("Partitions", "%d, granted whole", len(c.parts))
	} else {
		d.add("Device", "%s", plain(first.ID))
	}
	d.add("CUs", "%s granted of %s", decimal(int64(c.sum.usedCUs)), decimal(int64(c.sum.cus)))
	d.add("VRAM", "%s MiB granted of %s", decimal(c.sum.usedMiB), decimal(c.sum.mib))
	d.add("NUMA node", "%d", first.Numa)
	if n := len(first.CustomInfo.XGMIPeers); n > 0 {
		d.add("XGMI", "%s", plural(n, "peer"))
	}
	if states := c.state(); len(states) > 0 {
		d.add("State", "%s", strings.Join(states, ", "))
	}
	for _, p := range c.problems {
		if p.Container == "" {
			d.problems([]*problem{p})
		}
	}
	return strings.Join(d, "\n")
}

// details of a tenant.
func (h *holding) details(c *card) string {
	var d details
	device := h.part.Device
	d.add("Container", "%s", h.role())
	where := c.name()
	if h.part.label != "" {
		where += ", partition " + h.part.label
	}
	d.add("On", "%s of %s", where, plain(c.node.Name))
	switch {
	case h.Whole:
		d.add("CUs", "all %d, whole: no mask, no limit", device.Devcore)
	case h.CUs == 0:
		d.add("CUs", "none: memory only")
	case h.Mask.Empty():
		d.add("CUs", "%d of %d, %s", h.CUs, device.Devcore, h.mask())
	default:
		d.add("CUs", "%d of %d, %d effective", h.CUs, device.Devcore, h.Effective)
		d.add("Mask", "%s", h.Mask)
		if per := h.perXCC(); per != "" {
			d.add("On each XCC", "%s", per)
		}
	}
	d.add("VRAM", "%s MiB of %s (%d %%)", decimal(int64(h.MemoryMiB)), decimal(int64(device.Devmem)), percent(int64(h.MemoryMiB), int64(device.Devmem)))
	phase := plain(string(h.Phase))
	if h.Terminating {
		phase += ", terminating"
	}
	d.add("Pod", "%s", strings.TrimPrefix(phase, ", "))
	d.problems(h.problems)
	return strings.Join(d, "\n")
}

// query is what the filter finds a GPU by.
func (c *card) query() string {
	lines := []string{
		"node:" + plain(c.node.Name), "mode:" + plain(c.node.Mode), "gpu:" + c.name(), "type:" + plain(c.parts[0].Device.Type), "type:" + c.product(),
		"profile:" + c.profile(), "pci:" + plain(c.physical),
	}
	if c.sum.used == 0 {
		lines = append(lines, "idle")
	}
	for _, p := range c.parts {
		lines = append(lines, "id:"+plain(p.Device.ID))
	}
	for _, h := range c.holdings {
		lines = append(lines, "ns:"+plain(h.Namespace), "pod:"+plain(h.Pod), "container:"+plain(h.Container), h.podName())
	}
	for _, p := range c.problems {
		lines = append(lines, "code:"+plain(string(p.Code)), "severity:"+p.word())
	}
	slices.Sort(lines)
	return query(append(slices.Compact(lines), c.state()...)...)
}
