package cumask

import (
	"maps"
	"slices"
)

// shipped is the GPUs and partitions that are sold, by product and mode. The
// shader engines, where known, are those of the KFD topology: 4 SEs of one array
// of up to 10 CUs in each XCC of the MI300 family, and 12 arrays of 8 CUs on the
// RX 7900.
var shipped = map[string]Geometry{
	"mi300x spx":  {CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi300x dpx":  {CUs: 152, XCCs: 4, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi300x qpx":  {CUs: 76, XCCs: 2, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi300x cpx":  {CUs: 38, XCCs: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi300x bare": {CUs: 304, XCCs: 8},
	"mi300a spx":  {CUs: 228, XCCs: 6, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi300a tpx":  {CUs: 76, XCCs: 2, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi308x spx":  {CUs: 80, XCCs: 4, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi308x cpx":  {CUs: 20, XCCs: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10},
	"mi355x spx":  {CUs: 256, XCCs: 8},
	"mi355x dpx":  {CUs: 128, XCCs: 4},
	"mi355x qpx":  {CUs: 64, XCCs: 2},
	"mi210":       {CUs: 104, XCCs: 1, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 14},
	"mi100":       {CUs: 120, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 16},
	"rx 7900 xtx": {CUs: 96, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8},
	"rx 7900 xt":  {CUs: 84, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8},
	"rx 9060 xt":  {CUs: 32, XCCs: 1, CUsPerWGP: 2},
	"8060s":       {CUs: 40, XCCs: 1, CUsPerWGP: 2},
}

// shippedNames is the keys of shipped in an order that stays.
func shippedNames() []string { return slices.Sorted(maps.Keys(shipped)) }
