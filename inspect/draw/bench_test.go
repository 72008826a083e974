package draw

import (
	"io"
	"testing"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw/drawtest"
)

// A thousand GPUs: 125 nodes of eight.
func BenchmarkThousandGPUs(b *testing.B) {
	c := sample(b, drawtest.Options{Nodes: 125, Planted: true})
	for name, draw := range map[string]func(io.Writer, *inspect.Cluster) error{
		"text": func(w io.Writer, c *inspect.Cluster) error { return Text(w, c, TextOptions{}) },
		"svg":  func(w io.Writer, c *inspect.Cluster) error { return SVG(w, c, SVGOptions{}) },
		"html": func(w io.Writer, c *inspect.Cluster) error { return HTML(w, c, HTMLOptions{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := counter(0)
				if err := draw(&n, c); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
			}
		})
	}
}

type counter int

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}
