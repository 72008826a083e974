package cumask

// A divider divides CU numbers and counts, 0 to MaxCUs, by a number from 1 to
// MaxCUs, without the processor's slow division.
type divider struct {
	by         int
	reciprocal uint32 // 2^20/by, rounded up
}

func newDivider(by int) divider {
	return divider{by: by, reciprocal: 1<<20/uint32(by) + 1}
}

// divide returns n/by and n%by. The reciprocal is too large by at most one, so
// n times it is too large by at most 2^10 parts in 2^20: not enough to reach
// the next quotient, which is 1/by, at least 2^10 parts, away.
func (d divider) divide(n int) (quotient, rest int) {
	quotient = int(uint32(n) * d.reciprocal >> 20)
	return quotient, n - quotient*d.by
}
