package simulate

import (
	"os"
	"strings"
	"testing"
)

// TestREADMEShowsTheseTables runs what the README of package cumask shows.
func TestREADMEShowsTheseTables(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		product string
		loads   []float64
	}{
		{"mi300x", []float64{1, 2, 4}},
		{"mi355x", []float64{1}},
		{"mi308x", []float64{1}},
		{"rx7900xtx", []float64{1}},
	} {
		for _, p := range Products() {
			if p.Name != want.product {
				continue
			}
			for _, load := range want.loads {
				r := run(t, Config{Name: p.Name, Geometry: p.Geometry, Seed: 1, Load: load,
					Policies: []Policy{Pack(), PackBalanced(), LowestFirst(), LowestFirstWhole()}})
				var b strings.Builder
				if err := r.Table(&b); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(readme), b.String()) {
					t.Errorf("the README does not show\n%s", b.String())
				}
			}
		}
	}
}
