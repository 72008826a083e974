package draw

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// A GPU is what one picture shows.
type GPU struct {
	Name     string // the heading
	Geometry cumask.Geometry
	Holders  []Holder // in the order of their letters
}

// A Holder is somebody who holds CUs of a GPU.
type Holder struct {
	Name string
	CUs  cumask.Set
}

// Holders returns the holders of an occupancy, in the order of their names.
func Holders(o *cumask.Occupancy) []Holder {
	var holders []Holder
	for name, cus := range o.Holders() {
		holders = append(holders, Holder{Name: name, CUs: cus})
	}
	return holders
}

// What a cell shows besides the index of its holder.
const (
	cellFree  = -1
	cellClash = -2 // more than one holder claims it
	cellGap   = -3 // no CU, the space between groups
)

// owners returns what each CU of the GPU shows.
func (g GPU) owners() []int {
	owners := make([]int, g.Geometry.CUs)
	for cu := range owners {
		owners[cu] = cellFree
	}
	for i, h := range g.Holders {
		for cu := range h.CUs.Intersect(g.Geometry.All()).All() {
			if owners[cu] == cellFree {
				owners[cu] = i
			} else {
				owners[cu] = cellClash
			}
		}
	}
	return owners
}

// used returns what anybody holds.
func (g GPU) used() cumask.Set {
	var used cumask.Set
	for _, h := range g.Holders {
		used = used.Union(h.CUs)
	}
	return used.Intersect(g.Geometry.All())
}

// clashes returns what more than one holder claims.
func (g GPU) clashes() cumask.Set {
	var once, twice cumask.Set
	for _, h := range g.Holders {
		twice = twice.Union(once.Intersect(h.CUs))
		once = once.Union(h.CUs)
	}
	return twice.Intersect(g.Geometry.All())
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// letter returns the letter of what a cell shows. There are 62; all further
// holders share one.
func letter(owner int) byte {
	switch {
	case owner == cellFree:
		return '.'
	case owner == cellClash:
		return '!'
	case owner == cellGap:
		return ' '
	case owner < len(letters):
		return letters[owner]
	}
	return '*'
}

// summary is the line below the heading.
func (g GPU) summary() string {
	geo := g.Geometry
	s := fmt.Sprintf("%d CUs", geo.CUs)
	if geo.XCCs > 1 {
		s += fmt.Sprintf(" on %d XCCs", geo.XCCs)
	}
	if geo.CUsPerWGP > 1 {
		s += fmt.Sprintf(" in %d WGPs", geo.CUs/geo.CUsPerWGP)
	}
	s += fmt.Sprintf(", %d free", geo.CUs-g.used().Len())
	if geo.SEsPerXCC > 0 && !geo.Exact() {
		s += ", shader engines nominal"
	}
	return s
}

// An entry is a line of the legend.
type entry struct {
	owner     int
	name      string
	cus       cumask.Set
	effective int
	problem   string // why the set is no mask for the GPU, if so
}

// legend returns the holders, what several claim, and what is free.
func (g GPU) legend() []entry {
	var entries []entry
	for i, h := range g.Holders {
		e := entry{owner: i, name: plain(h.Name), cus: h.CUs, effective: g.Geometry.Effective(h.CUs)}
		e.problem = g.problem(h.CUs)
		entries = append(entries, e)
	}
	if clashes := g.clashes(); !clashes.Empty() {
		entries = append(entries, entry{owner: cellClash, name: "held twice", cus: clashes, effective: -1})
	}
	if free := g.Geometry.All().Minus(g.used()); !free.Empty() {
		entries = append(entries, entry{owner: cellFree, name: "free", cus: free, effective: g.Geometry.Effective(free)})
	}
	return entries
}

// count is how many CUs an entry has and, with several XCCs, how many of them
// are effective; digits is the room for each number.
func (g GPU) count(e entry, digits int) string {
	s := fmt.Sprintf("%*d CUs", digits, e.cus.Len())
	if e.effective >= 0 && g.Geometry.XCCs > 1 {
		s += fmt.Sprintf("  %*d effective", digits, e.effective)
	}
	return s
}

// problem says in a few words what Check has against a holder's set.
func (g GPU) problem(s cumask.Set) string {
	geo := g.Geometry
	switch {
	case s.Empty():
		return "no CUs"
	case geo.Check(s) == nil:
		return ""
	case !s.Minus(geo.All()).Empty():
		return "CUs beyond the GPU"
	case geo.CUsPerWGP > 1:
		return "half a WGP"
	}
	for x, n := range geo.Spread(s).PerXCC {
		if n == 0 {
			return fmt.Sprintf("starves XCC %d", x)
		}
	}
	return ""
}

// plain replaces what is not printable, and shortens what is too long.
func plain(name string) string {
	const limit = 120
	runes := []rune(strings.ToValidUTF8(name, "?"))
	if len(runes) > limit {
		runes = append(runes[:limit-3], '.', '.', '.')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = '?'
		}
	}
	return string(runes)
}
