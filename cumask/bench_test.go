package cumask

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fragmented returns what is used of the GPU after many grants have come and
// gone: about half of it, in pieces of up to longest CUs.
func fragmented(g Geometry, longest int) Set {
	r := rand.New(rand.NewPCG(1, 2))
	var used Set
	for used.Len() < g.CUs*45/100 {
		lo := r.IntN(g.CUs)
		used = used.Union(Range(lo, min(lo+r.IntN(longest), g.CUs-1)))
	}
	return used
}

func BenchmarkPack(b *testing.B) {
	for _, bm := range []struct {
		name string
		g    Geometry
		used func(Geometry) Set
		n    int
	}{
		{"76 of 304 idle", shipped["mi300x spx"], func(Geometry) Set { return Set{} }, 76},
		{"76 of 304 fragmented", shipped["mi300x spx"], func(g Geometry) Set { return fragmented(g, 9) }, 76},
		{"76 of 304 fragmented, engines unknown", shipped["mi300x bare"], func(g Geometry) Set { return fragmented(g, 9) }, 76},
		{"24 of 96 in pairs fragmented", shipped["rx 7900 xtx"], func(g Geometry) Set { return fragmented(g, 9) }, 24},
		{"256 of 1024 in 64 classes", Geometry{CUs: 1024, XCCs: 16, SEsPerXCC: 4}, func(g Geometry) Set { return fragmented(g, 9) }, 256},
		{"256 of 1024 in 1024 classes", Geometry{CUs: 1024, XCCs: 32, SEsPerXCC: 32}, func(g Geometry) Set { return fragmented(g, 9) }, 256},
		{"refused", shipped["mi300x spx"], func(Geometry) Set { return everyNth(304, 8, 5) }, 76},
	} {
		b.Run(bm.name, func(b *testing.B) {
			used := bm.used(bm.g)
			b.ReportAllocs()
			for b.Loop() {
				Pack(bm.g, used, bm.n)
			}
		})
	}
}

func BenchmarkPackAll(b *testing.B) {
	g := shipped["mi300x spx"]
	used, sizes := fragmented(g, 9), []int{76, 38, 8}
	b.ReportAllocs()
	for b.Loop() {
		PackAll(g, used, sizes)
	}
}

// BenchmarkOccupancyRebuild is the start of a node: 200 pods, 25 on each of 8
// GPUs, one call of Add each.
func BenchmarkOccupancyRebuild(b *testing.B) {
	g := shipped["mi300x spx"]
	var pods [200]string
	var cus [200]Set
	for i := range pods {
		pods[i] = fmt.Sprintf("namespace/pod-with-a-usual-name-%d", i)
		cus[i] = Range(i%25*12, i%25*12+11)
	}
	b.ReportAllocs()
	for b.Loop() {
		var gpus [8]*Occupancy
		for i := range gpus {
			gpus[i] = NewOccupancy(g)
		}
		for i, pod := range pods {
			if err := gpus[i/25].Add(pod, cus[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

const fourRanges = "0-37,76-113,152-189,300-303"

func BenchmarkParseSet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSet(fourRanges); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetString(b *testing.B) {
	s := mustParse(b, fourRanges)
	var text string
	b.ReportAllocs()
	for b.Loop() {
		text = s.String()
	}
	if text != fourRanges {
		b.Fatal(text)
	}
}

func BenchmarkHSAMask(b *testing.B) {
	masks := []DeviceMask{{0, Range(0, 75)}, {1, mustParse(b, fourRanges)}}
	text, err := FormatHSAMask(masks)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("format", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := FormatHSAMask(masks); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseHSAMask(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSpread(b *testing.B) {
	g := shipped["mi300x spx"]
	b.ReportAllocs()
	for b.Loop() {
		g.Effective(Range(0, 75))
	}
}
