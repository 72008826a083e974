package main

import (
	"os"
	"strconv"

	"golang.org/x/term"
)

// terminal is what the output may use.
type terminal struct {
	width int
	color bool
}

// terminalOf is the terminal behind f: its width, and colours unless NO_COLOR
// (no-color.org) or TERM=dumb says otherwise. A file or pipe is plain and 100
// wide, or as COLUMNS says. The tables need 80 columns.
func terminalOf(f *os.File, env func(string) (string, bool)) terminal {
	t := terminal{width: 100}
	if s, ok := env("COLUMNS"); ok {
		if n, err := strconv.Atoi(s); err == nil {
			t.width = n
		}
	}
	if fd := int(f.Fd()); term.IsTerminal(fd) {
		if n, _, err := term.GetSize(fd); err == nil {
			t.width = n
		}
		noColor, _ := env("NO_COLOR")
		kind, _ := env("TERM")
		t.color = noColor == "" && kind != "dumb"
	}
	t.width = min(max(t.width, 80), 160)
	return t
}
