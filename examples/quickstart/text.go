package main

import (
	"fmt"
	"strings"
)

// line writes one line.
func (r *report) line(indent, text string) {
	if r.err == nil {
		_, r.err = fmt.Fprintln(r.w, strings.TrimRight(indent+text, " "))
	}
}

func (r *report) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *report) title(text string) {
	r.line("", "")
	r.line("", r.bold(text))
	r.line("", "")
}

// What a value is best broken after: a grant, or a member of anything else.
const (
	grantEnds  = ":;"
	memberEnds = ",; "
)

// folded writes a long value on as many lines as it needs, broken after a
// separator and indented a little more from the second on.
func (r *report) folded(indent, text, best string) {
	for i, part := range fold(text, r.term.width-len(indent)-2, best) {
		if i > 0 {
			part = "  " + part
		}
		r.line(indent, part)
	}
}

// wrapped writes words on as many lines as they need; one that is longer than a
// line is folded.
func (r *report) wrapped(indent string, words []string) {
	line := ""
	for _, word := range words {
		if line != "" && len(indent)+len(line)+1+len(word) > r.term.width {
			r.folded(indent, line, memberEnds)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		r.folded(indent, line, memberEnds)
	}
}

// fold cuts text into parts of at most width bytes, each after the last of the
// best separators in its second half, else after another one.
func fold(text string, width int, best string) []string {
	var parts []string
	for len(text) > width {
		at := width
		for _, separators := range []string{best, memberEnds, ":="} {
			if i := strings.LastIndexAny(text[:width], separators) + 1; i > width/2 {
				at = i
				break
			}
		}
		parts = append(parts, strings.TrimRight(text[:at], " "))
		text = text[at:]
	}
	return append(parts, text)
}

// The colours are those every terminal has (ECMA-48).
func (r *report) bold(s string) string { return r.paint("1", s) }
func (r *report) dim(s string) string  { return r.paint("2", s) }
func (r *report) key(s string) string  { return r.paint("36", s) }
func (r *report) bad(s string) string  { return r.paint("31", s) }

func (r *report) paint(code, s string) string {
	if !r.term.color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
