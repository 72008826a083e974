package draw

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/internal/palette"
)

// HTMLOptions say how HTML draws. The zero value draws everything.
type HTMLOptions struct {
	Options
}

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// openNodes is how many nodes a page shows unfolded. On a page with more, only
// the heads with their small bars are to be seen at first, as an overview.
const openNodes = 16

// HTML writes the cluster as one page that stands alone: it may be sent by mail
// and opened from a disk. Its content security policy forbids the network, and
// runs no script and uses no style but the page's own, known by their hashes.
// Without scripts everything but the filter and the details is there.
//
// The page follows the reader's choice of light or dark, works on a phone and in
// print, and can be used with the keyboard alone. Errors are those of w.
func HTML(w io.Writer, c *inspect.Cluster, o HTMLOptions) error {
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	b := bufio.NewWriter(w)
	if err := page.Execute(b, newPage(newView(c, o.Options))); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return b.Flush()
}

// htmlPage is what the template fills in. Every text in it is plain.
type htmlPage struct {
	Title, Time string
	Policy      string
	Style       template.CSS
	Script      template.JS
	Counts      []string
	Meters      []htmlMeter
	Tally       []htmlBadge
	Problems    []htmlProblem
	Open        bool // the list of problems
	Shapes      []*mapShape
	Nodes       []htmlNode
	GPUs        string
}

type htmlMeter struct {
	Name, Words string
	Percent     int64
}

// htmlBadge is a number of problems of one kind.
type htmlBadge struct{ Class, Words string }

type htmlProblem struct {
	Severity, Code, Where, Detail, Remedy string
	Target                                string // id of the card or node, "" without
	Query                                 string
}

func newPage(v *view) *htmlPage {
	style := template.CSS(pageStyle + paletteStyle())
	p := &htmlPage{
		Title: v.title, Style: style, Script: template.JS(pageScript),
		Policy: "default-src 'none'; style-src " + hashOf256(string(style)) + "; script-src " + hashOf256(pageScript) +
			"; img-src data:; base-uri 'none'; form-action 'none'",
		Counts: []string{plural(len(v.nodes), "node"), plural(v.sum.gpus, "GPU"), plural(v.sum.pods, "pod")},
		Meters: v.sum.meters(), Tally: v.sum.badges(), GPUs: plural(v.cards(), "GPU"),
		Open: len(v.problems) <= 8,
	}
	if !v.time.IsZero() {
		p.Time = v.time.UTC().Format(time.DateTime) + " UTC"
	}
	ids := map[any]string{}
	shapes := &shapeSet{prefix: "s", byKey: map[string]*mapShape{}}
	for i, n := range v.nodes {
		p.Nodes = append(p.Nodes, newHTMLNode(n, fmt.Sprintf("n%d", i), len(v.nodes) <= openNodes, shapes, ids))
	}
	p.Shapes = shapes.all
	for _, problem := range v.problems {
		p.Problems = append(p.Problems, newHTMLProblem(problem, ids))
	}
	return p
}

func (v *view) cards() (n int) {
	for _, node := range v.nodes {
		n += len(node.cards)
	}
	return n
}

func hashOf256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// paletteStyle are the classes of the colours: cN is what a tenant's things are
// painted with, iN the letters on it.
func paletteStyle() string {
	var b strings.Builder
	class := func(name string, c palette.Colour) {
		fmt.Fprintf(&b, ".c%s{fill:%s;background:%s;color:%s}.i%s{fill:%s}\n", name, c.Hex, c.Hex, inkOn(c), name, inkOn(c))
	}
	for i := range palette.Size {
		class(fmt.Sprint(i), palette.Of(i))
	}
	class("x", clashColour)
	return b.String()
}

func (s sum) meters() []htmlMeter {
	words := s.words()
	return []htmlMeter{
		{"CUs", words[0], min(percent(int64(s.usedCUs), int64(s.cus)), 100)},
		{"VRAM", words[1], min(percent(s.usedMiB, s.mib), 100)},
	}
}

func (s sum) badges() []htmlBadge {
	var all []htmlBadge
	if s.errors > 0 {
		all = append(all, htmlBadge{"error", plural(s.errors, "error")})
	}
	if s.warnings > 0 {
		all = append(all, htmlBadge{"warning", plural(s.warnings, "warning")})
	}
	return all
}

func newHTMLProblem(p *problem, ids map[any]string) htmlProblem {
	h := htmlProblem{
		Severity: p.word(), Code: plain(string(p.Code)), Where: p.location(),
		Detail: prose(p.Detail), Remedy: prose(p.Remedy),
	}
	if p.card != nil {
		h.Target = ids[p.card]
	} else if p.node != nil {
		h.Target = ids[p.node]
	}
	h.Query = query("code:"+h.Code, "node:"+plain(p.Node), "ns:"+plain(p.Namespace), "pod:"+plain(p.Pod), h.Where)
	return h
}

// query is what the filter looks for its words in: lines with a word before a
// colon that says what they are, so that "ns:llm" finds a namespace alone.
func query(lines ...string) string { return strings.ToLower(strings.Join(lines, "\n")) }
