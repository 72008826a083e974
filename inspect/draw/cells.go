package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// A row is one line of a card's map: the CUs of one XCC.
type row struct {
	part  int // index of the part
	label string
	last  string // the end of the label of rows that end with this one: "XCC 0-7"
	cus   []int
}

const (
	// plainRow is how many CUs stand in a row where there is but one XCC.
	plainRow = 32
	// maxRows bounds a map. Nothing built has more than eight XCCs; a register
	// annotation can claim a thousand.
	maxRows = 64
)

// rows are the lines of the map, those of each part together.
func (c *card) rows() []row {
	var rows []row
	for i, p := range c.parts {
		if p.fault != "" || len(rows) >= maxRows {
			continue
		}
		xccs := max(p.Geometry.XCCs, 1)
		switch {
		case xccs > 1 && xccs <= maxRows:
			rows = append(rows, p.xccRows(i, xccs)...)
		case xccs == 1 && p.label != "":
			rows = append(rows, row{part: i, label: p.label, last: p.label, cus: upTo(0, p.Geometry.CUs)})
		default:
			for lo := 0; lo < p.Geometry.CUs; lo += plainRow {
				hi := min(lo+plainRow, p.Geometry.CUs)
				rows = append(rows, row{part: i, label: fmt.Sprintf("CU %d", lo), last: strconv.Itoa(hi - 1), cus: upTo(lo, hi)})
			}
		}
	}
	return rows
}

// xccRows deals the CUs out as the kernel does with the bits of a mask
// (kfd_mqd_manager.c): bit i is on XCC i mod n.
func (p *part) xccRows(index, xccs int) []row {
	rows := make([]row, xccs)
	for x := range rows {
		rows[x] = row{part: index, label: fmt.Sprintf("XCC %d", x), last: strconv.Itoa(x)}
		if p.label != "" {
			rows[x].label = fmt.Sprintf("%s.%d", p.label, x)
		}
		for cu := x; cu < p.Geometry.CUs; cu += xccs {
			rows[x].cus = append(rows[x].cus, cu)
		}
	}
	return rows
}

func upTo(lo, hi int) []int {
	cus := make([]int, hi-lo)
	for i := range cus {
		cus[i] = lo + i
	}
	return cus
}

// A run is neighbouring CUs in a row that have one owner.
type run struct {
	row, column, length int
	owner               int
}

// runs are those of every row, from left to right.
func (c *card) runs(rows []row) []run {
	var runs []run
	for i, r := range rows {
		owners := c.parts[r.part].owners
		for at := 0; at < len(r.cus); {
			end := at + 1
			for end < len(r.cus) && owners[r.cus[end]] == owners[r.cus[at]] {
				end++
			}
			runs = append(runs, run{row: i, column: at, length: end - at, owner: owners[r.cus[at]]})
			at = end
		}
	}
	return runs
}

// columns is how many CUs the widest row has.
func columns(rows []row) int {
	wide := 1
	for _, r := range rows {
		wide = max(wide, len(r.cus))
	}
	return wide
}

// A stretch is a tenant's part of a bar, in parts of its whole.
type stretch struct {
	owner    int
	from, to float64
}

// memory is the VRAM bar of a card, with that of each partition in its place.
// Where more is granted than there is, the bar ends at what is granted, and full
// is where the VRAM ends.
func (c *card) memory() (stretches []stretch, full float64) {
	granted := map[*part]int64{}
	for _, h := range c.holdings {
		granted[h.part] += h.mib
	}
	whole := int64(0)
	begin := map[*part]int64{}
	for _, p := range c.parts {
		begin[p] = whole
		whole += max(granted[p], int64(p.Device.Devmem))
	}
	if whole == 0 {
		return nil, 1
	}
	for i, h := range c.holdings {
		if h.mib > 0 {
			at := begin[h.part]
			stretches = append(stretches, stretch{i, float64(at) / float64(whole), float64(at+h.mib) / float64(whole)})
			begin[h.part] += h.mib
		}
	}
	return stretches, float64(c.sum.mib) / float64(whole)
}

// clashes are the CUs that more than one claims, by part.
func (c *card) clashes() (lists []string) {
	for _, p := range c.parts {
		var cus []int
		for cu, owner := range p.owners {
			if owner == ownerClash {
				cus = append(cus, cu)
			}
		}
		if len(cus) > 0 {
			lists = append(lists, cmp.Or(p.label, "CUs")+" "+ranges(cus))
		}
	}
	return slices.Clip(lists)
}
