package docs

import (
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/Project-HAMi/hami-amd/"

// graph has for each room, by its folder, the rooms it imports.
type graph map[string]map[string]bool

func (g graph) add(from, to string) {
	if g[from] == nil {
		g[from] = map[string]bool{}
	}
	if to != "" && to != from {
		g[from][to] = true
	}
}

// reaches are all rooms that one imports, directly or not.
func (g graph) reaches(from string) map[string]bool {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(at string) {
		for to := range g[at] {
			if !seen[to] {
				seen[to] = true
				walk(to)
			}
		}
	}
	walk(from)
	return seen
}

// without takes a room out and joins what imports it with what it imports.
func (g graph) without(room string) {
	for from := range g {
		if g[from][room] {
			delete(g[from], room)
			maps.Copy(g[from], g[room])
			delete(g[from], from)
		}
	}
	delete(g, room)
}

// arrows are those that do not follow from others.
func (g graph) arrows() []string {
	var out []string
	for from := range g {
		for to := range g[from] {
			follows := false
			for via := range g[from] {
				follows = follows || via != to && g.reaches(via)[to]
			}
			if !follows {
				out = append(out, from+" --> "+to)
			}
		}
	}
	slices.Sort(out)
	return out
}

// room is the top folder of a package of the repository, "" of any other.
func room(path string) string {
	rest, ok := strings.CutPrefix(path, module)
	if !ok {
		return ""
	}
	if strings.HasPrefix(rest, "internal/") {
		return rest // of no room: what it imports is imported by who imports it
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// imports are the rooms as the code has them. Module hami is read file by file:
// the go command would want HAMi itself.
func imports(t *testing.T) graph {
	t.Helper()
	g := graph{}
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := room(fields[0])
		g.add(from, "")
		for _, path := range fields[1:] {
			g.add(from, room(path))
		}
	}
	files, err := filepath.Glob(root + "/hami/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of hami, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			g.add("hami", room(path))
		}
	}
	for at := range g {
		if strings.HasPrefix(at, "internal/") || at == "" {
			g.without(at)
		}
	}
	for _, at := range []string{"examples", "docs", "testdata"} {
		g.without(at)
	}
	return g
}

// The diagram of the rooms has each room and each arrow that does not follow
// from others, and no other.
func TestRooms(t *testing.T) {
	var drawn []string
	var rooms []string
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if d.name != "design.md" || b.language != "mermaid" || !strings.HasPrefix(b.text, "flowchart") {
				continue
			}
			for line := range strings.Lines(b.text) {
				line = strings.TrimSpace(line)
				if m := regexp.MustCompile(`^(\w+)\[`).FindStringSubmatch(line); m != nil {
					rooms = append(rooms, m[1])
				} else if strings.Contains(line, "-->") {
					drawn = append(drawn, line)
				}
			}
		}
	}
	slices.Sort(drawn)
	slices.Sort(rooms)
	g := imports(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(g)), rooms); diff != "" {
		t.Errorf("rooms (-code +diagram):\n%s", diff)
	}
	if diff := cmp.Diff(g.arrows(), drawn); diff != "" {
		t.Errorf("arrows (-code +diagram):\n%s", diff)
	}
}

func TestArrowsThatFollowAreLeftOut(t *testing.T) {
	g := graph{}
	for _, e := range []string{"a b", "a c", "b c", "c d", "x internal/y", "internal/y d", "internal/y x"} {
		from, to, _ := strings.Cut(e, " ")
		g.add(from, to)
	}
	g.without("internal/y")
	if diff := cmp.Diff([]string{"a --> b", "b --> c", "c --> d", "x --> d"}, g.arrows()); diff != "" {
		t.Errorf("arrows (-want +got):\n%s", diff)
	}
}
