package draw

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/Project-HAMi/hami-amd/internal/palette"
)

// SVGOptions says how SVG draws. The zero value gives a picture 1080 pixels wide:
// two MI300X side by side.
type SVGOptions struct {
	Width int    // pixels; 0 means 1080, and below 240 nothing gets narrower
	Title string // read by screen readers, shown nowhere; "" means "GPUs"
}

// SVG writes one picture of all the GPUs, side by side where there is room, as
// an SVG document that needs nothing else: no fonts, scripts or style sheets.
// Its colours follow the reader's choice of light or dark. Each holder's CUs
// are one path, which shows name and CUs when pointed at.
//
// The geometries must be valid. Errors are those of the geometries and of w.
func SVG(w io.Writer, gpus []GPU, opt SVGOptions) error {
	for _, gpu := range gpus {
		if err := gpu.Geometry.Validate(); err != nil {
			return fmt.Errorf("drawing %q: %w", plain(gpu.Name), err)
		}
	}
	if opt.Width == 0 {
		opt.Width = 1080
	}
	if opt.Title == "" {
		opt.Title = "GPUs"
	}
	width := max(opt.Width, 240)
	cards, height := layOut(gpus, width)
	s := &svg{w: bufio.NewWriter(w)}
	s.printf(`<svg class="cumask" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	s.printf("<title>%s</title>\n<style>%s</style>\n", escape(plain(opt.Title)), style())
	s.printf(`<rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	for _, c := range cards {
		s.card(c)
	}
	s.printf("</svg>\n")
	return s.w.Flush()
}

// Sizes in pixels.
const (
	cell       = 11 // a CU and the gap after it
	cellInk    = cell - 1
	cellHeight = 14
	groupGap   = 5
	rowGap     = 4
	margin     = 12
	labelWidth = 48
	textHeight = 18
	minCard    = 380 // of a card beside others
	minLegend  = 440 // of a legend with one line for each entry
	textWidth  = 6.6 // of a letter in the small monospaced type
)

// A card is one GPU in the picture.
type card struct {
	GPU
	x, y, width int
	rows        []row
	lines       []line
	entries     []entry
}

// layOut places the GPUs in columns, each as high as the highest in its line.
func layOut(gpus []GPU, width int) (cards []card, height int) {
	widest := 0
	for _, gpu := range gpus {
		c := card{GPU: gpu, rows: gpu.rows(), entries: gpu.legend()}
		c.lines = wrap(c.rows, (width-4*margin-labelWidth)/cell)
		cards = append(cards, c)
		widest = max(widest, c.naturalWidth())
	}
	columns := max((width-margin)/(widest+margin), 1)
	columns = min(columns, max(len(cards), 1))
	cardWidth := (width - margin*(columns+1)) / columns
	y := margin
	for lo := 0; lo < len(cards); lo += columns {
		high := 0
		for i := lo; i < min(lo+columns, len(cards)); i++ {
			c := &cards[i]
			c.x, c.y, c.width = margin+(i-lo)*(cardWidth+margin), y, cardWidth
			high = max(high, c.height())
		}
		y += high + margin
	}
	return cards, y
}

// mapWidth is how wide the CUs are, with the labels.
func (c card) mapWidth() int {
	wide := 0
	for _, l := range c.lines {
		wide = max(wide, lineWidth(l))
	}
	return labelWidth + wide
}

func (c card) naturalWidth() int { return max(c.mapWidth()+2*margin, minCard) }

// beside tells whether the legend stands beside the CUs, not below.
func (c card) beside() bool { return c.width >= c.mapWidth()+minLegend+4*margin }

// narrow tells whether the entries of the legend need two lines each.
func (c card) narrow() bool { return !c.beside() && c.width < minLegend }

func (c card) height() int {
	cus, legend := len(c.lines)*(cellHeight+rowGap), len(c.entries)*textHeight
	if c.narrow() {
		legend *= 2
	}
	if c.beside() {
		return 2*margin + 2*textHeight + max(cus, legend)
	}
	return 2*margin + 2*textHeight + cus + rowGap + legend
}

func lineWidth(l line) int {
	x := 0
	for _, cu := range l.cells {
		x += cellWidth(cu)
	}
	return x
}

func cellWidth(cu int) int {
	if cu == cellGap {
		return groupGap
	}
	return cell
}

type svg struct{ w *bufio.Writer }

func (s *svg) printf(format string, args ...any) { fmt.Fprintf(s.w, format, args...) }

func (s *svg) card(c card) {
	inner := c.width - 2*margin
	s.printf(`<g transform="translate(%d %d)">`+"\n", c.x, c.y)
	s.printf(`<rect class="card" width="%d" height="%d" rx="6"/>`+"\n", c.width, c.height())
	y := margin + 11
	s.printf(`<text class="name" x="%d" y="%d">%s</text>`+"\n", margin, y, fit(plain(c.Name), inner, 7.6))
	y += textHeight
	s.printf(`<text class="dim" x="%d" y="%d">%s</text>`+"\n", margin, y, fit(c.summary(), inner, textWidth))
	y += textHeight - 4
	left, below := margin, s.cells(c, y)
	if c.beside() {
		left += c.mapWidth() + 2*margin
	} else {
		y = below + rowGap
	}
	for _, e := range c.entries {
		y = s.entry(c, e, left, y)
	}
	s.printf("</g>\n")
}

// cells draws the CUs, a path for each holder, and returns where to go on.
func (s *svg) cells(c card, y int) int {
	owners := c.owners()
	paths := make([]strings.Builder, len(c.Holders)+2)
	var marks strings.Builder // a letter on the first CU of each run of a holder
	for _, l := range c.lines {
		if l.first {
			s.printf(`<text class="dim" x="%d" y="%d">%s</text>`+"\n", margin, y+11, escape(c.rows[l.row].label))
		}
		x, before := margin+labelWidth, cellGap
		for _, cu := range l.cells {
			if cu != cellGap {
				owner := owners[cu]
				fmt.Fprintf(&paths[owner+2], "M%d %dh%dv%dh-%dz", x, y, cellInk, cellHeight, cellInk)
				if owner != cellFree && owner != before {
					fmt.Fprintf(&marks, `<text class="%s" x="%d" y="%d">%c</text>`, ink(owner), x+cellInk/2, y+11, letter(owner))
				}
				before = owner
			} else {
				before = cellGap
			}
			x += cellWidth(cu)
		}
		y += cellHeight + rowGap
	}
	for _, e := range c.entries {
		if d := paths[e.owner+2].String(); d != "" {
			s.printf(`<path class="%s" d="%s"><title>%s</title></path>`+"\n", fill(e.owner), d, escape(e.name+", "+c.count(e, 0)+", "+e.cus.String()))
		}
	}
	s.printf("<g class=\"marks\">%s</g>\n", marks.String())
	return y
}

// entry draws an entry of the legend and returns where to go on.
func (s *svg) entry(c card, e entry, left, y int) int {
	s.printf(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, fill(e.owner), left, y, cellInk+2, cellHeight)
	s.printf(`<text class="%s" x="%d" y="%d">%c</text>`+"\n", ink(e.owner), left+(cellInk+2)/2, y+11, letter(e.owner))
	left += 20
	right := c.width - margin
	list := e.cus.String()
	if e.problem != "" {
		list = e.problem + "  " + list
	}
	if c.narrow() {
		s.printf(`<text x="%d" y="%d">%s</text>`, left, y+11, fit(e.name, right-left, textWidth))
		y += textHeight
		s.printf(`<text class="dim" x="%d" y="%d">%s</text>`+"\n", left, y+11, fit(c.count(e, 0)+"  "+list, right-left, textWidth))
		return y + textHeight
	}
	middle := left + (right-left)*2/5
	end := middle + 160
	s.printf(`<text x="%d" y="%d">%s</text>`, left, y+11, fit(e.name, middle-left-8, textWidth))
	s.printf(`<text x="%d" y="%d">%s</text>`, middle, y+11, escape(c.count(e, 3)))
	s.printf(`<text class="%s" x="%d" y="%d">%s</text>`+"\n", listClass(e), end, y+11, fit(list, right-end, textWidth))
	return y + textHeight
}

func listClass(e entry) string {
	if e.problem != "" || e.owner == cellClash {
		return "bad"
	}
	return "dim"
}

// fill is the class of what an owner's CUs are painted with, ink that of the
// letters on it.
func fill(owner int) string {
	switch owner {
	case cellFree:
		return "free"
	case cellClash:
		return "clash"
	}
	return fmt.Sprintf("h%d", owner%palette.Size)
}

func ink(owner int) string {
	switch {
	case owner == cellFree:
		return "on dim"
	case owner == cellClash || colourOf(owner).Dark:
		return "on light"
	}
	return "on dark"
}

// fit escapes s, shortened to so many pixels of letters of a certain width.
func fit(s string, pixels int, letter float64) string {
	return escape(cutTo(s, int(float64(pixels)/letter)))
}

func escape(s string) string {
	var b strings.Builder
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}

// style is the style sheet, with the palette. Its selectors stay within our
// pictures, so that a page can hold them beside others.
func style() string {
	var b strings.Builder
	b.WriteString(`
.cumask{--page:#f6f8fa;--card:#fff;--line:#d0d7de;--text:#1f2328;--dim:#59636e;--free:#e6eaef;--bad:#c4003f}
@media(prefers-color-scheme:dark){.cumask{--page:#0d1117;--card:#161b22;--line:#30363d;--text:#e6edf3;--dim:#9198a1;--free:#2b323b;--bad:#ff7b9c}}
.cumask text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--text);white-space:pre}
.cumask .name{font-weight:600;font-size:12.5px}.cumask .dim{fill:var(--dim)}.cumask .bad{fill:var(--bad)}
.cumask .page{fill:var(--page)}.cumask .card{fill:var(--card);stroke:var(--line)}.cumask .free{fill:var(--free)}
.cumask path:hover{stroke:var(--text);stroke-width:1.5}.cumask .marks{pointer-events:none}
.cumask .on{font-size:10px;text-anchor:middle}.cumask .on.light{fill:#fff}.cumask .on.dark{fill:#000}
`)
	fmt.Fprintf(&b, ".cumask .clash{fill:%s}", clashColour.Hex)
	for i := range palette.Size {
		fmt.Fprintf(&b, ".cumask .h%d{fill:%s}", i, palette.Of(i).Hex)
	}
	b.WriteString("\n")
	return b.String()
}
