package simulate

import "testing"

func BenchmarkRun(b *testing.B) {
	c := Config{Geometry: Products()[0].Geometry, Requests: 2000, Seed: 1}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(c); err != nil {
			b.Fatal(err)
		}
	}
}
