package draw

import (
	"bufio"
	"cmp"
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/internal/palette"
)

// SVGOptions say how SVG draws. The zero value gives a picture 1148 pixels wide:
// three GPUs side by side.
type SVGOptions struct {
	Options
	// Width is in pixels; 0 means 1148, and below 388 nothing gets narrower.
	Width int
}

// Sizes in pixels. The letters of a monospaced font of 11 px are 6.6 wide.
const (
	svgMargin    = 12
	svgCard      = mapLabel + mapWidth + 2*svgMargin
	svgWidth     = 3*(svgCard+svgMargin) + svgMargin
	svgLine      = 16
	svgEntry     = 30
	svgCharacter = 6.7
	svgHead      = 40
)

//go:embed picture.css
var pictureStyle string

// SVG writes one picture of the cluster, an SVG document that needs nothing
// else: no fonts, scripts or style sheets. Its colours follow the reader's
// choice of light or dark. What a tenant has is one shape, which shows the
// details when pointed at; problems are listed at the foot. Errors are those of
// w.
func SVG(w io.Writer, c *inspect.Cluster, o SVGOptions) error {
	v := newView(c, o.Options)
	s := &svg{width: max(cmp.Or(o.Width, svgWidth), svgCard+2*svgMargin)}
	shapes := &shapeSet{prefix: "amdgpus-s", byKey: map[string]*mapShape{}}
	s.head(v)
	for _, n := range v.nodes {
		s.node(n, shapes)
	}
	s.problems(v.problems)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg class="amdgpus" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", s.width, s.y, s.width, s.y)
	fmt.Fprintf(out, "<title>%s</title>\n<style>%s</style>\n<defs>\n", escape(v.title), pictureStyle+svgPalette())
	for _, shape := range shapes.all {
		fmt.Fprintf(out, `<g id="%s"><path class="amdgpus-free" d="%s"/>`, shape.ID, shape.Free)
		for _, l := range shape.Labels {
			fmt.Fprintf(out, `<text class="amdgpus-label" y="%d">%s</text>`, l.Y, escape(l.Text))
		}
		fmt.Fprintf(out, "</g><path id=\"%sl\" class=\"amdgpus-lines\" d=\"%s\"/>\n", shape.ID, shape.Lines)
	}
	fmt.Fprintf(out, `<pattern id="amdgpus-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`+
		`<rect class="cx" width="5" height="5"/><rect class="hatch" width="1.5" height="5"/></pattern>`+"\n</defs>\n")
	fmt.Fprintf(out, `<rect class="page" width="%d" height="%d"/>`+"\n%s</svg>\n", s.width, s.y, s.b.String())
	return out.Flush()
}

// svgPalette are the classes of the colours, within these pictures.
func svgPalette() string {
	var b strings.Builder
	class := func(name string, c palette.Colour) {
		fmt.Fprintf(&b, ".amdgpus .c%s{fill:%s}.amdgpus .i%s{fill:%s}", name, c.Hex, name, inkOn(c))
	}
	for i := range palette.Size {
		class(fmt.Sprint(i), palette.Of(i))
	}
	class("x", clashColour)
	return b.String() + "\n"
}

// svg is the picture down to y.
type svg struct {
	b        strings.Builder
	width, y int
}

