package draw

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/Project-HAMi/hami-amd/internal/palette"
)

// textCard writes one GPU: the map, the VRAM bar as wide, and the legend.
type textCard struct {
	*text
	*card
	lines []mapLine
	label int // columns of the labels on the left
	wide  int // columns of the map
}

// cardIndent is before every line of a GPU but its heading.
const cardIndent = "    "

func newTextCard(t *text, c *card) *textCard {
	tc := &textCard{text: t, card: c, lines: c.mapLines(), label: len("VRAM")}
	for _, l := range tc.lines {
		tc.label = max(tc.label, len(l.label))
	}
	for _, l := range tc.lines {
		tc.wide = max(tc.wide, len(l.owners))
	}
	if tc.wide == 0 {
		tc.wide = plainRow
	}
	tc.wide = min(tc.wide, t.width-len(cardIndent)-tc.label-2)
	return tc
}

// A mapLine is a row of the map, or neighbouring ones that look the same.
type mapLine struct {
	label  string
	owners []int
}

func (c *card) mapLines() []mapLine {
	var lines []mapLine
	rows := c.rows()
	first := 0 // the first row in the last line
	for i, r := range rows {
		owners := make([]int, len(r.cus))
		for k, cu := range r.cus {
			owners[k] = c.parts[r.part].owners[cu]
		}
		if n := len(lines); n > 0 && slices.Equal(lines[n-1].owners, owners) {
			lines[n-1].label = c.label(rows, first, i)
			continue
		}
		first = i
		lines = append(lines, mapLine{r.label, owners})
	}
	return lines
}

// label is that of a line for the rows from to to: whole partitions by their
// names alone.
func (c *card) label(rows []row, from, to int) string {
	begins := from == 0 || rows[from-1].part != rows[from].part
	ends := to == len(rows)-1 || rows[to+1].part != rows[to].part
	first, last := c.parts[rows[from].part].label, c.parts[rows[to].part].label
	switch whole := begins && ends && first != ""; {
	case whole && first == last:
		return first
	case whole:
		return first + "-" + last
	case rows[from].part != rows[to].part:
		return rows[from].label + "-" + rows[to].label
	}
	return rows[from].label + "-" + rows[to].last
}

func (t *textCard) write() {
	for _, l := range t.lines {
		t.row(l.label, l.owners, fmt.Sprintf("  %4d free", free(l.owners)))
	}
	for _, p := range t.parts {
		if p.fault != "" {
			t.words(cardIndent, strings.TrimSpace(p.label+" no map: "+p.fault))
		}
	}
	t.memory()
	for _, list := range t.clashes() {
		t.entry(ownerClash, "claimed more than once: "+list)
	}
	t.legend()
}

func free(owners []int) (n int) {
	for _, owner := range owners {
		if owner == ownerFree {
			n++
		}
	}
	return n
}

// row writes cells with a label before and, where there is room, a note behind
// them; a row wider than the terminal is broken.
func (t *textCard) row(label string, owners []int, note string) {
	whole := len(owners) <= t.wide
	for len(owners) > 0 {
		n := min(len(owners), t.wide)
		fmt.Fprint(t.w, cardIndent+pad(label, t.label)+"  ")
		t.owners(owners[:n])
		if whole && len(cardIndent)+t.label+2+t.wide+len(note) <= t.width {
			fmt.Fprint(t.w, strings.Repeat(" ", t.wide-n)+note)
		}
		fmt.Fprintln(t.w)
		owners, label = owners[n:], ""
	}
}

// memory writes the VRAM bar. A tenant has a cell for each that is more than
// half its own.
func (t *textCard) memory() {
	bar := slices.Repeat([]int{ownerFree}, t.wide)
	stretches, _ := t.card.memory()
	cell := func(at float64) int { return min(int(at*float64(len(bar))+0.5), len(bar)) }
	for _, s := range stretches {
		for at := cell(s.from); at < cell(s.to); at++ {
			bar[at] = s.owner
		}
	}
	note := fmt.Sprintf("  %d of %d MiB free", max(0, t.sum.mib-t.sum.usedMiB), t.sum.mib)
	if t.sum.usedMiB > t.sum.mib {
		note = fmt.Sprintf("  %d MiB granted of %d", t.sum.usedMiB, t.sum.mib)
	}
	t.row("VRAM", bar, note)
}

