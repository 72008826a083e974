package draw

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/cumask"
)

var (
	mi300x    = cumask.Geometry{CUs: 304, XCCs: 8, SEsPerXCC: 4, SAsPerSE: 1, CUsPerSA: 10}
	rx7900xtx = cumask.Geometry{CUs: 96, CUsPerWGP: 2, SEsPerXCC: 6, SAsPerSE: 2, CUsPerSA: 8}
)

// busy is an MI300X with two pods that overlap and one that starves XCCs.
var busy = GPU{
	Name:     "GPU 0, AMD Instinct MI300X",
	Geometry: mi300x,
	Holders: []Holder{
		{"ml/train", cumask.Range(0, 75)},
		{"ml/serve", cumask.Range(70, 113)},
		{"peer/lopsided", cumask.Range(200, 202)},
	},
}

const busyWide = `GPU 0, AMD Instinct MI300X
304 CUs on 8 XCCs, 187 free, shader engines nominal
       SE 0       SE 1       SE 2      SE 3
XCC 0  aaab...... aa!b..c... aabb..... aab......    22 free
XCC 1  aaab...... aa!b..c... aabb..... aab......    22 free
XCC 2  aaab...... aa!b..c... aab...... aab......    23 free
XCC 3  aaab...... aa!b...... aab...... aab......    24 free
XCC 4  aaab...... aabb...... aab...... aab......    24 free
XCC 5  aaab...... aabb...... aab...... aab......    24 free
XCC 6  aa!b...... aabb...... aab...... aab......    24 free
XCC 7  aa!b...... aabb...... aab...... aab......    24 free
 a  ml/train         76 CUs    72 effective  0-75
 b  ml/serve         44 CUs    40 effective  70-113
 c  peer/lopsided     3 CUs     0 effective  starves XCC 3  200-202
 !  held twice        6 CUs                  70-75
 .  free            187 CUs   176 effective  114-199,203-303
`

const busyNarrow = `GPU 0, AMD Instinct MI300X
304 CUs on 8 XCCs, 187 free,
shader engines nominal
XCC 0  aaab...... aa!b..c...
       aabb..... aab......
XCC 1  aaab...... aa!b..c...
       aabb..... aab......
XCC 2  aaab...... aa!b..c...
       aab...... aab......
XCC 3  aaab...... aa!b......
       aab...... aab......
XCC 4  aaab...... aabb......
       aab...... aab......
XCC 5  aaab...... aabb......
       aab...... aab......
XCC 6  aa!b...... aabb......
       aab...... aab......
XCC 7  aa!b...... aabb......
       aab...... aab......
 a  ml/train
    76 CUs 72 effective
    0-75
 b  ml/serve
    44 CUs 40 effective
    70-113
 c  peer/lopsided
    3 CUs 0 effective
    starves XCC 3  200-202
 !  held twice
    6 CUs
    70-75
 .  free
    187 CUs 176 effective
    114-199,203-303
`

