package simulate

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/cumask"
)

func run(tb testing.TB, c Config) *Report {
	tb.Helper()
	r, err := Run(c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestPackBesideLowestFirst is what this package is for: on every product Pack
// starves nobody and reaches what the GPU can give, in the same run in which
// lowest-first does neither.
func TestPackBesideLowestFirst(t *testing.T) {
	for _, p := range Products() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			r := run(t, Config{Name: p.Name, Geometry: p.Geometry, Requests: 10_000, Seed: 1})
			pack, lowest := r.Results[0], r.Results[1]
			if pack.Starved != 0 || pack.HalfWGP != 0 {
				t.Errorf("pack: %d masks starve an XCC, %d hold half a WGP", pack.Starved, pack.HalfWGP)
			}
			if pack.OfBound < 0.9995 || pack.OfPossible != 1 {
				t.Errorf("pack: %v of the bound, %v of the possible; want 0.9995 and 1", pack.OfBound, pack.OfPossible)
			}
			for _, res := range r.Results {
				if res.Granted+res.Refused != res.Requests || res.Granted < res.Requests/2 {
					t.Errorf("%s: %d granted and %d refused of %d", res.Policy, res.Granted, res.Refused, res.Requests)
				}
			}
			if p.Geometry.XCCs > 1 && (lowest.Starved == 0 || lowest.OfBound >= pack.OfBound || lowest.FreeUsable >= pack.FreeUsable) {
				t.Errorf("lowest-first is no worse: %+v", lowest)
			}
			if p.Geometry.CUsPerWGP > 1 && lowest.HalfWGP == 0 {
				t.Errorf("lowest-first keeps all WGPs whole: %+v", lowest)
			}
		})
	}
}

func TestTheSeedSettlesTheReport(t *testing.T) {
	c := Config{Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 500, Seed: 7}
	text := func(c Config) string {
		r := run(t, c)
		var b strings.Builder
		if err := errors.Join(r.Table(&b), r.CSV(&b), r.SVG(&b)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := text(c)
	if text(c) != first {
		t.Error("the same seed gives another report")
	}
	c.Seed++
	if text(c) == first {
		t.Error("another seed gives the same report")
	}
}

func TestTable(t *testing.T) {
	r := run(t, Config{Name: "mi308x", Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 2000, Seed: 1,
		Policies: []Policy{Pack(), LowestFirst(), LowestFirstWhole()}})
	const want = `
mi308x: 80 CUs on 4 XCCs, 2000 requests of 2-50 %, load 1, seed 1
                 pack  lowest-first  lowest-first-whole
granted          1384          1395                1384
refused           616           605                 616
scattered           0             0                   0
starved             0           111                   5
half WGP            0             0                   0
mean           0.9244        0.8272              0.9059
p5             0.6667        0.0000              0.6667
of bound       1.0000        0.9021              0.9812
of possible    1.0000        0.9041              0.9819
ranges           1.26          1.40                1.42
free usable    0.8911        0.8738              0.8791
`
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Errorf("Table (-want +got):\n%s", diff)
	}
}

func TestCSV(t *testing.T) {
	r := run(t, Config{Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 1000, Samples: 10})
	var b strings.Builder
	if err := r.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 1+2*10 {
		t.Fatalf("CSV has %d rows, %v; want a header and 10 for each policy", len(rows), err)
	}
	if rows[0][0] != "policy" || rows[1][0] != "pack" || rows[20][0] != "lowest-first" {
		t.Errorf("CSV = %v", rows)
	}
}

func TestSamplesAddUp(t *testing.T) {
	r := run(t, Config{Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 1000, Samples: 7})
	for _, res := range r.Results {
		var granted, refused, starved int
		last := 0.0
		for _, s := range res.Samples {
			granted, refused, starved = granted+s.Granted, refused+s.Refused, starved+s.Starved
			if s.Time <= last || s.UsedCUs > 80 || s.FreeEffective > 80-s.UsedCUs || s.OfGranted > 1 {
				t.Errorf("%s: sample %+v after %v", res.Policy, s, last)
			}
			last = s.Time
		}
		if len(res.Samples) != 7 || granted != res.Granted || refused != res.Refused || starved != res.Starved {
			t.Errorf("%s: %d samples with %d granted, %d refused, %d starved of %+v", res.Policy, len(res.Samples), granted, refused, starved, res)
		}
	}
}

func TestJSON(t *testing.T) {
	r := run(t, Config{Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 100, Samples: 2})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Results, back.Results); diff != "" {
		t.Errorf("JSON round trip (-want +got):\n%s", diff)
	}
}

func TestSVGIsXML(t *testing.T) {
	r := run(t, Config{Name: "<script>&\x00", Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 100})
	var b strings.Builder
	if err := r.SVG(&b); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if ok && start.Name.Local == "script" {
			t.Error("the name became markup")
		}
		if ok && start.Name.Local == "path" {
			lines++
		}
	}
	if want := 2 + 3*5 + 3*2; lines != want || strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("the plot has %d paths, want %d, and numbers everywhere", lines, want)
	}
}

