package plugin

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// ErrUsage is a command line the plugin does not understand: an unknown flag,
// a flag without its value, an argument. A main prints the usage and exits
// with 2. Every other error of ParseArgs is a value that cannot be, for which
// it exits with 1.
var ErrUsage = errors.New("bad command line")

// defaultVerbosity is the one default that is not the zero value of its field.
const defaultVerbosity = 2

// ParseArgs reads a command line, without the program's name, and the
// environment into a Config that Validate accepts. A variable that is set but
// empty counts as not given.
//
// It returns flag.ErrHelp for -h and -help, and prints nothing.
func ParseArgs(args []string, getenv func(string) string) (Config, error) {
	c := Config{Verbosity: defaultVerbosity}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var bad error // of the first value that could not be read
	for _, s := range Settings() {
		if s.Flag != "" {
			flags.Var(&flagValue{setting: s, config: &c, bad: &bad}, s.Flag, s.Usage)
		}
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return Config{}, flag.ErrHelp
	case bad != nil:
		return Config{}, bad
	case err != nil:
		return Config{}, fmt.Errorf("%w: %w", ErrUsage, err)
	case flags.NArg() > 0:
		return Config{}, fmt.Errorf("%w: unexpected argument %s", ErrUsage, excerpt(flags.Arg(0)))
	}
	for _, s := range Settings() {
		if s.Variable == "" {
			continue
		}
		if text := getenv(s.Variable); text != "" {
			if err := s.set(&c, text); err != nil {
				return Config{}, fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	if c.NodeName == "" && !c.Standalone {
		return Config{}, errors.New("NODE_NAME is not set: want the Kubernetes name of this node")
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// name is how the user knows the setting.
func (s Setting) name() string {
	if s.Flag != "" {
		return "-" + s.Flag
	}
	return s.Variable
}

// flagValue lets package flag fill one setting.
type flagValue struct {
	setting Setting
	config  *Config
	bad     *error
}

func (v *flagValue) String() string   { return v.setting.Default }
func (v *flagValue) IsBoolFlag() bool { return v.setting.boolean }

func (v *flagValue) Set(s string) error {
	err := v.setting.set(v.config, s)
	if err != nil && *v.bad == nil {
		*v.bad = fmt.Errorf("%s: %w", v.setting.name(), err)
	}
	return err
}

// Usage writes the help text of a program that is called so.
func Usage(w io.Writer, program string) {
	fmt.Fprintf(w, "%s is the HAMi device plugin for AMD GPUs.\n\nUsage: %s [flags]\n       %s -version\n", program, program, program)
	section := func(title string, in func(Setting) bool) {
		fmt.Fprintf(w, "\n%s\n", title)
		for _, s := range Settings() {
			if in(s) {
				fmt.Fprintf(w, "  %s\n%s", head(s), wrapped(s.Usage, "        ", 80))
			}
		}
	}
	section("Flags:", func(s Setting) bool { return s.Flag != "" && !s.Host })
	section("Environment variables:", func(s Setting) bool { return s.Variable != "" })
	section("Flags for tests and unusual hosts:", func(s Setting) bool { return s.Host })
}

// head is the line of a setting above its description.
func head(s Setting) string {
	text := s.name()
	switch {
	case s.Default != "":
		text += " (default " + s.Default + ")"
	case s.Variable != "NODE_NAME":
		text += " (default empty)"
	}
	return text
}

// wrapped breaks text into indented lines of at most width bytes, as far as
// its words allow.
func wrapped(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line) > len(indent) && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
