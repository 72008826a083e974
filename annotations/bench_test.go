package annotations

import (
	"fmt"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
)

func BenchmarkPodTwoContainersFourDevices(b *testing.B) {
	grants := twoByFour()
	b.ReportAllocs()
	for b.Loop() {
		s, err := EncodePod(grants)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodePod(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeDevices64(b *testing.B) {
	s, err := EncodeDevices(cpx64())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeDevices(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeDevices64(b *testing.B) {
	devices := cpx64()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeDevices(devices); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOccupancyOf200Pods rebuilds who holds which CUs of a node from the
// annotations of its pods.
func BenchmarkOccupancyOf200Pods(b *testing.B) {
	values, names := make([]string, 200), make([]string, 200)
	for i := range values {
		s, err := EncodeCUs(map[string]cumask.Set{mi300x(i % 8).ID: cumask.Range(i/8*12, i/8*12+11)})
		if err != nil {
			b.Fatal(err)
		}
		values[i], names[i] = s, fmt.Sprintf("default/train-%d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		node := make(map[string]*cumask.Occupancy, 8)
		for i, value := range values {
			err := RangeCUs(value, func(device string, cus cumask.Set) error {
				gpu := node[device]
				if gpu == nil {
					gpu = cumask.NewOccupancy(cumask.Geometry{CUs: 304, XCCs: 8})
					node[device] = gpu
				}
				return gpu.Add(names[i], cus)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRangeCUs reads the annotations of 200 pods without keeping them.
func BenchmarkRangeCUs(b *testing.B) {
	values := make([]string, 200)
	for i := range values {
		s, err := EncodeCUs(cuMap(i))
		if err != nil {
			b.Fatal(err)
		}
		values[i] = s
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, value := range values {
			err := RangeCUs(value, func(device string, cus cumask.Set) error { return nil })
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
