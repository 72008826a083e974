package partition

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// BenchmarkRescan64 looks again at 8 GPUs in CPX mode of which nothing changed.
func BenchmarkRescan64(b *testing.B) {
	root := fixturetest.Machine(b, "mi300x-cpx-8")
	s := NewScanner(root)
	first := mustScan(b, s)
	t, err := openTree(root)
	if err != nil {
		b.Fatal(err)
	}
	takeFingerprint(t, first.Inventory)
	t.close()
	b.ReportAllocs()
	for b.Loop() {
		if scan := mustScan(b, s); scan.Changed {
			b.Fatal("changed")
		}
	}
	b.ReportMetric(float64(t.opened), "files")
}