// owners writes cells, those of one owner in one colour.
func (t *textCard) owners(owners []int) {
	for at := 0; at < len(owners); {
		end := at + 1
		for end < len(owners) && owners[end] == owners[at] {
			end++
		}
		t.paint(owners[at], strings.Repeat(letter(owners[at]), end-at))
		at = end
	}
}

// paint writes s in the colours of what the owner holds.
func (t *textCard) paint(owner int, s string) {
	c := clashColour
	switch {
	case !t.color:
		fmt.Fprint(t.w, s)
		return
	case owner == ownerFree:
		fmt.Fprint(t.w, t.styled(dim, s))
		return
	case owner >= 0:
		c = palette.Of(t.holdings[owner].colour)
	}
	ink := 16 // black
	if c.Dark {
		ink = 231 // white
	}
	fmt.Fprintf(t.w, "\x1b[48;5;%d;38;5;%dm%s\x1b[0m", c.Terminal, ink, s)
}

// A textEntry is a line of the legend.
type textEntry struct {
	owner              int
	name, part         string
	cus, effective     int
	mib                int64
	mask               string
	countless, several bool // without CUs; with several XCCs
	masked             bool // the effective CUs are known
}

func (t *textCard) entries() []textEntry {
	var entries []textEntry
	for i, h := range t.holdings {
		entries = append(entries, textEntry{
			owner: i, name: h.podName() + " " + h.role(), part: h.part.label,
			cus: int(h.CUs), effective: h.Effective, mib: int64(h.MemoryMiB), mask: h.mask(),
			countless: h.CUs == 0 && !h.Whole, several: h.part.Geometry.XCCs > 1, masked: !h.cus().Empty(),
		})
	}
	spare := textEntry{owner: ownerFree, name: "free", masked: true, several: t.parts[0].Geometry.XCCs > 1, mib: max(0, t.sum.mib-t.sum.usedMiB)}
	for _, p := range t.parts {
		cus, effective := p.freeCUs()
		spare.cus += cus
		spare.effective += effective
	}
	return append(entries, spare)
}

// Columns of the legend's numbers: "  304 CUs", "  304 effective", "  196592 MiB".
const (
	cusWidth       = 10
	effectiveWidth = 16
	mibWidth       = 13
	maskWidth      = 14 // at least
)

// legend writes a line for each tenant and one for what is free, or two where
// there is no room.
func (t *textCard) legend() {
	entries := t.entries()
	name, part, several := 0, 0, false
	for _, e := range entries {
		name = max(name, utf8.RuneCountInString(e.name))
		part = max(part, len(e.part))
		several = several || e.several
	}
	if part > 0 {
		part += 2
	}
	numbers := part + cusWidth + mibWidth
	if several {
		numbers += effectiveWidth
	}
	const mark = len(cardIndent) + 3 // "a  "
	room := t.width - mark - numbers
	const shortest = 24
	if room < min(name, shortest) {
		for _, e := range entries {
			t.entry(e.owner, e.name)
			t.line(normal, cardIndent+"   "+strings.Join(strings.Fields(e.numbers(part, several)+" "+e.mask), " "))
		}
		return
	}
	if room-maskWidth >= min(name, shortest) {
		room -= maskWidth
	}
	name = min(name, room)
	for _, e := range entries {
		line := pad(e.name, name) + e.numbers(part, several)
		if left := t.width - mark - utf8.RuneCountInString(line) - 2; left >= maskWidth-2 && e.mask != "" {
			line += "  " + cut(e.mask, left)
		}
		t.entry(e.owner, line)
	}
}

// numbers are the columns of an entry behind its name.
func (e textEntry) numbers(part int, several bool) string {
	s := ""
	if part > 0 {
		s = pad("  "+e.part, part)
	}
	cus, effective := "", ""
	if !e.countless {
		cus = fmt.Sprintf("%d CUs", e.cus)
		if e.several && e.masked {
			effective = fmt.Sprintf("%d effective", e.effective)
		}
	}
	s += padLeft(cus, cusWidth)
	if several {
		s += padLeft(effective, effectiveWidth)
	}
	return s + padLeft(fmt.Sprintf("%d MiB", e.mib), mibWidth)
}

// entry writes a line of the legend behind the letter of its owner.
func (t *textCard) entry(owner int, s string) {
	fmt.Fprint(t.w, cardIndent)
	t.paint(owner, letter(owner))
	fmt.Fprintln(t.w, "  "+strings.TrimRight(cut(t.safe(s), t.width-len(cardIndent)-3), " "))
}