func TestRunRefuses(t *testing.T) {
	good := cumask.Geometry{CUs: 80, XCCs: 4}
	choose := func(s cumask.Set, err error) []Policy {
		return []Policy{{Name: "odd", Choose: func(cumask.Geometry, cumask.Set, int) (cumask.Set, error) { return s, err }}}
	}
	errOdd := errors.New("odd")
	for name, tc := range map[string]struct {
		c    Config
		kind error
	}{
		"no gpu":                   {Config{}, cumask.ErrGeometry},
		"negative requests":        {Config{Geometry: good, Requests: -1}, ErrConfig},
		"too many requests":        {Config{Geometry: good, Requests: 1 << 40}, ErrConfig},
		"more samples than pods":   {Config{Geometry: good, Requests: 5, Samples: 6}, ErrConfig},
		"negative samples":         {Config{Geometry: good, Samples: -6}, ErrConfig},
		"sizes the wrong way":      {Config{Geometry: good, MinPercent: 50, MaxPercent: 2}, ErrConfig},
		"negative size":            {Config{Geometry: good, MinPercent: -2}, ErrConfig},
		"size above the gpu":       {Config{Geometry: good, MaxPercent: 101}, ErrConfig},
		"no sizes":                 {Config{Geometry: good, Percents: []int{}, MinPercent: 3}, ErrConfig},
		"a size of none":           {Config{Geometry: good, Percents: []int{10, 0}}, ErrConfig},
		"negative load":            {Config{Geometry: good, Load: -1}, ErrConfig},
		"load that is no number":   {Config{Geometry: good, Load: math.NaN()}, ErrConfig},
		"endless lifetime":         {Config{Geometry: good, Lifetime: math.Inf(1)}, ErrConfig},
		"no policies":              {Config{Geometry: good, Policies: []Policy{}}, ErrConfig},
		"policy without a name":    {Config{Geometry: good, Policies: []Policy{{Choose: cumask.Pack}}}, ErrConfig},
		"policy without a choice":  {Config{Geometry: good, Policies: []Policy{{Name: "odd"}}}, ErrConfig},
		"policy that gives less":   {Config{Geometry: good, Policies: choose(cumask.Set{}, nil)}, ErrConfig},
		"policy that gives others": {Config{Geometry: good, Policies: choose(cumask.Range(100, 104), nil), Percents: []int{6}}, ErrConfig},
		"policy that gives twice":  {Config{Geometry: good, Policies: choose(cumask.Range(0, 3), nil), Percents: []int{5}, Lifetime: 100}, ErrConfig},
		"policy that fails":        {Config{Geometry: good, Policies: choose(cumask.Set{}, errOdd)}, errOdd},
	} {
		if r, err := Run(tc.c); !errors.Is(err, tc.kind) || r != nil {
			t.Errorf("%s: Run = %v, %v; want %v", name, r, err, tc.kind)
		}
	}
}

func TestConfigIsNotChanged(t *testing.T) {
	percents := []int{50, 10}
	c := Config{Geometry: cumask.Geometry{CUs: 80, XCCs: 4}, Requests: 50, Percents: percents}
	r := run(t, c)
	if diff := cmp.Diff([]int{50, 10}, percents); diff != "" || r.Config.MinPercent != 10 || r.Config.MaxPercent != 50 {
		t.Errorf("percents %v, config %+v", percents, r.Config)
	}
}

func TestParsePolicy(t *testing.T) {
	for _, want := range []string{"pack", "pack-balanced", "lowest-first", "lowest-first-whole"} {
		if p, err := ParsePolicy(want); err != nil || p.Name != want || p.Choose == nil {
			t.Errorf("ParsePolicy(%q) = %+v, %v", want, p, err)
		}
	}
	for _, name := range []string{"", "Pack", "best"} {
		if p, err := ParsePolicy(name); !errors.Is(err, ErrConfig) {
			t.Errorf("ParsePolicy(%q) = %+v, %v", name, p, err)
		}
	}
}

func TestProductsAreValid(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Products() {
		if err := p.Geometry.Validate(); err != nil || p.Name == "" || seen[p.Name] {
			t.Errorf("%q: %v", p.Name, err)
		}
		seen[p.Name] = true
	}
}

func TestLowestFirst(t *testing.T) {
	g := cumask.Geometry{CUs: 16, XCCs: 4}
	p := LowestFirst()
	if got, err := p.Choose(g, cumask.Of(0, 1, 5, 6), 6); err != nil || got != cumask.Of(2, 3, 4, 7, 8, 9) {
		t.Errorf("Choose = %q, %v; want 2-4,7-9", got, err)
	}
	if got, err := p.Choose(g, cumask.Range(0, 9), 7); !errors.Is(err, cumask.ErrInsufficient) || !got.Empty() {
		t.Errorf("Choose = %q, %v; want ErrInsufficient", got, err)
	}
	if p.Count(g, 1) != 1 || p.Count(g, 50) != 8 {
		t.Errorf("Count = %d and %d, want 1 and 8", p.Count(g, 1), p.Count(g, 50))
	}
}