func draw(tb testing.TB, gpu GPU, opt TextOptions) string {
	tb.Helper()
	var b strings.Builder
	if err := Text(&b, gpu, opt); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for name, tc := range map[string]struct {
		gpu   GPU
		width int
		want  string
	}{
		"80 columns": {busy, 0, busyWide},
		"40 columns": {busy, 40, busyNarrow},
		"shader arrays of one xcc": {
			GPU{Name: "RX 7900 XTX", Geometry: rx7900xtx, Holders: []Holder{{"a/b", cumask.Range(0, 23)}, {"half", cumask.Of(33)}}}, 80,
			`RX 7900 XTX
96 CUs in 48 WGPs, 71 free
      SA 0     SA 1
SE 0  aa...... aa......
SE 1  aa...... aa......
SE 2  aa...... aa......
SE 3  aa...... aa......
SE 4  aa.b.... aa......
SE 5  aa...... aa......
 a  a/b     24 CUs  0-23
 b  half     1 CUs  half a WGP  33
 .  free    71 CUs  24-32,34-95
`,
		},
		"nothing known, no name": {
			GPU{Geometry: cumask.Geometry{CUs: 38}, Holders: []Holder{{"a/b", cumask.Range(0, 23)}}}, 80,
			`38 CUs, 14 free
CU 0   aaaaaaaaaaaaaaaaaaaaaaaa........
CU 32  ......
 a  a/b     24 CUs  0-23
 .  free    14 CUs  24-37
`,
		},
		"idle": {
			GPU{Name: "idle", Geometry: cumask.Geometry{CUs: 16, XCCs: 2}}, 80,
			`idle
16 CUs on 2 XCCs, 16 free
XCC 0  ........     8 free
XCC 1  ........     8 free
 .  free    16 CUs    16 effective  0-15
`,
		},
		"full": {
			GPU{Name: "full", Geometry: cumask.Geometry{CUs: 4}, Holders: []Holder{{"a", cumask.Range(0, 3)}}}, 80,
			`full
4 CUs, 0 free
CU 0  aaaa
 a  a     4 CUs  0-3
`,
		},
		"holders with nothing and with too much": {
			GPU{Name: "odd", Geometry: cumask.Geometry{CUs: 4}, Holders: []Holder{{"none", cumask.Set{}}, {"much", cumask.Range(2, 9)}}}, 80,
			`odd
4 CUs, 2 free
CU 0  ..bb
 a  none     0 CUs  no CUs
 b  much     8 CUs  CUs beyond the GPU  2-9
 .  free     2 CUs  0-1
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, draw(t, tc.gpu, TextOptions{Width: tc.width})); diff != "" {
				t.Errorf("Text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextMerged(t *testing.T) {
	for name, tc := range map[string]struct {
		gpu   GPU
		width int
		want  string
	}{
		"xccs": {busy, 0, `GPU 0, AMD Instinct MI300X
304 CUs on 8 XCCs, 187 free, shader engines nominal
         SE 0       SE 1       SE 2      SE 3
XCC 0-1  aaab...... aa!b..c... aabb..... aab......    22 free each
XCC 2    aaab...... aa!b..c... aab...... aab......    23 free
XCC 3    aaab...... aa!b...... aab...... aab......    24 free
XCC 4-5  aaab...... aabb...... aab...... aab......    24 free each
XCC 6-7  aa!b...... aabb...... aab...... aab......    24 free each
`},
		"shader engines": {GPU{Name: "g", Geometry: rx7900xtx, Holders: []Holder{{"a", cumask.Range(0, 23)}}}, 0, `g
96 CUs in 48 WGPs, 72 free
        SA 0     SA 1
SE 0-5  aa...... aa......
`},
		"no place, two rows alike": {GPU{Name: "g", Geometry: cumask.Geometry{CUs: 64}}, 0, `g
64 CUs, 64 free
CU 0   ................................
CU 32  ................................
`},
		"narrow": {GPU{Name: "g", Geometry: mi300x}, 32, `g
304 CUs on 8 XCCs, 304 free,
shader engines nominal
XCC 0-7  .......... ..........
         ......... .........
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := draw(t, tc.gpu, TextOptions{Width: tc.width, Merge: true})
			if !strings.HasPrefix(got, tc.want) {
				t.Errorf("Text =\n%s, want it to begin with\n%s", got, tc.want)
			}
			_, legend, _ := strings.Cut(got, "\n a  ")
			if _, want, _ := strings.Cut(draw(t, tc.gpu, TextOptions{Width: tc.width}), "\n a  "); legend != want {
				t.Errorf("legend %q, want %q", legend, want)
			}
		})
	}
}

