package draw

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
)

// named is a cluster in which everything that has a name or a text has this one.
func named(s string) *inspect.Cluster {
	g := mi300x(s, 0)
	g.Device.ID, g.Device.Type, g.Physical = s, s, s
	g.Device.CustomInfo.PartitionProfile = s
	problems := []inspect.Problem{{Code: inspect.Code(s), Severity: inspect.Severity(s), Node: s, GPU: s, Namespace: s, Pod: s,
		Container: s, Detail: s, Remedy: s}}
	mine := held(s, s, s, cumask.Range(0, 75), 100)
	mine.Phase, mine.Problems = corev1.PodPhase(s), problems
	hold(g, mine)
	hold(g, held(s, s+"2", s, cumask.Range(70, 80), 100))
	g.Problems = problems
	c := one(g)
	c.Nodes[0].Name, c.Nodes[0].Mode, c.Nodes[0].Problems = s, s, problems
	c.Nodes[0].Lock = &annotations.NodeLock{Time: smallTime, Namespace: s, Name: s}
	c.Problems = problems
	lost := &inspect.Tenant{Namespace: s, Pod: s, Container: s, Node: s, Device: "other" + s, Problems: problems}
	c.Pods = []*inspect.Pod{{Namespace: s, Name: s, Node: s, Tenants: []*inspect.Tenant{g.Tenants[0], lost}, Problems: problems}}
	return c
}

// hostile are names that mean something to what they are put in.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	`</title></svg></style></script><script>alert(1)</script>`, `{{.Title}}`, `&lt;script&gt;`, `]]><x/>`, `<!-- `, `-->`,
	"tab\tand\nnewline\r\n", "\x1b[31mred\x1b[0m", "\u202eturned", "\u2028", "\x00", "\xff\xfe", "\u009b31m", `\u003cscript\u003e`,
	strings.Repeat("long", 1000), "", " ", "/", "data:text/html,<script>", "`${alert(1)}`", "é漢字🙂", "expression(alert(1))",
}

// shapeOf is what a document is made of, whatever its texts: the elements with
// the names of their attributes.
func shapeOf(all []element) []string {
	var shape []string
	for _, e := range all {
		names := e.name
		for _, name := range []string{"class", "id", "href", "data-q", "data-d", "data-bad", "data-p", "data-t", "aria-label", "d", "x", "y"} {
			if _, ok := e.attr[name]; ok {
				names += " " + name
			}
		}
		for name := range e.attr {
			if strings.HasPrefix(name, "on") || name == "style" || name == "src" || name == "srcdoc" {
				names += " !" + name
			}
		}
		if href := e.attr["href"]; href != "" && !strings.HasPrefix(href, "#") && href != "data:," {
			names += " to " + href
		}
		shape = append(shape, names)
	}
	return shape
}

// pageShape is what a page is made of in which everything has this name.
func pageShape(t testing.TB, s string) []string {
	t.Helper()
	return shapeOf(withoutOptional(elements(t, htmlOf(t, named(s), Options{Title: s}))))
}

// checkNames draws a cluster full of a name in every format; harmless is what
// a page of another name is made of.
func checkNames(t *testing.T, harmless []string, s string) {
	t.Helper()
	if shape := pageShape(t, s); !slices.Equal(harmless, shape) {
		t.Errorf("%q makes another page (-harmless +this):\n%.2000s", s, cmp.Diff(harmless, shape))
	}
	var picture bytes.Buffer
	if err := SVG(&picture, named(s), SVGOptions{Options: Options{Title: s}}); err != nil {
		t.Fatal(err)
	}
	// Long names are broken into lines, so a picture may have more elements, but
	// none of another kind.
	for _, shape := range shapeOf(elements(t, picture.String())) {
		name, rest, _ := strings.Cut(shape, " ")
		if !strings.Contains(" svg title style defs g path text pattern rect use ", " "+name+" ") || strings.ContainsAny(rest, "!") || strings.Contains(rest, " to ") {
			t.Errorf("%q puts <%s %s> in the picture", s, name, rest)
		}
	}
	for _, o := range []TextOptions{{Width: 60}, {Width: 100, ASCII: true}, {Width: 140}} {
		var b bytes.Buffer
		o.Title = s
		if err := Text(&b, named(s), o); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > o.Width {
				t.Errorf("%q: a line of %d columns in %d: %q", s, n, o.Width, line)
			}
			for _, r := range line {
				if !unicode.IsPrint(r) || o.ASCII && r >= utf8.RuneSelf {
					t.Errorf("%q: line %q has %q", s, line, r)
				}
			}
		}
	}
}

// withoutOptional leaves out what is there only for some names: a chip or a
// remedy that is not empty.
func withoutOptional(all []element) []element {
	var kept []element
	for _, e := range all {
		if e.name != "small" && e.attr["class"] != "chip" {
			kept = append(kept, e)
		}
	}
	return kept
}

func TestHostileNames(t *testing.T) {
	harmless := pageShape(t, "x")
	for _, s := range hostile {
		checkNames(t, harmless, s)
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	harmless := pageShape(f, "x")
	f.Fuzz(func(t *testing.T, s string) { checkNames(t, harmless, s) })
}
