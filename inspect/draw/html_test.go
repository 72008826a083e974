package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/inspect"
)

func htmlOf(t testing.TB, c *inspect.Cluster, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, c, HTMLOptions{o}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// An element of a page or a picture.
type element struct {
	name string
	attr map[string]string
	text string // of the element itself, without those in it
}

// between is what stands between the first begin and the next end.
func between(s, begin, end string) string {
	_, s, _ = strings.Cut(s, begin)
	s, _, _ = strings.Cut(s, end)
	return s
}

// elements reads a page with a parser that takes no mistake: pages are
// well-formed XML, but for the style and the script, which are ours.
func elements(t testing.TB, page string) []element {
	t.Helper()
	for _, tag := range []string{"style", "script"} {
		if inside := between(page, "<"+tag+">", "</"+tag+">"); inside != "" {
			page = strings.Replace(page, inside, "", 1)
		}
	}
	d := xml.NewDecoder(strings.NewReader(strings.TrimPrefix(page, "<!DOCTYPE html>")))
	var all []element
	var open []int
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			open = append(open, len(all))
			all = append(all, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				all[open[len(open)-1]].text += string(token)
			}
		case xml.Comment, xml.ProcInst, xml.Directive:
			t.Fatalf("found %T in the page", token)
		}
	}
}

func having(all []element, name, class string) (found []element) {
	for _, e := range all {
		if e.name == name && (class == "" || strings.Contains(" "+e.attr["class"]+" ", " "+class+" ")) {
			found = append(found, e)
		}
	}
	return found
}

func TestPageShowsTheCluster(t *testing.T) {
	all := elements(t, htmlOf(t, small(), Options{Time: smallTime, Title: "lab"}))
	if got := having(all, "title", "")[0].text; got != "lab" {
		t.Errorf("title %q", got)
	}
	nodes, cards := having(all, "details", "node"), having(all, "article", "card")
	if len(nodes) != 2 || len(cards) != 5 || len(having(all, "svg", "map")) != 5 {
		t.Errorf("%d nodes with %d GPUs and %d maps", len(nodes), len(cards), len(having(all, "svg", "map")))
	}
	for _, n := range nodes {
		if _, open := n.attr["open"]; !open {
			t.Errorf("node %s is folded", n.attr["id"])
		}
	}
	var names []string
	for _, b := range having(all, "button", "t") {
		names = append(names, b.text)
	}
	want := []string{
		"GPU 0", "llm/chat-1", "search/rerank", "search/rerank", "search/index",
		"GPU 1", "llm/chat-2", "llm/chat-3", "research/notebook", "research/sweep",
		"GPU 2", "research/pretrain", "GPU 3", "llm/small", "GPU 0", "llm/tensor", "llm/tensor",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("what can be looked at (-want +got):\n%s", diff)
	}
	bad := 0
	for _, c := range cards {
		if _, ok := c.attr["data-bad"]; ok {
			bad++
		}
		for _, word := range []string{"node:node-", "gpu:gpu ", "type:amd "} {
			if !strings.Contains(c.attr["data-q"], word) {
				t.Errorf("the filter finds %q in no line of %q", word, c.attr["data-q"])
			}
		}
	}
	if bad != 1 {
		t.Errorf("%d GPUs with a problem, want 1", bad)
	}
	if rows := having(all, "tr", "bad"); len(rows) != 2 {
		t.Errorf("%d tenants with a problem, want 2", len(rows))
	}
	if clash := having(all, "path", "clash"); len(clash) != 1 {
		t.Errorf("%d overlaps, want 1", len(clash))
	}
}

func TestPageDetails(t *testing.T) {
	all := elements(t, htmlOf(t, small(), Options{}))
	details := map[string]string{}
	for _, b := range having(all, "button", "t") {
		details[b.text] += b.attr["data-d"] + "\n"
	}
	for name, lines := range map[string][]string{
		"llm/chat-1":        {"Container\tvllm", "On\tGPU 0 of node-a", "CUs\t76 of 304, 72 effective", "Mask\t0-75", "On each XCC\t10 10 10 10 9 9 9 9", "VRAM\t49,152 MiB of 196,592 (25 %)", "Pod\tRunning"},
		"search/index":      {"CUs\tnone: memory only"},
		"research/pretrain": {"CUs\tall 304, whole: no mask, no limit"},
		"research/sweep":    {"CUs\t30 of 304, no mask", "! UnlimitedTenant\t30 CUs are granted and none recorded", "Remedy\tdelete the pod"},
		"llm/tensor":        {"On\tGPU 0, partition p2 of node-b"},
		"GPU 2":             {"State\tcordoned", "Device\tgpu-2", "PCI address\t0000:07:00.0"},
	} {
		for _, line := range lines {
			if !strings.Contains(details[name], line+"\n") {
				t.Errorf("%s: no %q in %q", name, line, details[name])
			}
		}
	}
}

