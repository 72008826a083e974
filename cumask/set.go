package cumask

import (
	"iter"
	"math/bits"
	"strconv"
)

// MaxCUs is how many compute units a Set can name, 0 to MaxCUs-1. The kernel
// cuts a queue's mask off at the same number of bits (kfd_chardev.c,
// AMDKFD_IOC_SET_CU_MASK).
const MaxCUs = 1024

const (
	wordBits = 64
	words    = MaxCUs / wordBits
)

// A Set is a set of compute units of one GPU, by mask bit: bit i is the i-th
// active CU in the order in which the kernel deals a queue's mask out to the
// hardware (see [Geometry.Locate]).
//
// A Set is a plain value: the zero value is the empty set, == compares, copies
// are independent, and no operation on it allocates.
type Set struct {
	w [words]uint64
}

// Of returns the set of the given CUs. Numbers outside 0 to MaxCUs-1 name no
// CU and are left out; a repeated one counts once.
func Of(cus ...int) Set {
	var s Set
	for _, cu := range cus {
		if uint(cu) < MaxCUs {
			s.w[cu/wordBits] |= 1 << (cu % wordBits)
		}
	}
	return s
}

// Range returns the set of the CUs lo to hi, both included. What lies outside
// 0 to MaxCUs-1 is left out; with lo above hi the set is empty.
func Range(lo, hi int) Set {
	var s Set
	lo, hi = max(lo, 0), min(hi, MaxCUs-1)
	if lo > hi {
		return s
	}
	for i := lo / wordBits; i <= hi/wordBits; i++ {
		s.w[i] = rangeWord(i, lo, hi)
	}
	return s
}

// rangeWord returns word i of the range lo to hi, which reaches into it.
func rangeWord(i, lo, hi int) uint64 {
	w := ^uint64(0)
	if i == lo/wordBits {
		w &= ^uint64(0) << (lo % wordBits)
	}
	if i == hi/wordBits {
		w &= ^uint64(0) >> (wordBits - 1 - hi%wordBits)
	}
	return w
}

// Len returns how many CUs the set holds.
func (s Set) Len() int {
	n := 0
	for _, w := range s.w {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty tells whether the set holds no CU.
func (s Set) Empty() bool { return s == Set{} }

// Has tells whether the set holds the CU; false for a number out of range.
func (s Set) Has(cu int) bool {
	return uint(cu) < MaxCUs && s.w[cu/wordBits]>>(cu%wordBits)&1 != 0
}

// Union returns the CUs in s, in t or in both.
func (s Set) Union(t Set) Set {
	for i := range s.w {
		s.w[i] |= t.w[i]
	}
	return s
}

// Intersect returns the CUs in both s and t.
func (s Set) Intersect(t Set) Set {
	for i := range s.w {
		s.w[i] &= t.w[i]
	}
	return s
}

// Minus returns the CUs in s that are not in t.
func (s Set) Minus(t Set) Set {
	for i := range s.w {
		s.w[i] &^= t.w[i]
	}
	return s
}

func (s *Set) put(cu int)  { s.w[cu/wordBits] |= 1 << (cu % wordBits) }
func (s *Set) drop(cu int) { s.w[cu/wordBits] &^= 1 << (cu % wordBits) }

// All yields the CUs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.w {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Ranges yields the maximal runs of consecutive CUs as (first, last), both
// included, in ascending order: what String prints.
func (s Set) Ranges() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for lo := s.next(0); lo < MaxCUs; {
			end := s.nextOut(lo + 1)
			if !yield(lo, end-1) {
				return
			}
			lo = s.next(end)
		}
	}
}

// next returns the lowest CU of the set that is at least from, or MaxCUs.
func (s *Set) next(from int) int {
	for i := from / wordBits; i < words; i++ {
		w := s.w[i]
		if i == from/wordBits {
			w &= ^uint64(0) << (from % wordBits)
		}
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return MaxCUs
}

// nextOut returns the lowest number at least from that is not in the set, at
// most MaxCUs.
func (s *Set) nextOut(from int) int {
	for i := from / wordBits; i < words; i++ {
		w := ^s.w[i]
		if i == from/wordBits {
			w &= ^uint64(0) << (from % wordBits)
		}
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return MaxCUs
}

// String returns the canonical ID list: ascending, neighbours merged, such as
// "0-3,8,10-12". The empty set, which no ID list can name, gives "".
func (s Set) String() string {
	var buf [64]byte
	return string(s.append(buf[:0]))
}

// AppendText appends the set as String prints it, and never fails. It
// implements [encoding.TextAppender].
func (s Set) AppendText(b []byte) ([]byte, error) { return s.append(b), nil }

func (s *Set) append(b []byte) []byte {
	first := true
	for lo := s.next(0); lo < MaxCUs; {
		end := s.nextOut(lo + 1)
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendInt(b, int64(lo), 10)
		if end-1 > lo {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(end-1), 10)
		}
		lo = s.next(end)
	}
	return b
}
