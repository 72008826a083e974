package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// TextOptions say how Text draws. The zero value fits a terminal of 80 columns
// without colours.
type TextOptions struct {
	Options
	// Width is the terminal's, in columns; 0 means 80, and below 40 nothing gets
	// narrower.
	Width int
	// Color uses a terminal's 256 colours besides the letters.
	Color bool
	// ASCII uses no other characters; in names "?" stands for them.
	ASCII bool
}

const (
	defaultWidth = 80
	minWidth     = 40
)

// Text writes the cluster as lines of at most Width columns: each node, below it
// its GPUs, and at the end all problems with their remedies. Rows of a map that
// look the same are one line. Errors are those of w.
func Text(w io.Writer, c *inspect.Cluster, o TextOptions) error {
	t := text{w: bufio.NewWriter(w), width: max(cmp.Or(o.Width, defaultWidth), minWidth), color: o.Color, ascii: o.ASCII}
	v := newView(c, o.Options)
	t.head(v)
	for _, n := range v.nodes {
		t.node(n)
	}
	t.problems(v.problems)
	return t.w.Flush()
}

type text struct {
	w            *bufio.Writer
	width        int
	color, ascii bool
}

// line writes one line, cut to the width, in a style of its own.
func (t *text) line(style string, s string) {
	s = strings.TrimRight(cut(t.safe(s), t.width), " ")
	fmt.Fprintln(t.w, t.styled(style, s))
}

// Styles, as ECMA-48 numbers them.
const (
	normal = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
)

func (t *text) styled(style, s string) string {
	if !t.color || style == normal || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

// safe is s in the characters there are.
func (t *text) safe(s string) string {
	if !t.ascii {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '×':
			return 'x'
		case r >= utf8.RuneSelf:
			return '?'
		}
		return r
	}, s)
}

// wrapped writes parts with two blanks between them, on as many lines as they
// need.
func (t *text) wrapped(style, indent string, parts ...string) {
	line := ""
	for _, part := range parts {
		if line != "" && utf8.RuneCountInString(indent+line+"  "+part) > t.width {
			t.line(style, indent+line)
			line = "  "
		}
		if strings.TrimSpace(line) != "" {
			line += "  "
		}
		line += part
	}
	t.line(style, indent+line)
}

func (t *text) head(v *view) {
	title := v.title
	if !v.time.IsZero() {
		title += "  " + v.time.UTC().Format(time.DateTime) + " UTC"
	}
	t.line(bold, title)
	parts := []string{plural(len(v.nodes), "node") + ", " + plural(v.sum.gpus, "GPU") + ", " + plural(v.sum.pods, "pod")}
	t.wrapped(normal, "", append(parts, v.sum.words()...)...)
	if v.sum.errors+v.sum.warnings > 0 {
		t.line(v.sum.style(), v.sum.tally())
	}
}

// words are what a sum comes to.
func (s sum) words() []string {
	return []string{
		fmt.Sprintf("CUs %s of %s (%d %%)", decimal(int64(s.usedCUs)), decimal(int64(s.cus)), percent(int64(s.usedCUs), int64(s.cus))),
		fmt.Sprintf("VRAM %s (%d %%)", gibOf(s.usedMiB, s.mib), percent(s.usedMiB, s.mib)),
	}
}

// tally is the number of errors and warnings.
func (s sum) tally() string {
	switch {
	case s.errors == 0:
		return plural(s.warnings, "warning")
	case s.warnings == 0:
		return plural(s.errors, "error")
	}
	return plural(s.errors, "error") + ", " + plural(s.warnings, "warning")
}

func (s sum) style() string {
	if s.errors > 0 {
		return red
	}
	return yellow
}

func (t *text) node(n *nodeView) {
	fmt.Fprintln(t.w)
	t.wrapped(bold, "", n.words()...)
	if n.Lock != nil {
		t.line(normal, "  "+lockWords(n.Node))
	}
	for _, p := range n.problems {
		t.mark("  ", p)
	}
	for _, c := range n.cards {
		t.card(c)
	}
	if len(n.lost) > 0 {
		fmt.Fprintln(t.w)
		for _, l := range n.lost {
			t.words("  ", lostWords(l))
		}
	}
}

// lockWords say who has the node lock.
func lockWords(n *inspect.Node) string {
	s := "locked since " + n.Lock.Time.UTC().Format(time.DateTime) + " UTC"
	if n.Lock.Name != "" {
		s += " for " + plain(n.Lock.Namespace) + "/" + plain(n.Lock.Name)
	}
	return s
}

// mark names a problem in few words; what it is stands at the end.
func (t *text) mark(indent string, p *problem) {
	style := yellow
	if p.bad() {
		style = red
	}
	where := ""
	if p.Pod != "" {
		where = "  " + plain(p.Namespace) + "/" + plain(p.Pod)
	}
	t.line(style, indent+"! "+plain(string(p.Code))+where)
}

func (t *text) card(c *card) {
	fmt.Fprintln(t.w)
	parts := []string{c.name(), c.product(), plain(c.physical), c.profile()}
	var known []string
	for _, p := range append(append(parts, c.shares()), c.state()...) {
		if p != "" {
			known = append(known, p)
		}
	}
	t.wrapped(bold, "  ", known...)
	newTextCard(t, c).write()
	for _, p := range c.problems {
		t.mark(cardIndent, p)
	}
}

// problems lists them all with their remedies.
func (t *text) problems(problems []*problem) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintln(t.w)
	t.line(bold, "Problems")
	for _, p := range problems {
		fmt.Fprintln(t.w)
		style := yellow
		if p.bad() {
			style = red
		}
		t.wrapped(style, "  ", p.word()+" "+plain(string(p.Code)), p.location())
		t.words("    ", prose(p.Detail))
		if p.Remedy != "" {
			t.words("    ", "Remedy: "+prose(p.Remedy))
		}
	}
}

// words writes a sentence on as many lines as it needs.
func (t *text) words(indent, sentence string) {
	for _, line := range wrap(sentence, t.width-len(indent)) {
		t.line(normal, indent+line)
	}
}

// cut shortens s to so many columns.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	if width < 4 {
		return string(runes[:max(width, 0)])
	}
	return string(runes[:width-3]) + "..."
}

// pad is s in so many columns, cut or filled with blanks.
func pad(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}
