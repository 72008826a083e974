package draw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sizes of a map, in units that are about a pixel.
const (
	mapLabel   = 36  // room for "XCC 7"
	mapWidth   = 304 // of the CUs: eight units for each of the 38 on an XCC of an MI300X
	mapRow     = 11
	mapGap     = 2 // between rows
	mapPartGap = 3 // more between partitions
	mapBar     = 14
	mapBarGap  = 7
)

// cardMap is the map of a GPU and its VRAM bar. What all maps of one shape have
// in common is drawn once in the page and used by each.
type cardMap struct {
	Shape   *mapShape
	Width   int
	Height  int
	Words   string
	Tenants []mapPaint
	BarY    int
	Full    string // path of the line where the VRAM ends, "" at the end of the bar
}

// mapPaint is what one owner has on the map and the bar.
type mapPaint struct {
	Index, Pod int // of the tenant, -1 for CUs that several claim
	Colour     string
	Path       string
	Letter     string // one for each place
	LetterX    string
	LetterY    string
	Clash      bool
}

// mapShape is a map without tenants: labels, free cells, the grid, the empty
// bar.
type mapShape struct {
	ID          string
	Width       int
	Height      int
	Free, Lines string // paths
	Labels      []mapText
	BarY        int
}

type mapText struct {
	Y    int
	Text string
}

// shapeSet makes one shape for all maps that look alike.
type shapeSet struct {
	prefix string // of the ids
	byKey  map[string]*mapShape
	all    []*mapShape
}

// rowTops is where each row begins, and where the map ends.
func rowTops(rows []row) (tops []int, end int) {
	y := 0
	for i, r := range rows {
		if i > 0 && r.part != rows[i-1].part {
			y += mapPartGap
		}
		tops = append(tops, y)
		y += mapRow + mapGap
	}
	return tops, max(0, y-mapGap)
}

func (s *shapeSet) of(rows []row, tops []int, end int) *mapShape {
	var key strings.Builder
	for i, r := range rows {
		fmt.Fprintf(&key, "%d %d %s\n", tops[i], len(r.cus), r.label)
	}
	if shape := s.byKey[key.String()]; shape != nil {
		return shape
	}
	shape := &mapShape{ID: s.prefix + strconv.Itoa(len(s.all)), Width: mapLabel + mapWidth, BarY: end + mapBarGap}
	if len(rows) == 0 {
		shape.BarY = 0
	}
	shape.Height = shape.BarY + mapBar
	cell := float64(mapWidth) / float64(columns(rows))
	var free, lines strings.Builder
	for i, r := range rows {
		fmt.Fprintf(&free, "M%d %dh%sv%dh-%sz", mapLabel, tops[i], short(cell*float64(len(r.cus))), mapRow, short(cell*float64(len(r.cus))))
		for k := 1; k < len(r.cus); k++ {
			fmt.Fprintf(&lines, "M%s %dv%d", short(mapLabel+cell*float64(k)), tops[i], mapRow)
		}
		// A partition has its name on its first row, a whole GPU one on each.
		name, _, partition := strings.Cut(r.label, ".")
		if !partition || i == 0 || rows[i-1].part != r.part {
			shape.Labels = append(shape.Labels, mapText{tops[i] + mapRow - 2, name})
		}
	}
	shape.Labels = append(shape.Labels, mapText{shape.BarY + mapBar - 3, "VRAM"})
	fmt.Fprintf(&free, "M%d %dh%dv%dh-%dz", mapLabel, shape.BarY, mapWidth, mapBar, mapWidth)
	shape.Free, shape.Lines = free.String(), lines.String()
	s.byKey[key.String()] = shape
	s.all = append(s.all, shape)
	return shape
}

func newCardMap(c *card, shapes *shapeSet) *cardMap {
	rows := c.rows()
	tops, end := rowTops(rows)
	shape := shapes.of(rows, tops, end)
	m := &cardMap{Shape: shape, Width: shape.Width, Height: shape.Height, BarY: shape.BarY, Words: c.mapWords()}
	pens := map[int]*pen{}
	penOf := func(owner int) *pen {
		if pens[owner] == nil {
			pens[owner] = &pen{}
		}
		return pens[owner]
	}
	cell := float64(mapWidth) / float64(columns(rows))
	var at, above starts
	for _, r := range c.runs(rows) {
		if r.row != at.row {
			at, above = starts{row: r.row}, at
		}
		if r.owner == ownerFree {
			continue
		}
		p := penOf(r.owner)
		x := mapLabel + cell*float64(r.column)
		p.rect(x, tops[r.row], cell*float64(r.length), mapRow)
		if !above.near(r) {
			p.letter(x+cell/2, tops[r.row]+mapRow-2)
		}
		at.runs = append(at.runs, r)
	}
	stretches, full := c.memory()
	for _, s := range stretches {
		p := penOf(s.owner)
		x, width := mapLabel+mapWidth*s.from, mapWidth*(s.to-s.from)
		p.rect(x, shape.BarY, width, mapBar)
		if width >= 7 {
			p.letter(x+width/2, shape.BarY+mapBar-4)
		}
	}
	if full < 1 {
		m.Full = fmt.Sprintf("M%s %dv%d", short(mapLabel+mapWidth*full), shape.BarY-3, mapBar+6)
	}
	for i, h := range c.holdings {
		if p := pens[i]; p != nil {
			m.Tenants = append(m.Tenants, p.paint(i, h.number, fmt.Sprint(h.colour), letter(i)))
		}
	}
	if p := pens[ownerClash]; p != nil {
		paint := p.paint(-1, -1, "x", "!")
		paint.Clash = true
		m.Tenants = append(m.Tenants, paint)
	}
	return m
}

// starts are the runs of one row: a letter is not repeated below itself.
type starts struct {
	row  int
	runs []run
}

func (s starts) near(r run) bool {
	return slices.ContainsFunc(s.runs, func(above run) bool {
		return above.owner == r.owner && above.column >= r.column-1 && above.column <= r.column+1
	})
}

// A pen collects what one owner has.
type pen struct {
	path    strings.Builder
	x, y    []string
	letters int
}

func (p *pen) rect(x float64, y int, width float64, height int) {
	w := short(width)
	fmt.Fprintf(&p.path, "M%s %dh%sv%dh-%sz", short(x), y, w, height, w)
}

func (p *pen) letter(x float64, y int) {
	p.x, p.y = append(p.x, short(x)), append(p.y, strconv.Itoa(y))
	p.letters++
}

func (p *pen) paint(index, pod int, colour, letter string) mapPaint {
	return mapPaint{
		Index: index, Pod: pod, Colour: colour, Path: p.path.String(), Letter: strings.Repeat(letter, p.letters),
		LetterX: strings.Join(p.x, " "), LetterY: strings.Join(p.y, " "),
	}
}

// short is a coordinate with at most two digits behind the point.
func short(f float64) string {
	s := strconv.FormatFloat(f, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// mapWords is the map for those who do not see it.
func (c *card) mapWords() string {
	var parts []string
	for i, h := range c.holdings {
		parts = append(parts, fmt.Sprintf("%s %s: %s", letter(i), h.podName(), cut(h.mask(), 80)))
	}
	free := 0
	for _, p := range c.parts {
		free += p.free.Len()
	}
	return strings.Join(append(parts, fmt.Sprintf("%d CUs free", free)), "; ")
}
