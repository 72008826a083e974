package draw

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestGolden draws the small cluster. cluster.svg is also the picture to show.
func TestGolden(t *testing.T) {
	o := Options{Time: smallTime}
	for name, draw := range map[string]func(*bytes.Buffer) error{
		"cluster.txt":        func(b *bytes.Buffer) error { return Text(b, small(), TextOptions{Options: o, Width: 110}) },
		"cluster-narrow.txt": func(b *bytes.Buffer) error { return Text(b, small(), TextOptions{Options: o, Width: 48, ASCII: true}) },
		"cluster-color.txt":  func(b *bytes.Buffer) error { return Text(b, small(), TextOptions{Options: o, Color: true}) },
		"problems.txt": func(b *bytes.Buffer) error {
			return Text(b, small(), TextOptions{Options: Options{Problems: true, Node: "node-a", Title: "What is wrong"}})
		},
		"cluster.svg": func(b *bytes.Buffer) error { return SVG(b, small(), SVGOptions{Options: o}) },
		"narrow.svg":  func(b *bytes.Buffer) error { return SVG(b, small(), SVGOptions{Options: o, Width: 400}) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := draw(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}
