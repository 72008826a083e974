package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the repository's, seen from this folder.
const root = ".."

// block is a fenced block of a document.
type block struct {
	file     string
	line     int
	language string // the first word of its info string
	kind     string // the others
	text     string
}

// document is one of this folder's files.
type document struct {
	name   string
	text   string  // as it is
	prose  string  // without its blocks
	blocks []block // in order
}

// documents reads all of this folder.
func documents(t *testing.T) []document {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	var out []document
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parse(t, file, string(source)))
	}
	return out
}

func parse(t *testing.T, file, source string) document {
	t.Helper()
	d := document{name: file, text: source}
	var open *block
	var prose strings.Builder
	n := 0
	for line := range strings.Lines(source) {
		n++
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			language, kind, _ := strings.Cut(strings.TrimSpace(info), " ")
			open = &block{file: file, line: n, language: language, kind: kind}
		case fence:
			d.blocks = append(d.blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		default:
			prose.WriteString(line)
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", file, open.line)
	}
	d.prose = prose.String()
	return d
}

// each calls check for all blocks of a language and kind.
func each(t *testing.T, language, kind string, check func(*testing.T, block)) {
	t.Helper()
	found := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language == language && b.kind == kind {
				found++
				t.Run(strings.TrimSuffix(b.file, ".md"), func(t *testing.T) { check(t, b) })
			}
		}
	}
	if found == 0 {
		t.Errorf("no block %s %s", language, kind)
	}
}

// Every block is of a kind that something checks.
func TestBlocksAreOfKnownKinds(t *testing.T) {
	known := map[string]bool{
		"sh": true, "sh cluster": true, "text output": true, "yaml": true, "yaml values": true, "yaml hami": true,
		"yaml prometheus": true, "promql": true, "mermaid": true,
	}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			name := strings.TrimSpace(b.language + " " + b.kind)
			if !known[name] && (b.language != "text" || !strings.HasPrefix(b.kind, "hami.io/")) {
				t.Errorf("%s:%d: nothing checks a block %q", b.file, b.line, name)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor  = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are what GitHub makes of a document's headings.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// Links lead to files and headings that exist.
func TestLinks(t *testing.T) {
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(d.prose, -1) {
			if strings.Contains(m[1], "://") {
				if !strings.HasPrefix(m[1], "https://") {
					t.Errorf("%s: %s is not https", d.name, m[1])
				}
				continue
			}
			file, fragment, _ := strings.Cut(m[1], "#")
			text := d.text
			if file != "" {
				b, err := os.ReadFile(filepath.FromSlash(file))
				if info, statErr := os.Stat(filepath.FromSlash(file)); statErr == nil && info.IsDir() {
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", d.name, err)
					continue
				}
				text = string(b)
			}
			if fragment != "" && !anchors(text)[fragment] {
				t.Errorf("%s: %s has no heading %q", d.name, m[1], fragment)
			}
		}
	}
}

// The alerts of the chart lead to their headings.
func TestRunbooks(t *testing.T) {
	rules, err := os.ReadFile(root + "/examples/deviceplugin/chart/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`blob/main/docs/(\S+)#(\S+)`).FindAllStringSubmatch(string(rules), -1)
	if len(found) == 0 {
		t.Fatal("no runbook_url in the rules")
	}
	for _, m := range found {
		text, err := os.ReadFile(m[1])
		if err != nil {
			t.Error(err)
			continue
		}
		if !anchors(string(text))[m[2]] {
			t.Errorf("%s has no heading %q", m[1], m[2])
		}
	}
}
