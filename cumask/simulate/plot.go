package simulate

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// SVG writes a plot over time, for each policy: the effective CUs of the masks,
// how many of the free CUs a mask could still make effective, and how many masks
// have starved an XCC or held half a WGP so far. The document needs nothing
// else, and follows the reader's choice of light or dark.
func (r *Report) SVG(w io.Writer) error {
	p := &plot{w: bufio.NewWriter(w)}
	panels := r.panels()
	height := plotTop + len(panels)*panelHeight + plotFoot
	p.printf(`<svg class="cumask-plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", plotWidth, height, plotWidth, height)
	p.printf("<title>%s</title>\n<style>%s</style>\n", escape(r.heading()), plotStyle)
	p.printf(`<rect class="page" width="%d" height="%d"/>`+"\n", plotWidth, height)
	p.printf(`<text class="name" x="%d" y="22">%s</text>`+"\n", plotLeft, escape(r.heading()))
	x := plotLeft
	for i, res := range r.Results {
		p.printf(`<path class="p%d" d="M%d 38h28"/><text x="%d" y="42">%s</text>`+"\n", i%plotColours, x, x+34, escape(res.Policy))
		x += 60 + 7*len(res.Policy)
	}
	for i, panel := range panels {
		p.panel(panel, plotTop+i*panelHeight)
	}
	p.printf(`<text class="dim end" x="%d" y="%d">time, in mean times between arrivals</text>`+"\n", plotWidth-plotRight, height-12)
	p.printf("</svg>\n")
	return p.w.Flush()
}

// Sizes in pixels.
const (
	plotWidth   = 900
	plotLeft    = 56
	plotRight   = 16
	plotTop     = 56
	plotFoot    = 26
	panelHeight = 170
	panelTitle  = 24
	plotColours = 4
)

const plotStyle = `
.cumask-plot{--page:#fff;--line:#d0d7de;--text:#1f2328;--dim:#59636e;--p0:#0072b2;--p1:#c04e00;--p2:#00805c;--p3:#7a5195}
@media(prefers-color-scheme:dark){.cumask-plot{--page:#0d1117;--line:#30363d;--text:#e6edf3;--dim:#9198a1;--p0:#56b4e9;--p1:#ff9248;--p2:#3ddc97;--p3:#c9a0e8}}
.cumask-plot text{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--text)}
.cumask-plot .name{font-weight:600;font-size:12.5px}.cumask-plot .dim{fill:var(--dim)}.cumask-plot .end{text-anchor:end}
.cumask-plot .page{fill:var(--page)}.cumask-plot path{fill:none;stroke-width:1.6;stroke-linejoin:round}
.cumask-plot .grid{stroke:var(--line);stroke-width:1}
.cumask-plot .p0{stroke:var(--p0)}.cumask-plot .p1{stroke:var(--p1);stroke-dasharray:6 2}
.cumask-plot .p2{stroke:var(--p2);stroke-dasharray:2 2}.cumask-plot .p3{stroke:var(--p3);stroke-dasharray:9 2 2 2}
`

// A panel is one of the plots above each other.
type panel struct {
	title       string
	bottom, top float64 // of the scale
	end         float64 // of time
	lines       [][]point
}

// zoom moves the bottom of the scale, which is marked, up to just below the
// lowest point.
func (n *panel) zoom() {
	n.bottom = 0.9
	for _, line := range n.lines {
		for _, p := range line {
			n.bottom = min(n.bottom, math.Floor(p.y*10)/10)
		}
	}
}

type point struct{ x, y float64 }

func (r *Report) panels() []panel {
	masks := panel{title: "effective CUs of masks, in parts of what as many reach on an idle GPU", top: 1}
	usable := panel{title: "effective CUs of the free ones, in parts of all that are free", top: 1}
	broken := panel{title: "masks that starve an XCC or hold half a WGP, so far", top: 1}
	for _, res := range r.Results {
		var m, u, b []point
		total := 0
		for _, s := range res.Samples {
			if s.Granted > 0 {
				m = append(m, point{s.Time, s.OfBound})
			}
			u = append(u, point{s.Time, s.FreeUsable})
			total += s.Starved + s.HalfWGP
			b = append(b, point{s.Time, float64(total)})
			masks.end = max(masks.end, s.Time)
		}
		masks.lines, usable.lines, broken.lines = append(masks.lines, m), append(usable.lines, u), append(broken.lines, b)
		broken.top = max(broken.top, float64(total))
	}
	masks.zoom()
	usable.zoom()
	usable.end, broken.end = masks.end, masks.end
	broken.top = roundUp(broken.top)
	return []panel{masks, usable, broken}
}

// roundUp returns the next of 1, 2, 4, 5, 8, 10, 20 and so on.
func roundUp(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 5, 8, 10} {
		if v <= step*decade {
			return step * decade
		}
	}
	return v
}

type plot struct{ w *bufio.Writer }

func (p *plot) printf(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p *plot) panel(n panel, y int) {
	high, wide := float64(panelHeight-panelTitle-20), float64(plotWidth-plotLeft-plotRight)
	top := float64(y + panelTitle)
	p.printf(`<text x="%d" y="%d">%s</text>`+"\n", plotLeft, y+14, n.title)
	for i := range 5 {
		gy := top + high*float64(4-i)/4
		p.printf(`<path class="grid" d="M%d %.1fh%.0f"/><text class="dim end" x="%d" y="%.1f">%.4g</text>`+"\n", plotLeft, gy, wide, plotLeft-6, gy+4, n.bottom+(n.top-n.bottom)*float64(i)/4)
	}
	for i := range 5 {
		class := "dim"
		if i == 4 {
			class = "dim end"
		}
		p.printf(`<text class="%s" x="%.1f" y="%.1f">%.0f</text>`+"\n", class, plotLeft+wide*float64(i)/4, top+high+14, n.end*float64(i)/4)
	}
	for i, line := range n.lines {
		var d strings.Builder
		for k, pt := range line {
			verb := "L"
			if k == 0 {
				verb = "M"
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", verb, plotLeft+wide*pt.x/n.end, top+high*(n.top-pt.y)/(n.top-n.bottom))
		}
		if d.Len() > 0 {
			p.printf(`<path class="p%d" d="%s"/>`+"\n", i%plotColours, d.String())
		}
	}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
