package partition

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// BenchmarkRegister64 registers 8 GPUs in CPX mode.
func BenchmarkRegister64(b *testing.B) {
	inv := discovered(b, "mi300x-cpx-8")
	b.ReportAllocs()
	for b.Loop() {
		if reg, err := inv.Register(RegisterOptions{Mode: ModePartition}); err != nil || len(reg.Devices) != 64 {
			b.Fatal(err)
		}
	}
}

// BenchmarkRegisterAnnotation64 is the same with the annotation's text.
func BenchmarkRegisterAnnotation64(b *testing.B) {
	inv := discovered(b, "mi300x-cpx-8")
	b.ReportAllocs()
	var text string
	for b.Loop() {
		devices, err := inv.Devices(RegisterOptions{Mode: ModePartition})
		if err != nil {
			b.Fatal(err)
		}
		if text, err = annotations.EncodeDevices(devices); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(text)), "annotation-bytes")
}

// BenchmarkRegisterShares640 registers 64 whole GPUs in 10 shares each.
func BenchmarkRegisterShares640(b *testing.B) {
	inv := machine(mi300x, 64, SPX, "nps1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inv.Register(RegisterOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDiff64(b *testing.B) {
	inv := discovered(b, "mi300x-cpx-8")
	before := mustRegister(b, inv, RegisterOptions{Mode: ModePartition})
	after := mustRegister(b, inv, RegisterOptions{Mode: ModePartition})
	b.ReportAllocs()
	for b.Loop() {
		if changes := Diff(before, after); changes != nil {
			b.Fatal(changes)
		}
	}
}
