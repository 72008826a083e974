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

// folded writes a long value on as many lines as it needs, broken after a
// separator and indented a little more from the second on.
func (r *report) folded(indent, text string) {
	for i, part := range fold(text, r.term.width-len(indent)-2) {
		if i > 0 {
			part = "  " + part
		}
		r.line(indent, part)
	}
}

// fold cuts text into parts of at most width bytes, each after a separator if
// there is one in the part's second half: between members of the values shown
// here, else inside one.
func fold(text string, width int) []string {
	var parts []string
	for len(text) > width {
		at := width
		for _, separators := range []string{",; ", ":="} {
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
