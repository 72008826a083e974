package cumask

// A Spread is how a set of CUs lies on a GPU.
type Spread struct {
	PerXCC []int // CUs on each XCC
	// PerSE is the CUs on each shader engine of each XCC, by XCC; nil when
	// the geometry does not know the shader engines.
	PerSE [][]int
	// Nominal marks PerSE as computed for a GPU with full shader arrays, while
	// this one is harvested: close, not exact.
	Nominal bool
	// Effective is XCCs times the fewest CUs on any XCC: work groups go
	// round-robin over the XCCs, so the poorest XCC sets the pace.
	Effective int
}

// Spread returns how the set lies on the GPU. CUs that the GPU does not have
// are not counted. For an impossible geometry the result is the zero Spread.
func (g Geometry) Spread(s Set) Spread {
	if g.Validate() != nil {
		return Spread{}
	}
	var buf [MaxCUs]int
	sp := Spread{
		PerXCC:    append([]int(nil), g.perXCC(s, &buf)...),
		Effective: g.Effective(s),
	}
	if g.SEsPerXCC < 1 {
		return sp
	}
	sp.Nominal = !g.Exact()
	sp.PerSE = make([][]int, len(sp.PerXCC))
	for x := range sp.PerSE {
		sp.PerSE[x] = make([]int, g.SEsPerXCC)
	}
	for cu := range s.Intersect(g.All()).All() {
		at, _ := g.Locate(cu)
		sp.PerSE[at.XCC][at.SE]++
	}
	return sp
}

// Effective returns the effective CUs of the set without the rest of Spread,
// and without allocating.
func (g Geometry) Effective(s Set) int {
	if g.Validate() != nil {
		return 0
	}
	var buf [MaxCUs]int
	per := g.perXCC(s, &buf)
	least := per[0]
	for _, n := range per {
		least = min(least, n)
	}
	return least * len(per)
}

// A Location is the place of a CU on the GPU. What is unknown is -1.
type Location struct {
	XCC, SE, SA, CU int
}

// Locate returns the place of CU i, as the kernel deals the bits of a queue's
// mask out (kfd_mqd_manager.c, mqd_symmetrically_map_cu_mask): first over the
// XCCs, then over the shader engines, then over the arrays of an engine, then
// up the CUs of an array, in whole WGPs. It is false for a CU the GPU does not
// have.
//
// The place is exact when [Geometry.Exact]. On a harvested GPU the kernel skips
// arrays that have run out of active CUs, and sysfs gives only the size of the
// largest array: there SE, SA and CU are nominal.
func (g Geometry) Locate(i int) (Location, bool) {
	if i < 0 || i >= g.CUs || i >= MaxCUs {
		return Location{-1, -1, -1, -1}, false
	}
	x, w := max(g.xccs(), 1), max(g.wgp(), 1) // whoever did not validate gets no panic
	at := Location{XCC: i % x, SE: -1, SA: -1, CU: -1}
	if g.SEsPerXCC < 1 {
		return at, true
	}
	position := i / x / w
	at.SE = position % g.SEsPerXCC
	if g.SAsPerSE < 1 {
		return at, true
	}
	at.SA = position / g.SEsPerXCC % g.SAsPerSE
	at.CU = position/g.SEsPerXCC/g.SAsPerSE*w + i/x%w
	return at, true
}

// Exact tells whether the shader engines are known and all their arrays full,
// so that [Geometry.Locate] is exact.
func (g Geometry) Exact() bool {
	return g.SEsPerXCC > 0 && g.SAsPerSE > 0 && g.CUsPerSA > 0 &&
		g.xccs()*g.SEsPerXCC*g.SAsPerSE*g.CUsPerSA == g.CUs
}
