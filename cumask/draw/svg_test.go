package draw

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// elements reads the picture as XML, and returns how many elements of each
// name it has, the squares of each class of path, and all its text.
func elements(tb testing.TB, gpus []GPU, opt SVGOptions) (names, squares map[string]int, text string) {
	tb.Helper()
	var b strings.Builder
	if err := SVG(&b, gpus, opt); err != nil {
		tb.Fatal(err)
	}
	names, squares = map[string]int{}, map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, squares, text
		}
		if err != nil {
			tb.Fatalf("not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			names[token.Name.Local]++
			attr := map[string]string{}
			for _, a := range token.Attr {
				attr[a.Name.Local] = a.Value
			}
			if token.Name.Local == "path" {
				squares[attr["class"]] += strings.Count(attr["d"], "M")
			}
		case xml.CharData:
			text += string(token)
		}
	}
}

func TestSVG(t *testing.T) {
	names, squares, text := elements(t, []GPU{busy, {Name: "idle", Geometry: rx7900xtx}}, SVGOptions{Title: "node-1"})
	want := map[string]int{"h0": 70, "h1": 38, "h2": 3, "clash": 6, "free": 187 + 96}
	if diff := cmp.Diff(want, squares); diff != "" {
		t.Errorf("CUs drawn (-want +got):\n%s", diff)
	}
	for _, word := range []string{"node-1", "GPU 0, AMD Instinct MI300X", "XCC 7", "SE 5", "ml/train", "starves XCC 3", "114-199,203-303",
		"ml/serve, 44 CUs  40 effective, 70-113"} {
		if !strings.Contains(text, word) {
			t.Errorf("the picture does not say %q", word)
		}
	}
	for name := range names {
		switch name {
		case "svg", "g", "rect", "text", "path", "title", "style":
		default:
			t.Errorf("the picture has a <%s>", name)
		}
	}
}

func TestSVGShowsEveryCUOnce(t *testing.T) {
	for _, g := range shapes {
		for _, width := range []int{1, 240, 360, 700, 1080, 4000} {
			_, squares, _ := elements(t, []GPU{{Geometry: g, Holders: []Holder{{"a", cumask.Range(0, g.CUs/2)}}}}, SVGOptions{Width: width})
			sum := 0
			for _, n := range squares {
				sum += n
			}
			if sum != g.CUs {
				t.Errorf("%+v, %d wide: %d CUs drawn, want %d", g, width, sum, g.CUs)
			}
		}
	}
}

func TestSVGEscapesNames(t *testing.T) {
	hostile := `</title></svg><script>alert(1)</script>"'&<!-- ]]>` + "\x00\x1b\xff\ufffe\u202e"
	gpus := []GPU{{Name: hostile, Geometry: mi300x, Holders: []Holder{{hostile, cumask.Range(0, 7)}}}}
	names, _, text := elements(t, gpus, SVGOptions{Title: hostile})
	if names["script"] != 0 || names["svg"] != 1 {
		t.Errorf("a name became markup: %v", names)
	}
	if !strings.Contains(text, "<script>alert(1)") {
		t.Errorf("the name is lost: %q", text)
	}
}

func TestSVGIsTheSameEachTime(t *testing.T) {
	var first string
	for range 5 {
		var b strings.Builder
		if err := SVG(&b, []GPU{busy, busy, busy}, SVGOptions{}); err != nil {
			t.Fatal(err)
		}
		if first != "" && b.String() != first {
			t.Fatal("the picture changes")
		}
		first = b.String()
	}
}

func TestSVGOfNothing(t *testing.T) {
	names, squares, _ := elements(t, nil, SVGOptions{})
	if names["svg"] != 1 || len(squares) != 0 {
		t.Errorf("elements %v", names)
	}
}
