package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// result is what one run of the command left behind.
type result struct {
	stdout, stderr string
	code           int
}

// amdctl runs the command in this process, at a fixed time.
func amdctl(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	clock := func() time.Time { return time.Unix(1787300000, 0) }
	code := run(clock, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

// ok runs the command and fails the test unless it exits with 0.
func ok(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	r := amdctl(t, stdin, args...)
	if r.code != 0 {
		t.Fatalf("amdctl %s: exit code %d: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// refused runs the command and fails the test unless it prints nothing but one
// line that holds all words, and exits with 1.
func refused(t *testing.T, stdin string, args []string, words ...string) {
	t.Helper()
	r := amdctl(t, stdin, args...)
	if r.code != 1 || r.stdout != "" {
		t.Errorf("amdctl %.200q: exit code %d, output %q, want code 1 and none", args, r.code, r.stdout)
	}
	line, rest, _ := strings.Cut(r.stderr, "\n")
	if !strings.HasPrefix(line, "amdctl: ") || rest != "" {
		t.Errorf("amdctl %.200q: standard error %q, want one line", args, r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("amdctl %.200q: error %q does not name %q", args, line, word)
		}
	}
}

// golden compares output and notes with testdata/<name>.golden.
func golden(t *testing.T, name string, r result) {
	t.Helper()
	got := r.stdout
	if r.stderr != "" {
		got += "--- standard error\n" + r.stderr
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
	for line := range strings.Lines(got) {
		if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
			t.Errorf("%s: blanks at the end of %q", file, line)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"unknown command":        {[]string{"explode"}, []string{`unknown command "explode"`}},
		"unknown flag":           {[]string{"pack", "--sus", "3"}, []string{"--sus"}},
		"unknown output format":  {[]string{"discover", "-o", "yaml"}, []string{"table", "annotation", "json"}},
		"argument where none is": {[]string{"discover", "/sys"}, []string{"/sys"}},
		"a percentage of CUs":    {[]string{"pack", "--cus", "304", "--want", "25%"}, []string{`"25%" for "--want"`, "want a whole number"}},
		"a number without end":   {[]string{"pack", "--cus", "99999999999999999999"}, []string{"--cus", "too large"}},
		"a load that is none":    {[]string{"simulate", "--load", "full"}, []string{"--load", "want a number"}},
		"a seed below 0":         {[]string{"simulate", "--seed", "-1"}, []string{"--seed", "want a whole number of 0 or more"}},
		"no truth":               {[]string{"verify", "--list=often"}, []string{"--list", "want true or false"}},
		"required flags":         {[]string{"pack"}, []string{"cus", "want"}},
		"no value to decode":     {[]string{"decode", "hami.io/mutex.lock"}, []string{"want KEY and VALUE, found 1 argument"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", tc.args, tc.words...) })
	}
}

func TestHelpTeaches(t *testing.T) {
	root := newRoot(time.Now)
	commands := append(root.Commands(), root)
	for _, cmd := range commands {
		if cmd.Long == "" || cmd.Short == "" || !strings.Contains(cmd.Example, "amdctl") {
			t.Errorf("%s: want a short and a long description and examples", cmd.CommandPath())
		}
		args := append(strings.Fields(cmd.CommandPath())[1:], "-h")
		help := ok(t, "", args...).stdout
		for line := range strings.Lines(help) {
			if len(line) > 110 {
				t.Errorf("amdctl %s: line of %d bytes: %s", strings.Join(args, " "), len(line), line)
			}
		}
		if cmd != root && cmd.Flags().Lookup("output") == nil {
			t.Errorf("%s has no -o", cmd.CommandPath())
		}
	}
	if got, want := ok(t, "").stdout, ok(t, "", "-h").stdout; got != want {
		t.Errorf("amdctl alone prints %q, want its help", got)
	}
}

func TestCompletion(t *testing.T) {
	if got := ok(t, "", "completion", "bash").stdout; !strings.Contains(got, "__start_amdctl") {
		t.Error("completion bash prints no completion for amdctl")
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"keys":    {[]string{"decode", "hami.io/amd-cu-"}, "hami.io/amd-cu-allocated\nhami.io/amd-cu-containers\n"},
		"formats": {[]string{"discover", "-o", ""}, "table\nannotation\njson\n"},
		"modes":   {[]string{"discover", "--mode", ""}, "cu\npartition\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ok(t, "", append([]string{"__complete"}, tc.args...)...).stdout
			got, _, _ = strings.Cut(got, ":")
			if !strings.HasPrefix(got, tc.want) && !strings.Contains(got, tc.want) {
				t.Errorf("completions %q, want %q", got, tc.want)
			}
		})
	}
}
