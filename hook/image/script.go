package image

import (
	"bytes"
	"path"
	"strings"
)

const (
	// maxScriptLine is how much of a script the kernel looks at for its
	// interpreter (BINPRM_BUF_SIZE).
	maxScriptLine = 256
	// maxScripts is how many interpreters may themselves be scripts
	// (fs/exec.c).
	maxScripts = 5
)

// shebang reads the interpreter of a script, and its argument: all that
// follows, blanks included.
func shebang(head []byte) (interp, arg string, ok bool) {
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", "", false
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	text := strings.Trim(string(line), " \t\x00")
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.Trim(text[i:], " \t"), true
	}
	return text, "", text != ""
}

// throughEnv is the program that env, called with args, becomes; "" if name is
// not env or env is asked for no program. env passes LD_AUDIT on, unless an
// option tells it to clear the environment: with options nothing is promised.
func throughEnv(name string, args []string) (string, error) {
	if path.Base(name) != "env" {
		return "", nil
	}
	if len(args) > 0 && args[0] == "-S" {
		args = args[1:]
	}
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-"):
			return "", unknown("env is called with the option %q", a)
		case !strings.Contains(a, "="):
			return a, nil
		}
	}
	return "", nil
}

// envArgs splits the argument of a script whose interpreter is env: one word,
// or several after -S.
func envArgs(arg string) []string {
	if rest, ok := strings.CutPrefix(arg, "-S"); ok {
		return strings.Fields(rest)
	}
	if arg == "" {
		return nil
	}
	return []string{arg}
}
