package partition

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// BenchmarkDiscover reads whole machines. files/op counts what is opened,
// folders included; on a real node each is a read from the driver.
func BenchmarkDiscover(b *testing.B) {
	for _, bench := range []struct {
		name, machine string
		opts          DiscoverOptions
		nodes         int
	}{
		{"8xMI300X-SPX", "mi300x-spx-8", DiscoverOptions{}, 8},
		{"8xMI300X-CPX", "mi300x-cpx-8", DiscoverOptions{}, 64},
		{"8xMI300X-CPX-all-links", "mi300x-cpx-8", DiscoverOptions{AllLinks: true}, 64},
	} {
		b.Run(bench.name, func(b *testing.B) {
			root := fixturetest.Machine(b, bench.machine)
			b.ReportAllocs()
			opened := 0
			for b.Loop() {
				inv, n, err := discover(root, bench.opts)
				if err != nil {
					b.Fatal(err)
				}
				nodes := 0
				for i := range inv.GPUs {
					nodes += len(inv.GPUs[i].Nodes)
				}
				if nodes != bench.nodes {
					b.Fatalf("want %d nodes, found %d", bench.nodes, nodes)
				}
				opened = n
			}
			b.ReportMetric(float64(opened), "files/op")
		})
	}
}
