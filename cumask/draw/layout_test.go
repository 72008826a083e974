package draw

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// shapes is one geometry of each kind of layout.
var shapes = []cumask.Geometry{
	mi300x,
	rx7900xtx,
	{CUs: 304, XCCs: 8},
	{CUs: 228, XCCs: 6, SEsPerXCC: 4},
	{CUs: 104, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 14},
	{CUs: 4, XCCs: 2, SEsPerXCC: 4},
	{CUs: 1024, XCCs: 2},
	{CUs: 1024, XCCs: 1024},
	{CUs: 1024},
	{CUs: 1},
}

// TestWrapShowsEveryCUOnce lays every shape out at every width.
func TestWrapShowsEveryCUOnce(t *testing.T) {
	for _, g := range shapes {
		rows := GPU{Geometry: g}.rows()
		for width := -1; width < 140; width++ {
			seen := make([]int, g.CUs)
			for _, l := range wrap(rows, width) {
				if len(l.cells) == 0 || len(l.cells) > max(width, 1) {
					t.Fatalf("%+v in %d: a line of %d", g, width, len(l.cells))
				}
				for _, cu := range l.cells {
					if cu != cellGap {
						seen[cu]++
					}
				}
			}
			for cu, n := range seen {
				if n != 1 {
					t.Fatalf("%+v in %d: cu %d is there %d times", g, width, cu, n)
				}
			}
		}
	}
}

func TestWrapPutsAsManyGroupsOnEachLine(t *testing.T) {
	rows := GPU{Geometry: mi300x}.rows()
	for width, want := range map[int]int{60: 8, 43: 8, 42: 16, 32: 16, 21: 16, 20: 32, 10: 32} {
		if got := len(wrap(rows, width)); got != want {
			t.Errorf("%d lines in %d columns, want %d", got, width, want)
		}
	}
}
