package dmem

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Limit is a value of dmem.max in bytes. [Max] is "max": no limit.
type Limit uint64

// Max is no limit.
const Max Limit = math.MaxUint64

// String is the limit as the kernel writes it.
func (l Limit) String() string {
	if l == Max {
		return "max"
	}
	return strconv.FormatUint(uint64(l), 10)
}

// line is one line of a dmem file.
type line struct {
	region string
	value  Limit
}

// parseLines reads what kernel/cgroup/dmem.c prints for dmem.max,
// dmem.current, dmem.peak and dmem.capacity: a region, one blank and a decimal
// number or "max", each line ended by a newline. A region that is listed twice
// is an error: which of two limits holds could not be told.
func parseLines(content string) ([]line, error) {
	var lines []line
	seen := make(map[string]bool)
	for n := 1; content != ""; n++ {
		text, rest, _ := strings.Cut(content, "\n")
		content = rest
		l, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if seen[l.region] {
			return nil, fmt.Errorf("line %d: region %q is listed twice", n, l.region)
		}
		seen[l.region] = true
		lines = append(lines, l)
	}
	return lines, nil
}

func parseLine(text string) (line, error) {
	i := strings.LastIndexByte(text, ' ')
	if i <= 0 {
		return line{}, fmt.Errorf("want a region and a value, have %q", text)
	}
	region, value := text[:i], text[i+1:]
	if !plainRegion(region) {
		return line{}, fmt.Errorf("want a region without blanks, have %q", region)
	}
	if value == "max" {
		return line{region, Max}, nil
	}
	bytes, err := parseBytes(value)
	if err != nil {
		return line{}, fmt.Errorf("value of %q: %w", region, err)
	}
	return line{region, bytes}, nil
}

// parseBytes reads a decimal number. The kernel's largest is below 2^63;
// signs, suffixes and underscores are never printed.
func parseBytes(s string) (Limit, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("want bytes or max, have %q", s)
	}
	return Limit(n), nil
}

// plainRegion reports whether a name can be written to the kernel, which ends
// a region at the first blank.
func plainRegion(s string) bool {
	return s != "" && len(s) < 256 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// values reads a dmem file into a map of regions.
func (t *Tree) values(name string) (map[string]Limit, error) {
	content, err := t.read(name)
	if err != nil {
		return nil, err
	}
	lines, err := parseLines(content)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", t.path(name), err)
	}
	m := make(map[string]Limit, len(lines))
	for _, l := range lines {
		m[l.region] = l.value
	}
	return m, nil
}
