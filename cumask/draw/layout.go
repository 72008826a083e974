package draw

import (
	"fmt"
	"slices"
	"strings"
)

// A row is the CUs that are drawn side by side, in groups.
type row struct {
	label  string
	last   string // the number of the last row that it stands for, if there are several
	groups []group
}

// name is "XCC 0", or "XCC 0-3" for several.
func (r row) name() string {
	if r.last == "" {
		return r.label
	}
	return r.label + "-" + r.last
}

type group struct {
	label string
	cus   []int
}

// plainRow is how many CUs stand in a row when nothing is known about their
// place.
const plainRow = 32

// rows returns a row for each XCC with a group for each shader engine; for each
// shader engine with a group for each array when there is one XCC; or just the
// CUs in order.
func (g GPU) rows() []row {
	geo := g.Geometry
	xccs, ses, sas := max(geo.XCCs, 1), max(geo.SEsPerXCC, 1), max(geo.SAsPerSE, 1)
	var rows []row
	switch {
	case xccs > 1:
		rows = labelled("XCC", xccs, "SE", ses)
	case ses > 1:
		rows = labelled("SE", ses, "SA", sas)
	default:
		for lo := 0; lo < geo.CUs; lo += plainRow {
			rows = append(rows, row{label: fmt.Sprintf("CU %d", lo), groups: make([]group, 1)})
		}
	}
	for cu := range geo.CUs {
		at, _ := geo.Locate(cu)
		r, k := cu/plainRow, 0
		switch {
		case xccs > 1:
			r, k = at.XCC, max(at.SE, 0)
		case ses > 1:
			r, k = at.SE, max(at.SA, 0)
		}
		rows[r].groups[k].cus = append(rows[r].groups[k].cus, cu)
	}
	return rows
}

// labelled returns empty rows with the groups of each. A group that is alone has
// no label.
func labelled(name string, count int, groupName string, groups int) []row {
	rows := make([]row, count)
	for i := range rows {
		rows[i] = row{label: fmt.Sprintf("%s %d", name, i), groups: make([]group, groups)}
		for k := range groups {
			if groups > 1 {
				rows[i].groups[k].label = fmt.Sprintf("%s %d", groupName, k)
			}
		}
	}
	return rows
}

// merged puts neighbouring rows that look the same together. Rows without a place,
// which start at a CU, stay as they are.
func merged(rows []row, owners []int) []row {
	var list []row
	for _, r := range rows {
		name, number, _ := strings.Cut(r.label, " ")
		if n := len(list); n > 0 && name != "CU" && alike(list[n-1], r, owners) {
			list[n-1].last = number
			continue
		}
		list = append(list, r)
	}
	return list
}

// alike reports whether two rows show the same.
func alike(a, b row, owners []int) bool {
	return slices.EqualFunc(a.groups, b.groups, func(a, b group) bool {
		return slices.EqualFunc(a.cus, b.cus, func(a, b int) bool { return owners[a] == owners[b] })
	})
}

// A line is part of a row, as wide as there is room. A cell is a CU, or cellGap
// between groups.
type line struct {
	row   int
	first bool // the first line of its row
	cells []int
}

// wrap breaks rows into lines of at most width cells: between groups, with as
// many on each line, or within a group that is too wide itself.
func wrap(rows []row, width int) []line {
	width = max(width, 1)
	var lines []line
	for i, r := range rows {
		perLine, first := groupsPerLine(r, width), true
		for lo := 0; lo < len(r.groups); lo += perLine {
			var cells []int
			for _, g := range r.groups[lo:min(lo+perLine, len(r.groups))] {
				if len(cells) > 0 && len(g.cus) > 0 {
					cells = append(cells, cellGap)
				}
				cells = append(cells, g.cus...)
			}
			for len(cells) > 0 {
				n := min(len(cells), width)
				lines = append(lines, line{row: i, first: first, cells: cells[:n]})
				cells, first = cells[n:], false
			}
		}
	}
	return lines
}

// groupsPerLine returns how many groups of a row to put on each of its lines,
// at least one.
func groupsPerLine(r row, width int) int {
	widest := 0
	for _, g := range r.groups {
		widest = max(widest, len(g.cus))
	}
	fit := min(max((width+1)/(widest+1), 1), len(r.groups))
	lines := (len(r.groups) + fit - 1) / fit
	return (len(r.groups) + lines - 1) / lines
}

// oneLineEach tells whether every row is a line of its own.
func oneLineEach(lines []line) bool {
	for _, l := range lines {
		if !l.first {
			return false
		}
	}
	return true
}
