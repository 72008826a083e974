package annotations

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every character is written as encoding/json writes it and is read back.
func TestAppendStringIsThatOfEncodingJSON(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= 0x3000; r++ {
		all.WriteRune(r)
	}
	for _, s := range []string{"", "plain", all.String(), "\u2028", "a\u2029b", "\u2027\u202a\u20a8", "\U0001f4a9", "\ufffd", "\ue228"} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got := appendString(nil, s)
		if string(got) != string(want) {
			t.Errorf("appendString(%.80q) = %.80s, want %.80s", s, got, want)
		}
		p := newScanner(string(got))
		back, err := p.str("a string")
		if err = p.last(err); err != nil || back != s {
			t.Errorf("%.80s read back = %.80q, %v", got, back, err)
		}
	}
}

func TestPlainASCII(t *testing.T) {
	for n := range 20 { // around the eight bytes looked at at once
		for at := range n {
			for c := range 256 {
				b := []byte(strings.Repeat("~", n))
				b[at] = byte(c)
				want := c >= ' ' && c != '\\' && c < utf8.RuneSelf
				if got := plainASCII(string(b)); got != want {
					t.Fatalf("plainASCII(%q) = %v, want %v", b, got, want)
				}
			}
		}
	}
}
