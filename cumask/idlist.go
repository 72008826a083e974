package cumask

import (
	"errors"
	"fmt"
)

// ErrSyntax is the kind of every error about text that is not an ID list or
// not a mask.
var ErrSyntax = errors.New("syntax error")

// ParseSet reads an ID list as it stands in hami.io/amd-cu-allocated and in
// HSA_CU_MASK: CUs and ascending ranges of CUs in decimal, separated by commas
// ("0-3,8,10-12"), in any order. [Set.String] prints the canonical form.
//
// It accepts nothing that ROCr (flag.cpp) would refuse or read otherwise:
// repeated CUs, descending ranges, empty parts, signs, blanks, hexadecimal,
// numbers above MaxCUs-1 and the empty list are errors of kind [ErrSyntax]
// that quote the offending part. Whether the CUs exist on a certain GPU is for
// [Geometry.Check] to say.
func ParseSet(list string) (Set, error) {
	var s Set
	if list == "" {
		return Set{}, fmt.Errorf("cu list %q: want at least one cu: %w", list, ErrSyntax)
	}
	for rest, more := list, true; more; {
		var part string
		part, rest, more = cut(rest, ',')
		lo, hi, err := parseRange(part, MaxCUs-1)
		if err != nil {
			return Set{}, fmt.Errorf("cu list %q: %w", clip(list), err)
		}
		if cu := s.addRange(lo, hi); cu >= 0 {
			return Set{}, fmt.Errorf("cu list %q: part %q names cu %d again: %w", clip(list), clip(part), cu, ErrSyntax)
		}
	}
	return s, nil
}

// parseRange reads "n" or "lo-hi" with lo <= hi <= limit.
func parseRange(part string, limit int) (lo, hi int, err error) {
	n, rest := digits(part, limit)
	lo, hi = n, n
	if n >= 0 && rest != "" && rest[0] == '-' {
		hi, rest = digits(rest[1:], limit)
	}
	switch {
	case part == "":
		return 0, 0, fmt.Errorf("empty part: %w", ErrSyntax)
	case lo < 0 || hi < 0 || rest != "":
		return 0, 0, fmt.Errorf("part %q: want a number or lo-hi: %w", clip(part), ErrSyntax)
	case lo > limit || hi > limit:
		return 0, 0, fmt.Errorf("part %q: want numbers up to %d: %w", clip(part), limit, ErrSyntax)
	case lo > hi:
		return 0, 0, fmt.Errorf("part %q: want an ascending range: %w", clip(part), ErrSyntax)
	}
	return lo, hi, nil
}

// digits reads the decimal number at the start of s: -1 when there is none,
// limit+1 when it is above limit.
func digits(s string, limit int) (n int, rest string) {
	i := 0
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		n = min(n*10+int(s[i]-'0'), limit+1)
	}
	if i == 0 {
		return -1, s
	}
	return n, s[i:]
}

// cut is strings.Cut for one byte.
func cut(s string, sep byte) (before, after string, found bool) {
	for i := 0; i < len(s); i++ {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// addRange adds lo to hi and returns -1, or returns the lowest of them that
// the set holds already.
func (s *Set) addRange(lo, hi int) int {
	r := Range(lo, hi)
	for i := lo / wordBits; i <= hi/wordBits; i++ {
		if s.w[i]&r.w[i] != 0 {
			again := s.Intersect(r)
			return again.next(0)
		}
		s.w[i] |= r.w[i]
	}
	return -1
}

// clip shortens hostile text for an error message.
func clip(s string) string {
	const limit = 48
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