func (s *svg) printf(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

// text writes a line, cut to so many pixels.
func (s *svg) text(class string, x, y, room int, text string) {
	s.printf(`<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, escape(cut(text, int(float64(room)/svgCharacter))))
}

// paragraph writes a sentence on as many lines as it needs, from s.y on.
func (s *svg) paragraph(class string, x int, sentence string) {
	for _, line := range wrap(sentence, int(float64(s.width-x-svgMargin)/svgCharacter)) {
		s.text(class, x, s.y+11, s.width-x, line)
		s.y += svgLine
	}
}

func (s *svg) head(v *view) {
	s.y = svgMargin
	title := v.title
	if !v.time.IsZero() {
		title += " · " + v.time.UTC().Format(time.DateTime) + " UTC"
	}
	s.paragraph("name", svgMargin, title)
	s.y += 2
	parts := append([]string{plural(len(v.nodes), "node") + ", " + plural(v.sum.gpus, "GPU") + ", " + plural(v.sum.pods, "pod")}, v.sum.words()...)
	if v.sum.errors+v.sum.warnings > 0 {
		parts = append(parts, v.sum.tally())
	}
	s.paragraph("", svgMargin, strings.Join(parts, " · "))
}

func (s *svg) node(n *nodeView, shapes *shapeSet) {
	s.y += 10
	s.printf(`<path class="rule" d="M%d %dH%d"/>`+"\n", svgMargin, s.y, s.width-svgMargin)
	s.y += 8
	s.paragraph("name", svgMargin, strings.Join(n.words(), " · "))
	if n.Lock != nil {
		s.paragraph("dim", svgMargin, lockWords(n.Node))
	}
	for _, p := range n.problems {
		s.paragraph(p.word(), svgMargin, "! "+plain(string(p.Code))+" "+p.location())
	}
	for _, t := range n.lost {
		s.paragraph("dim", svgMargin, lostWords(t))
	}
	s.y += 4
	columns := max(1, (s.width-svgMargin)/(svgCard+svgMargin))
	for lo := 0; lo < len(n.cards); lo += columns {
		row := n.cards[lo:min(lo+columns, len(n.cards))]
		maps := make([]*cardMap, len(row))
		high := 0
		for i, c := range row {
			maps[i] = newCardMap(c, shapes)
			high = max(high, c.svgHeight(maps[i]))
		}
		for i, c := range row {
			s.card(c, maps[i], svgMargin+i*(svgCard+svgMargin), high)
		}
		s.y += high + svgMargin
	}
}

func (c *card) svgHeight(m *cardMap) int {
	return svgMargin + svgHead + m.Height + 8 + len(c.holdings)*svgEntry + svgLine + len(c.svgNotes())*svgLine + svgMargin/2
}

// svgNotes are the lines below the legend.
func (c *card) svgNotes() []svgNote {
	var notes []svgNote
	for _, p := range c.parts {
		if p.fault != "" {
			notes = append(notes, svgNote{"warning", strings.TrimSpace(p.label + " no map: " + plain(p.fault)), ""})
		}
	}
	for _, list := range c.clashes() {
		notes = append(notes, svgNote{"error", "claimed more than once: " + list, ""})
	}
	for _, p := range c.problems {
		notes = append(notes, svgNote{p.word(), "! " + plain(string(p.Code)), prose(p.Detail)})
	}
	return notes
}

type svgNote struct{ class, text, more string }

func (s *svg) card(c *card, m *cardMap, x, height int) {
	s.printf(`<g transform="translate(%d %d)">`+"\n", x, s.y)
	class := "card"
	if len(c.problems) > 0 {
		class += " trouble"
	}
	s.printf(`<rect class="%s" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", class, svgCard-1, height-1)
	const inner = svgCard - 2*svgMargin
	y := svgMargin + 10
	s.text("name", svgMargin, y, inner, strings.TrimSpace(c.name()+"  "+c.product()+"  "+c.profile()))
	y += svgLine
	s.text("dim", svgMargin, y, inner, strings.Join(append(c.state(), c.shares(), plain(c.physical)), "  "))
	y = svgMargin + svgHead - 4
	s.cardMap(c, m, y)
	y += m.Height + 8
	for i, h := range c.holdings {
		s.entry(fmt.Sprint(h.colour), letter(i), y, h.podName(), h.columns())
		y += svgEntry
	}
	spare := c.freeRow()
	s.printf(`<rect class="amdgpus-free" x="%d" y="%d" width="12" height="12" rx="2"/>`, svgMargin, y)
	s.text("dim", svgMargin+20, y+10, inner-20, fmt.Sprintf("free  %s CUs  %s MiB  %s", spare.CUs, spare.MiB, spare.Sub))
	y += svgLine
	for _, n := range c.svgNotes() {
		s.printf(`<g><title>%s</title>`, escape(cmp.Or(n.more, n.text)))
		s.text(n.class, svgMargin, y+10, inner, n.text)
		s.printf("</g>\n")
		y += svgLine
	}
	s.printf("</g>\n")
}

func (s *svg) cardMap(c *card, m *cardMap, y int) {
	s.printf(`<g transform="translate(%d %d)"><title>%s</title><use href="#%s"/>`+"\n", svgMargin, y, escape(m.Words), m.Shape.ID)
	for _, t := range m.Tenants {
		if t.Clash {
			s.printf(`<path class="clash" d="%s"><title>claimed more than once: %s</title></path>`+"\n", t.Path, escape(strings.Join(c.clashes(), "; ")))
			continue
		}
		h := c.holdings[t.Index]
		s.printf(`<path class="c%s" d="%s"><title>%s</title></path>`+"\n", t.Colour, t.Path, escape(h.podName()+"\n"+strings.ReplaceAll(h.details(c), "\t", ": ")))
	}
	s.printf(`<use href="#%sl"/>`, m.Shape.ID)
	for _, t := range m.Tenants {
		if t.Letter != "" {
			s.printf(`<text class="on i%s" x="%s" y="%s">%s</text>`, t.Colour, t.LetterX, t.LetterY, t.Letter)
		}
	}
	if m.Full != "" {
		s.printf(`<path class="end" d="%s"/>`, m.Full)
	}
	s.printf("</g>\n")
}

// entry writes two lines of the legend.
func (s *svg) entry(colour, letter string, y int, name, numbers string) {
	const left, inner = svgMargin + 20, svgCard - 2*svgMargin - 20
	s.printf(`<rect class="c%s" x="%d" y="%d" width="12" height="12" rx="2"/><text class="on i%s" x="%d" y="%d">%s</text>`+"\n",
		colour, svgMargin, y, colour, svgMargin+6, y+9, letter)
	s.text("", left, y+10, inner, name)
	s.text("dim", left, y+23, inner, numbers)
}

// columns are the numbers of a holding in a line of their own.
func (h *holding) columns() string {
	parts := []string{h.role()}
	if h.part.label != "" {
		parts = append(parts, h.part.label)
	}
	switch {
	case h.Whole:
		parts = append(parts, "whole")
	case h.CUs == 0:
		parts = append(parts, "memory only")
	default:
		parts = append(parts, plural(int(h.CUs), "CU"))
		if h.Mask.Empty() {
			parts = append(parts, h.mask())
		} else if h.part.Geometry.XCCs > 1 {
			parts = append(parts, fmt.Sprintf("%d effective", h.Effective))
		}
	}
	return strings.Join(append(parts, decimal(int64(h.MemoryMiB))+" MiB"), "  ")
}

func (s *svg) problems(problems []*problem) {
	if len(problems) > 0 {
		s.printf(`<path class="rule" d="M%d %dH%d"/>`+"\n", svgMargin, s.y, s.width-svgMargin)
		s.y += 8
	}
	for _, p := range problems {
		s.paragraph(p.word(), svgMargin, p.word()+" "+plain(string(p.Code))+" "+p.location())
		s.paragraph("", svgMargin+16, prose(p.Detail))
		if p.Remedy != "" {
			s.paragraph("dim", svgMargin+16, "Remedy: "+prose(p.Remedy))
		}
		s.y += 4
	}
	s.y += svgMargin
}

func escape(s string) string {
	var b strings.Builder
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
