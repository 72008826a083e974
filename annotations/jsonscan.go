package annotations

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A scanner reads one JSON value (RFC 8259) from a string, front to back, and
// hands out parts of that string instead of copies. It accepts what
// encoding/json accepts except for what would make two readers see two things:
// a member name that occurs twice in an object, text that is not valid UTF-8,
// half a surrogate pair, and a number no float64 can hold. It is bounded in nesting and in members per object.
type scanner struct {
	s     string
	i     int  // next byte to read
	plain bool // s has no escapes, no control characters and nothing beyond ASCII
}

func newScanner(s string) scanner { return scanner{s: s, plain: plainASCII(s)} }

// last makes sure, if reading the value went well, that nothing follows it.
func (p *scanner) last(err error) error {
	if err != nil {
		return err
	}
	if p.space(); p.i < len(p.s) {
		return p.wrong("the end")
	}
	return nil
}

// plainASCII reports whether a string in s simply ends at the next quote, as in
// every value a plugin writes: the strings then need no second look.
func plainASCII(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		// Eight bytes at once, as in "Determine if a word has a byte less than n"
		// of Anderson's Bit Twiddling Hacks: the top bit of a byte of bad is set if
		// the byte is below a space, a backslash or beyond ASCII.
		const ones = 0x0101010101010101
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		y := x ^ ones*'\\'
		bad := (x - ones*' ') | (y - ones) | x
		if bad&(ones*0x80) != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '\\' || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// space skips white space.
func (p *scanner) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end. No token starts
// with a zero byte.
func (p *scanner) peek() byte {
	if p.i < len(p.s) && p.s[p.i] > ' ' {
		return p.s[p.i]
	}
	p.space()
	if p.i == len(p.s) {
		return 0
	}
	return p.s[p.i]
}

// wrong says what was wanted where the scanner stands.
func (p *scanner) wrong(want string) error {
	if p.i >= len(p.s) {
		return fmt.Errorf("byte %d: want %s, found the end", p.i, want)
	}
	return fmt.Errorf("byte %d: want %s, found %s", p.i, want, quote(p.s[p.i:]))
}

// take reads the one-byte token c.
func (p *scanner) take(c byte, want string) error {
	if p.peek() != c {
		return p.wrong(want)
	}
	p.i++
	return nil
}

// object reads an object. It calls member with each name, standing before the
// member's value, which member must read.
func (p *scanner) object(member func(name string) error) error {
	if err := p.take('{', "an object"); err != nil {
		return err
	}
	if p.peek() == '}' {
		p.i++
		return nil
	}
	var few [12]string // enough for a device, so that the usual object costs no allocation
	names := few[:0]
	for {
		name, err := p.str("a member name")
		if err != nil {
			return err
		}
		if slices.Contains(names, name) {
			return fmt.Errorf("member %s is there twice", quote(name))
		}
		if len(names) == maxMembers {
			return fmt.Errorf("more than %d members in one object", maxMembers)
		}
		names = append(names, name)
		if err := p.take(':', `":"`); err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.i++
		case '}':
			p.i++
			return nil
		default:
			return p.wrong(`"," or "}"`)
		}
	}
}

// array reads an array of at most most elements. It calls element with each
// index, standing before the element, which element must read.
func (p *scanner) array(most int, element func(i int) error) error {
	if err := p.take('[', "a list"); err != nil {
		return err
	}
	if p.peek() == ']' {
		p.i++
		return nil
	}
	for i := 0; ; i++ {
		if i == most {
			return fmt.Errorf("more than %d elements in one list", most)
		}
		if err := element(i); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.i++
		case ']':
			p.i++
			return nil
		default:
			return p.wrong(`"," or "]"`)
		}
	}
}

// raw checks the next value, whatever it is, and returns its text.
func (p *scanner) raw() (string, error) {
	p.space()
	start := p.i
	if err := p.skip(0); err != nil {
		return "", err
	}
	return p.s[start:p.i], nil
}

// skip reads past any value that is correct JSON.
func (p *scanner) skip(depth int) error {
	if depth == maxDepth {
		return fmt.Errorf("more than %d values nested", maxDepth)
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(func(string) error { return p.skip(depth + 1) })
	case c == '[':
		return p.array(math.MaxInt, func(int) error { return p.skip(depth + 1) })
	case c == '"':
		_, err := p.str("a string")
		return err
	case c == '-' || (c >= '0' && c <= '9'):
		_, err := p.number()
		return err
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(p.s[p.i:], word) {
			p.i += len(word)
			return nil
		}
	}
	return p.wrong("a value")
}

// errOtherShape says that a value is correct JSON but of another type than the
// reader knows. It never leaves the package.
var errOtherShape = errors.New("another type")
