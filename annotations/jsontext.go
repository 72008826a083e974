package annotations

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string and resolves its escapes.
func (p *scanner) str(want string) (string, error) {
	if err := p.take('"', want); err != nil {
		return "", err
	}
	start := p.i
	if p.plain {
		if n := strings.IndexByte(p.s[start:], '"'); n >= 0 {
			p.i = start + n + 1
			return p.s[start : start+n], nil
		}
	}
	for i := start; i < len(p.s); i++ {
		c := p.s[i]
		if c == '"' {
			p.i = i + 1
			return p.s[start:i], nil
		}
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			p.i = i
			return p.strRest([]byte(p.s[start:i]))
		}
	}
	p.i = len(p.s)
	return "", p.wrong("a closing quote")
}

// strRest reads a string from its first byte that is not plain ASCII, appending
// to what went before.
func (p *scanner) strRest(b []byte) (string, error) {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return string(b), nil
		case c < ' ':
			return "", p.wrong("an escaped control character")
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		default:
			r, n := utf8.DecodeRuneInString(p.s[p.i:])
			if r == utf8.RuneError && n == 1 {
				return "", p.wrong("UTF-8")
			}
			b = append(b, p.s[p.i:p.i+n]...)
			p.i += n
		}
	}
	return "", p.wrong("a closing quote")
}

// escape reads one escape sequence; a character outside the basic plane is two.
func (p *scanner) escape() (rune, error) {
	rest := p.s[p.i:]
	if len(rest) < 2 {
		return 0, p.wrong("an escape sequence")
	}
	if rest[1] != 'u' {
		at := strings.IndexByte(`"\/bfnrt`, rest[1])
		if at < 0 {
			return 0, p.wrong("an escape sequence")
		}
		p.i += 2
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	r, ok := hex4(rest)
	if !ok {
		return 0, p.wrong("an escape sequence")
	}
	if !utf16.IsSurrogate(r) {
		p.i += 6
		return r, nil
	}
	low, ok := hex4(rest[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, p.wrong("a whole surrogate pair")
	}
	p.i += 12
	return r, nil
}

// hex4 reads \uXXXX at the start of s.
func hex4(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[2:6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number and returns its text.
func (p *scanner) number() (string, error) {
	p.space()
	start := p.i
	digits := func() bool {
		first := p.i
		for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
			p.i++
		}
		return p.i > first
	}
	next := func(set string) bool {
		if p.i < len(p.s) && strings.IndexByte(set, p.s[p.i]) >= 0 {
			p.i++
			return true
		}
		return false
	}
	next("-")
	ok := next("0") || digits()
	if ok && next(".") {
		ok = digits()
	}
	if ok && next("eE") {
		next("+-")
		ok = digits()
	}
	text := p.s[start:p.i]
	if p.i < len(p.s) && strings.IndexByte(" \t\r\n,]}", p.s[p.i]) < 0 {
		ok = false // 012, 0x10 and the like: the message shall show all of it
	}
	if ok && (len(text) > 300 || strings.ContainsAny(text, "eE")) {
		// encoding/json, and so HAMi, fails at a number that no float64 can hold.
		_, err := strconv.ParseFloat(text, 64)
		ok = err == nil
	}
	if !ok {
		p.i = start
		return "", p.wrong("a number")
	}
	return text, nil
}

// count reads a whole number from 0 to the largest int32.
func (p *scanner) count() (int32, error) {
	p.space()
	// The usual number needs no second look: up to nine digits and a delimiter.
	var n int32
	for i := p.i; i < len(p.s) && i < p.i+10; i++ {
		c := p.s[i] - '0'
		if c <= 9 && (n > 0 || i == p.i) {
			n = n*10 + int32(c)
			continue
		}
		if i > p.i && (p.s[i] == ',' || p.s[i] == '}') {
			p.i = i
			return n, nil
		}
		break
	}
	text, err := p.numberText()
	if err != nil {
		return 0, err
	}
	n, ok := parseCount(text)
	if !ok {
		return 0, fmt.Errorf("want a whole number from 0 to %d, found %s", math.MaxInt32, quote(text))
	}
	return n, nil
}

// numberText is number for a field that must hold one: the error shows the
// other value.
func (p *scanner) numberText() (string, error) {
	if c := p.peek(); c == '-' || (c >= '0' && c <= '9') {
		return p.number()
	}
	other, err := p.raw()
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("want a number, found %s", quoteValue(other))
}

// text reads a string for a field that must hold one: the error shows the other
// value.
func (p *scanner) text() (string, error) {
	if p.peek() == '"' {
		return p.str("a string")
	}
	other, err := p.raw()
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("want a string, found %s", quoteValue(other))
}

// boolean reads true or false.
func (p *scanner) boolean() (bool, error) {
	other, err := p.raw()
	switch {
	case err != nil:
		return false, err
	case other == "true":
		return true, nil
	case other == "false":
		return false, nil
	}
	return false, fmt.Errorf("want true or false, found %s", quoteValue(other))
}
