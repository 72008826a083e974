package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"
)

// format is the value of -o, one of a fixed few.
type format struct {
	value   string
	allowed []string
}

func (f *format) String() string { return f.value }
func (f *format) Type() string   { return strings.Join(f.allowed, "|") }

func (f *format) Set(s string) error {
	if !slices.Contains(f.allowed, s) {
		return fmt.Errorf("want one of %s", strings.Join(f.allowed, ", "))
	}
	f.value = s
	return nil
}

// addFormat gives cmd its -o; the first of allowed is the default.
func addFormat(cmd *cobra.Command, allowed ...string) *format {
	f := &format{value: allowed[0], allowed: allowed}
	cmd.Flags().VarP(f, "output", "o", "output format")
	// The error is a second registration of the same flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return f
}

// printJSON writes v, with escapes for what is not printable and encoding/json
// leaves as it is: a terminal takes U+009B for an escape sequence too, and
// U+202E turns the rest of the line around.
func printJSON(w io.Writer, v any) error {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range plain.String() {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, half := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, half)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// page is text for people. Names come from annotations and files: what is not
// printable in them is replaced, so that they reach the terminal neither as
// escape sequences nor as lines of their own.
type page struct{ b strings.Builder }

// printText writes a page.
func printText(cmd *cobra.Command, write func(*page)) error {
	var p page
	write(&p)
	_, err := io.WriteString(cmd.OutOrStdout(), p.b.String())
	return err
}

// line adds a line.
func (p *page) line(format string, args ...any) {
	p.b.WriteString(strings.Map(printable, fmt.Sprintf(format, args...)))
	p.b.WriteByte('\n')
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// table adds aligned columns, without blanks at the end of a line.
func (p *page) table(header []string, rows [][]string) {
	var aligned strings.Builder
	t := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.Map(printable, cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // a Builder takes everything
	for line := range strings.Lines(aligned.String()) {
		p.line("%s", strings.TrimRight(line, " \n"))
	}
}

// note writes one line to standard error, whatever the text holds.
func note(cmd *cobra.Command, text string) {
	fmt.Fprintln(cmd.ErrOrStderr(), oneLine(text))
}

func oneLine(s string) string {
	return strings.Map(printable, strings.Join(strings.Fields(s), " "))
}
