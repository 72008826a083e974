package cumask

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// ErrSyntax is the kind of every error about text that is not an ID list or
// not a mask.
var ErrSyntax = errors.New("invalid list or mask")

// ParseSet reads an ID list as it stands in hami.io/amd-cu-allocated and in
// HSA_CU_MASK: CUs and ascending ranges of CUs in decimal, separated by commas
// ("0-3,8,10-12"), in any order. [Set.String] prints the canonical form.
//
// It accepts nothing that ROCr (flag.cpp) would refuse or read otherwise:
// repeated CUs, descending ranges, empty parts, signs, blanks, hexadecimal,
// numbers above MaxCUs-1 and the empty list are errors of kind [ErrSyntax]
// that quote the offending part. Whether the CUs exist on a certain GPU is for
// [Geometry.Check] to say.
func ParseSet(list string) (Set, error) { return parseList(list, "cu") }

// parseList reads an ID list of CUs or, in masks, GPUs; noun says which.
func parseList(list, noun string) (Set, error) {
	var s Set
	if list == "" {
		return Set{}, fmt.Errorf("%s list %q: want at least one %s: %w", noun, list, noun, ErrSyntax)
	}
	for rest, more := list, true; more; {
		var part string
		part, rest, more = cut(rest, ',')
		lo, hi, err := parseRange(part)
		if err != nil {
			return Set{}, fmt.Errorf("%s list %q: %w", noun, clip(list), err)
		}
		if again := s.addRange(lo, hi); again >= 0 {
			return Set{}, fmt.Errorf("%s list %q: part %q: %s %d is there already: %w", noun, clip(list), clip(part), noun, again, ErrSyntax)
		}
	}
	return s, nil
}

// parseRange reads "n" or "lo-hi".
func parseRange(part string) (lo, hi int, err error) {
	lo, rest := number(part)
	hi = lo
	if lo >= 0 && rest != "" && rest[0] == '-' {
		hi, rest = number(rest[1:])
	}
	switch {
	case part == "":
		return 0, 0, fmt.Errorf("empty part: %w", ErrSyntax)
	case lo < 0 || hi < 0 || rest != "":
		return 0, 0, fmt.Errorf("part %q: want a number or lo-hi: %w", clip(part), ErrSyntax)
	case lo >= MaxCUs || hi >= MaxCUs:
		return 0, 0, fmt.Errorf("part %q: want numbers up to %d: %w", clip(part), MaxCUs-1, ErrSyntax)
	case lo > hi:
		return 0, 0, fmt.Errorf("part %q: want an ascending range: %w", clip(part), ErrSyntax)
	}
	return lo, hi, nil
}

// number reads the decimal number at the start of s: -1 when there is none,
// MaxCUs when it is that or more.
func number(s string) (n int, rest string) {
	i := 0
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		n = min(n*10+int(s[i]-'0'), MaxCUs)
	}
	if i == 0 {
		return -1, s
	}
	return n, s[i:]
}

// cut is strings.Cut for one byte.
func cut(s string, sep byte) (before, after string, found bool) {
	if i := strings.IndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// addRange adds lo to hi and returns -1, or returns the lowest of them that
// the set holds already.
func (s *Set) addRange(lo, hi int) (again int) {
	for i := lo / wordBits; i <= hi/wordBits; i++ {
		word := rangeWord(i, lo, hi)
		if both := s.w[i] & word; both != 0 {
			return i*wordBits + bits.TrailingZeros64(both)
		}
		s.w[i] |= word
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
