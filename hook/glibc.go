package hook

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Glibc is a version of the GNU C library, such as 2.34 or 2.2.5. The zero
// value is none.
type Glibc struct{ Major, Minor, Patch int }

// ParseGlibc reads two or three decimal numbers with dots.
func ParseGlibc(s string) (Glibc, error) {
	var n [3]int
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return Glibc{}, fmt.Errorf("glibc version: want two or three numbers with dots, have %q", s)
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil || len(p) > 1 && p[0] == '0' {
			return Glibc{}, fmt.Errorf("glibc version: want two or three numbers with dots, have %q", s)
		}
		n[i] = int(v)
	}
	return Glibc{n[0], n[1], n[2]}, nil
}

// String is the version as glibc writes it.
func (v Glibc) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Compare orders versions by their numbers: 2.4 is before 2.34.
func (v Glibc) Compare(w Glibc) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// ErrPrivate is a library that uses glibc's private interfaces. They change
// with every build of glibc, so it works with no image but its own.
var ErrPrivate = errors.New("needs GLIBC_PRIVATE")

// NewestGlibc picks the newest of symbol versions such as GLIBC_2.2.5 and
// GLIBC_2.34: of versions that a library needs, the glibc it needs at least;
// of those that libc.so.6 defines, its own. Names that are no release
// (GLIBC_ABI_DT_RELR, GCC_3.0) are passed over, and so is GLIBC_PRIVATE, which
// every libc.so.6 defines. It is the zero version if none is left.
func NewestGlibc(symbols []string) Glibc {
	var newest Glibc
	for _, s := range symbols {
		text, ok := strings.CutPrefix(s, "GLIBC_")
		if !ok {
			continue
		}
		if v, err := ParseGlibc(text); err == nil && v.Compare(newest) > 0 {
			newest = v
		}
	}
	return newest
}
