package simulate

import "github.com/Project-HAMi/hami-amd/cumask"

// A Product is a GPU, or a partition of one, by a short name.
type Product struct {
	Name     string
	Geometry cumask.Geometry
}

// Products returns GPUs to simulate. On a real node the geometry comes from
// sysfs; these are the products' full counts.
func Products() []Product {
	return []Product{
		{"mi300x", cumask.Geometry{CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}},
		{"mi300x-dpx", cumask.Geometry{CUs: 152, XCCs: 4, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}},
		{"mi300x-cpx", cumask.Geometry{CUs: 38, XCCs: 1, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}},
		{"mi300a", cumask.Geometry{CUs: 228, XCCs: 6, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}},
		{"mi308x", cumask.Geometry{CUs: 80, XCCs: 4, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}},
		{"mi355x", cumask.Geometry{CUs: 256, XCCs: 8}},
		{"mi210", cumask.Geometry{CUs: 104, XCCs: 1, SEsPerXCC: 8, SAsPerSE: 1, CUsPerSA: 14}},
		{"rx7900xtx", cumask.Geometry{CUs: 96, XCCs: 1, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8}},
		{"rx9060xt", cumask.Geometry{CUs: 32, XCCs: 1, CUsPerWGP: 2}},
	}
}
