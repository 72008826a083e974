package draw

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// TextOptions says how Text draws. The zero value fits a terminal of 80 columns
// without colours.
type TextOptions struct {
	Width int  // columns; 0 means 80, and below 24 nothing gets narrower
	Color bool // colours of a terminal (ANSI, 256 colours), besides the letters
	Merge bool // neighbouring XCCs or shader engines that look the same on one line
}

const (
	defaultWidth = 80
	minWidth     = 24
)

// Text writes the GPU as lines of at most Width columns, each ended by a
// newline. The geometry must be valid. Errors are those of the geometry and of
// w.
func Text(w io.Writer, gpu GPU, opt TextOptions) error {
	if err := gpu.Geometry.Validate(); err != nil {
		return fmt.Errorf("drawing %q: %w", plain(gpu.Name), err)
	}
	t := text{GPU: gpu, w: bufio.NewWriter(w), width: opt.Width, color: opt.Color, merge: opt.Merge}
	if t.width == 0 {
		t.width = defaultWidth
	}
	t.width = max(t.width, minWidth)
	t.line(plain(gpu.Name))
	t.wrapped(gpu.summary(), ", ")
	t.cus()
	t.legend()
	return t.w.Flush()
}

type text struct {
	GPU
	w     *bufio.Writer
	width int
	color bool
	merge bool
}

// line writes one line without blanks at its end, cut to the width.
func (t *text) line(s string) {
	s = strings.TrimRight(s, " ")
	if s != "" {
		fmt.Fprintln(t.w, cutTo(s, t.width))
	}
}

// wrapped writes s on as many lines as it needs, broken after separators.
func (t *text) wrapped(s, sep string) {
	out := ""
	for _, part := range strings.SplitAfter(s, sep) {
		if out != "" && utf8.RuneCountInString(out+strings.TrimSpace(part)) > t.width {
			t.line(out)
			out = ""
		}
		out += part
	}
	t.line(out)
}

// cus writes the CUs, on lines as wide as there is room.
func (t *text) cus() {
	rows, owners := t.rows(), t.owners()
	if t.merge {
		rows = merged(rows, owners)
	}
	label := 0
	for _, r := range rows {
		label = max(label, len(r.name()))
	}
	note := 11 // "  1024 free"
	if slices.ContainsFunc(rows, func(r row) bool { return r.last != "" }) {
		note += len(" each")
	}
	indent := label + 2
	lines := wrap(rows, t.width-indent)
	wide := 0
	for _, l := range lines {
		wide = max(wide, len(l.cells))
	}
	notes := oneLineEach(lines) && t.Geometry.XCCs > 1 && indent+wide+note <= t.width
	if oneLineEach(lines) {
		t.line(strings.Repeat(" ", indent) + groupLabels(rows))
	}
	for _, l := range lines {
		name, free := "", 0
		if l.first {
			name = rows[l.row].name()
		}
		fmt.Fprintf(t.w, "%-*s", indent, name)
		cells := make([]int, len(l.cells))
		for i, cu := range l.cells {
			cells[i] = cellGap
			if cu != cellGap {
				cells[i] = owners[cu]
			}
			if cells[i] == cellFree {
				free++
			}
		}
		t.cells(cells)
		if notes {
			fmt.Fprintf(t.w, "%*s%4d free", wide-len(l.cells)+2, "", free)
			if rows[l.row].last != "" {
				fmt.Fprint(t.w, " each")
			}
		}
		fmt.Fprintln(t.w)
	}
}

// groupLabels is the labels of the groups above their widest.
func groupLabels(rows []row) string {
	var b strings.Builder
	for k, g := range rows[0].groups {
		wide := len(g.label)
		for _, r := range rows {
			wide = max(wide, len(r.groups[k].cus))
		}
		fmt.Fprintf(&b, "%-*s", wide+1, g.label)
	}
	return b.String()
}

func (t *text) cells(owners []int) {
	for i := 0; i < len(owners); {
		end := i + 1
		for end < len(owners) && owners[end] == owners[i] {
			end++
		}
		run := strings.Repeat(string(letter(owners[i])), end-i)
		t.paint(owners[i], run)
		i = end
	}
}

// paint writes s in the colours of what the owner holds.
func (t *text) paint(owner int, s string) {
	c := clashColour
	switch {
	case !t.color || owner == cellGap:
		fmt.Fprint(t.w, s)
		return
	case owner == cellFree:
		fmt.Fprintf(t.w, "\x1b[2m%s\x1b[0m", s)
		return
	case owner >= 0:
		c = colourOf(owner)
	}
	letters := 16
	if c.Dark {
		letters = 231
	}
	fmt.Fprintf(t.w, "\x1b[48;5;%d;38;5;%dm%s\x1b[0m", c.Terminal, letters, s)
}

// legend writes a line for each holder, or two where there is no room.
func (t *text) legend() {
	entries := t.GPU.legend()
	name, counts := 0, 0
	for _, e := range entries {
		name = max(name, utf8.RuneCountInString(e.name))
		counts = max(counts, len(t.count(e, 4)))
	}
	const mark = 4 // " a  "
	const list = 12
	oneLine := mark+min(name, 32)+2+counts+2+list <= t.width
	name = min(name, max(t.width-mark-2-counts-2-list, 8))
	for _, e := range entries {
		fmt.Fprint(t.w, " ")
		t.paint(e.owner, string(letter(e.owner)))
		list := e.cus.String()
		if e.problem != "" {
			list = e.problem + "  " + list
		}
		if oneLine {
			fmt.Fprintf(t.w, "  %-*s  %-*s", name, cutTo(e.name, name), counts, t.count(e, 4))
			t.line("  " + cutTo(list, t.width-mark-name-2-counts-2))
			continue
		}
		t.line("  " + cutTo(e.name, t.width-mark))
		t.line("    " + strings.Join(strings.Fields(t.count(e, 4)), " "))
		if list != "" {
			t.line("    " + cutTo(list, t.width-mark))
		}
	}
}

// cutTo shortens s to so many columns.
func cutTo(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	if width < 4 {
		return string(runes[:max(width, 0)])
	}
	return string(runes[:width-3]) + "..."
}
