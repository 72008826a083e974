package exporter

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzParseStates: no panic, states or an error but not both, every string
// within its bound.
func FuzzParseStates(f *testing.F) {
	inner := protowire.AppendString(protowire.AppendTag(nil, 3, protowire.BytesType), "unhealthy")
	inner = protowire.AppendString(protowire.AppendTag(inner, 5, protowire.BytesType), "0000:05:00.0")
	f.Add(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x7f})
	f.Add([]byte{0x08, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := parseStates(b)
		if err != nil {
			if states != nil {
				t.Fatalf("%d states beside the error %v", len(states), err)
			}
			return
		}
		if len(states) > maxStates {
			t.Fatalf("%d states", len(states))
		}
		for _, s := range states {
			for _, text := range []string{s.uuid, s.health, s.device} {
				if len(text) > maxText || !utf8.ValidString(text) {
					t.Fatalf("text %q", text)
				}
			}
		}
		for device := range newVerdicts(states).byDevice {
			if !isBDF(device) {
				t.Fatalf("device %q", device)
			}
		}
	})
}

func BenchmarkParseStates(b *testing.B) {
	inner := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "08ff75a3-0000-1000-80da-82c12ef81b5d")
	inner = protowire.AppendString(protowire.AppendTag(inner, 3, protowire.BytesType), "healthy")
	inner = protowire.AppendString(protowire.AppendTag(inner, 5, protowire.BytesType), "0000:05:00.0")
	var reply []byte
	for range 64 {
		reply = protowire.AppendBytes(protowire.AppendTag(reply, 1, protowire.BytesType), inner)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseStates(reply); err != nil {
			b.Fatal(err)
		}
	}
}