func TestTextColours(t *testing.T) {
	gpu := GPU{Name: "g", Geometry: cumask.Geometry{CUs: 4}, Holders: []Holder{{"a", cumask.Of(0, 2)}, {"b", cumask.Of(2)}}}
	want := "g\n4 CUs, 2 free\n" +
		"CU 0  \x1b[48;5;25;38;5;231ma\x1b[0m\x1b[2m.\x1b[0m\x1b[48;5;196;38;5;231m!\x1b[0m\x1b[2m.\x1b[0m\n"
	got := draw(t, gpu, TextOptions{Color: true})
	if !strings.HasPrefix(got, want) {
		t.Errorf("Text = %q, want it to begin with %q", got, want)
	}
	if plain := stripColours(got); plain != draw(t, gpu, TextOptions{}) {
		t.Errorf("without colours it reads %q", plain)
	}
}

func stripColours(s string) string {
	var b strings.Builder
	for s != "" {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		_, s, _ = strings.Cut(after, "m")
	}
	return b.String()
}

func TestTextKeepsItsWidth(t *testing.T) {
	for _, g := range shapes {
		gpu := GPU{Name: strings.Repeat("long name ", 30), Geometry: g, Holders: []Holder{{strings.Repeat("n", 200), cumask.Range(0, g.CUs/2)}}}
		for width := 1; width < 200; width += 3 {
			for line := range strings.Lines(draw(t, gpu, TextOptions{Width: width, Merge: width%2 == 0})) {
				line = strings.TrimSuffix(line, "\n")
				if utf8.RuneCountInString(line) > max(width, minWidth) || strings.HasSuffix(line, " ") {
					t.Fatalf("%+v in %d columns: line %q", g, width, line)
				}
			}
		}
	}
}

func TestTextIsPlain(t *testing.T) {
	hostile := "pod\x1b[2J\r\nXCC 9  \u202eevil\u0000\xff\u2028" + strings.Repeat("x", 1<<16)
	gpu := GPU{Name: hostile, Geometry: mi300x, Holders: []Holder{{hostile, cumask.Range(0, 7)}}}
	got := draw(t, gpu, TextOptions{Width: 500})
	for _, r := range got {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("Text has %q in %q", r, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines != 1+1+1+8+2 {
		t.Errorf("a name makes lines: %q", got)
	}
}

func TestLettersRunOut(t *testing.T) {
	gpu := GPU{Geometry: cumask.Geometry{CUs: 100}}
	for i := range 70 {
		gpu.Holders = append(gpu.Holders, Holder{fmt.Sprint("pod-", i), cumask.Of(i)})
	}
	got := draw(t, gpu, TextOptions{})
	for _, want := range []string{"CU 32  GHIJKLMNOPQRSTUVWXYZ0123456789**\n", " 9  pod-61", " *  pod-69"} {
		if !strings.Contains(got, want) {
			t.Errorf("Text = %s\nwant %q in it", got, want)
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestErrors(t *testing.T) {
	var b strings.Builder
	bad := GPU{Name: "bad\n", Geometry: cumask.Geometry{CUs: 303, XCCs: 8}}
	if err := Text(&b, bad, TextOptions{}); !errors.Is(err, cumask.ErrGeometry) || b.Len() != 0 {
		t.Errorf("Text = %v and %q, want ErrGeometry and nothing", err, b.String())
	}
	if err := SVG(&b, []GPU{busy, bad}, SVGOptions{}); !errors.Is(err, cumask.ErrGeometry) || b.Len() != 0 {
		t.Errorf("SVG = %v and %q, want ErrGeometry and nothing", err, b.String())
	}
	if err := Text(brokenWriter{}, busy, TextOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("Text = %v, want the writer's error", err)
	}
	if err := SVG(brokenWriter{}, []GPU{busy}, SVGOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("SVG = %v, want the writer's error", err)
	}
}

func TestHolders(t *testing.T) {
	o := cumask.NewOccupancy(mi300x)
	for name, cus := range map[string]cumask.Set{"b": cumask.Range(0, 7), "a": cumask.Range(8, 15)} {
		if err := o.Add(name, cus); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, h := range Holders(o) {
		got = append(got, h.Name+" "+h.CUs.String())
	}
	if diff := cmp.Diff([]string{"a 8-15", "b 0-7"}, got); diff != "" {
		t.Errorf("Holders (-want +got):\n%s", diff)
	}
}
