package cumask

import (
	"errors"
	"fmt"
)

// Sentinels for what a caller decides on.
var (
	// ErrGeometry is the kind of the errors about a GPU whose shape cannot be,
	// and about CUs that the GPU does not have.
	ErrGeometry = errors.New("impossible geometry")
	// ErrGranularity is the kind of the errors about a number or set of CUs
	// that the GPU could not take even when idle: too few for one on each XCC,
	// half a WGP, more than there are.
	ErrGranularity = errors.New("not grantable on this gpu")
	// ErrInsufficient is the kind of the errors about a request that an idle
	// GPU could take and this one cannot now. They are *[InsufficientError].
	ErrInsufficient = errors.New("insufficient free cus")
)

// A Geometry is the shape of one GPU, or of one compute partition, as far as
// masks depend on it. It is comparable. The zero value of every field but CUs
// means "nothing known", and works.
type Geometry struct {
	CUs       int // active CUs: simd_count / simd_per_cu of the KFD node; 1 to MaxCUs
	XCCs      int // num_xcc of the KFD node; 0 means 1
	CUsPerWGP int // 2 on gfx10 and later, where CUs work in pairs; 0 means 1

	// The shader engines, where discovery knows them; 0 is unknown. They
	// describe the full design: harvested GPUs have fewer active CUs than
	// XCCs*SEsPerXCC*SAsPerSE*CUsPerSA, and then the place of a CU is nominal.
	SEsPerXCC int // array_count / num_xcc / simd_arrays_per_engine
	SAsPerSE  int // simd_arrays_per_engine
	CUsPerSA  int // cu_per_simd_array, the largest of the GPU
}

// maxCUsPerSA is how many CUs of a shader array the kernel's walk visits.
const maxCUsPerSA = 16

// Validate refuses shapes that no GPU has; the error is of kind [ErrGeometry].
//
// CUs must be 1 to MaxCUs and a multiple of XCCs: the driver counts a
// partition's CUs by dividing, and with unequal XCCs the last mask bits of the
// poorer ones would drive nothing. WGPs are single CUs or pairs and never occur
// together with several XCCs: the kernel enables pairs of neighbouring bits,
// which belong to different XCCs. Shader engines, where known, must be able to
// hold the CUs, at most 16 in an array.
func (g Geometry) Validate() error {
	x, w := g.xccs(), g.wgp()
	switch {
	case g.CUs < 1 || g.CUs > MaxCUs:
		return fmt.Errorf("geometry: %d cus: want 1 to %d: %w", g.CUs, MaxCUs, ErrGeometry)
	case x < 1 || x > g.CUs:
		return fmt.Errorf("geometry: %d xccs: want 1 to %d, the cus: %w", g.XCCs, g.CUs, ErrGeometry)
	case g.CUs%x != 0:
		return fmt.Errorf("geometry: %d cus on %d xccs: want the same number on each: %w", g.CUs, x, ErrGeometry)
	case w != 1 && w != 2:
		return fmt.Errorf("geometry: %d cus per wgp: want 1 or 2: %w", g.CUsPerWGP, ErrGeometry)
	case w > 1 && x > 1:
		return fmt.Errorf("geometry: %d xccs with %d cus per wgp: want one or the other: %w", x, w, ErrGeometry)
	case g.CUs%w != 0:
		return fmt.Errorf("geometry: %d cus in wgps of %d: want whole wgps: %w", g.CUs, w, ErrGeometry)
	}
	return g.validateArrays()
}

func (g Geometry) validateArrays() error {
	se, sa, cu := g.SEsPerXCC, g.SAsPerSE, g.CUsPerSA
	switch {
	case se < 0 || sa < 0 || cu < 0:
		return fmt.Errorf("geometry: %d ses per xcc, %d sas per se, %d cus per sa: want none negative: %w", se, sa, cu, ErrGeometry)
	case se > MaxCUs/g.xccs() || sa > MaxCUs || cu > maxCUsPerSA:
		return fmt.Errorf("geometry: %d ses per xcc, %d sas per se, %d cus per sa: want at most %d, %d and %d: %w",
			se, sa, cu, MaxCUs/g.xccs(), MaxCUs, maxCUsPerSA, ErrGeometry)
	case cu%g.wgp() != 0:
		return fmt.Errorf("geometry: %d cus per sa in wgps of %d: want whole wgps: %w", cu, g.wgp(), ErrGeometry)
	case se > 0 && sa > 0 && cu > 0 && g.xccs()*se*sa*cu < g.CUs:
		return fmt.Errorf("geometry: %d cus: the shader arrays hold %d: %w", g.CUs, g.xccs()*se*sa*cu, ErrGeometry)
	}
	return nil
}

func (g Geometry) xccs() int {
	if g.XCCs == 0 {
		return 1
	}
	return g.XCCs
}

func (g Geometry) wgp() int {
	if g.CUsPerWGP == 0 {
		return 1
	}
	return g.CUsPerWGP
}

// Unit returns the fewest CUs a grant may hold: one on each XCC, or one whole
// WGP.
func (g Geometry) Unit() int { return max(g.xccs(), g.wgp(), 1) }

// RoundUp returns n raised to the unit and to whole WGPs, but at most CUs.
func (g Geometry) RoundUp(n int) int {
	n = max(n, g.Unit())
	if n >= g.CUs {
		return max(g.CUs, 0)
	}
	w := max(g.wgp(), 1)
	return min((n+w-1)/w*w, g.CUs)
}

// All returns the set of all CUs of the GPU.
func (g Geometry) All() Set { return Range(0, g.CUs-1) }

// Check refuses a set that the GPU cannot take as a mask: the empty set and one
// that leaves an XCC without a CU (its queue hangs), one with half a WGP (the
// kernel refuses the mask and the queue runs on all CUs), both of kind
// [ErrGranularity], and one with CUs the GPU does not have, of kind
// [ErrGeometry].
func (g Geometry) Check(s Set) error {
	if err := g.Validate(); err != nil {
		return err
	}
	if over := s.Minus(g.All()); !over.Empty() {
		return fmt.Errorf("cus %q: cu %d: want cus up to %d: %w", clip(s.String()), over.next(0), g.CUs-1, ErrGeometry)
	}
	if s.Empty() {
		return fmt.Errorf("cus %q: want at least %d: %w", clip(s.String()), g.Unit(), ErrGranularity)
	}
	if half := s.Minus(g.wholeWGPs(s)); !half.Empty() {
		return fmt.Errorf("cus %q: cu %d: want whole wgps of %d cus: %w", clip(s.String()), half.next(0), g.wgp(), ErrGranularity)
	}
	var per [MaxCUs]int
	for x, n := range g.perXCC(s, &per) {
		if n == 0 {
			return fmt.Errorf("cus %q: none on xcc %d: want one on each of %d: %w", clip(s.String()), x, g.xccs(), ErrGranularity)
		}
	}
	return nil
}

// wholeWGPs returns the CUs of s whose whole WGP is in s.
func (g Geometry) wholeWGPs(s Set) Set {
	if g.wgp() != 2 {
		return s
	}
	for i, w := range s.w {
		w &= w >> 1 & evenBits
		s.w[i] = w | w<<1
	}
	return s
}

// perXCC counts the CUs of s on each XCC into buf and returns that part of it.
// CUs that the GPU does not have are not counted.
func (g Geometry) perXCC(s Set, buf *[MaxCUs]int) []int {
	per := buf[:g.xccs()]
	clear(per)
	byXCC := newDivider(len(per))
	s = s.Intersect(g.All())
	for cu := range s.All() {
		_, x := byXCC.divide(cu)
		per[x]++
	}
	return per
}