func TestPageStandsAlone(t *testing.T) {
	page := htmlOf(t, small(), Options{Time: smallTime})
	all := elements(t, page)
	ids := map[string]bool{}
	for _, e := range all {
		if id := e.attr["id"]; id != "" {
			if ids[id] {
				t.Errorf("id %q is there twice", id)
			}
			ids[id] = true
		}
	}
	for _, e := range all {
		for name, value := range e.attr {
			switch {
			case name == "style" || strings.HasPrefix(name, "on"):
				t.Errorf("<%s> has %s=%q", e.name, name, value)
			case name == "src" || name == "action" || name == "srcset":
				t.Errorf("<%s> loads %q", e.name, value)
			case name == "href" && strings.HasPrefix(value, "#"):
				if !ids[value[1:]] {
					t.Errorf("<%s> names %q, which is not there", e.name, value)
				}
			case name == "href" && value != "data:,":
				t.Errorf("<%s> loads %q", e.name, value)
			case name == "aria-labelledby" || name == "aria-describedby" || name == "for":
				for id := range strings.FieldsSeq(value) {
					if !ids[id] {
						t.Errorf("<%s> names %q, which is not there", e.name, id)
					}
				}
			}
		}
		if e.name == "svg" && e.attr["aria-hidden"] != "true" && e.attr["aria-label"] == "" {
			t.Errorf("<svg class=%q> has no words", e.attr["class"])
		}
	}
	for _, outside := range []string{"url(http", "@import", "@font-face", "fetch(", "XMLHttpRequest", "innerHTML"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
}

// The policy lets nothing run but what it names by its hash.
func TestPagePolicy(t *testing.T) {
	page := htmlOf(t, small(), Options{})
	style, script := between(page, "<style>", "</style>"), between(page, "<script>", "</script>")
	want := "default-src 'none'; style-src " + hashOf256(style) + "; script-src " + hashOf256(script) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
	meta := having(elements(t, page), "meta", "")
	if got := meta[1].attr["content"]; meta[1].attr["http-equiv"] != "Content-Security-Policy" || got != want {
		t.Errorf("policy %q, want %q", got, want)
	}
	if style != pageStyle+paletteStyle() || script != pageScript {
		t.Error("style or script is another one than was written")
	}
}

func TestLargePagesStartFolded(t *testing.T) {
	c := &inspect.Cluster{}
	for i := range openNodes + 1 {
		c.Nodes = append(c.Nodes, &inspect.Node{Name: strings.Repeat("n", i+1), GPUs: []*inspect.GPU{mi300x("n", 0)}})
	}
	for _, n := range having(elements(t, htmlOf(t, c, Options{})), "details", "node") {
		if _, open := n.attr["open"]; open {
			t.Fatalf("node %s is unfolded", n.attr["id"])
		}
	}
}

func TestEmptyClusters(t *testing.T) {
	for name, c := range map[string]*inspect.Cluster{
		"nothing":              {},
		"a node without GPUs":  {Nodes: []*inspect.Node{{Name: "n"}}},
		"a problem of its own": {Problems: []inspect.Problem{{Code: "X", Severity: inspect.Error, Detail: "d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			elements(t, htmlOf(t, c, Options{}))
			var b bytes.Buffer
			if err := SVG(&b, c, SVGOptions{}); err != nil {
				t.Error(err)
			}
			elements(t, b.String())
			if err := Text(&b, c, TextOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWriteErrors(t *testing.T) {
	for name, draw := range map[string]func(io.Writer) error{
		"text": func(w io.Writer) error { return Text(w, small(), TextOptions{}) },
		"svg":  func(w io.Writer) error { return SVG(w, small(), SVGOptions{}) },
		"html": func(w io.Writer) error { return HTML(w, small(), HTMLOptions{}) },
	} {
		if err := draw(full{}); err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("%s: error %v, want that of the writer", name, err)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk is full") }
