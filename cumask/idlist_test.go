package cumask

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestC09 is the cumask part of the case: what ROCr would refuse, or read
// otherwise, is no ID list. The upper bound that a device sets is Check's.
func TestC09IDListROCrWouldReject(t *testing.T) {
	g := Geometry{CUs: 304, XCCs: 8}
	for list, part := range map[string]string{
		"0-3,3-5": `"3-5"`,
		"7-4":     `"7-4"`,
		"0-3,,8":  "empty part",
		"":        "at least one cu",
		"-3":      `"-3"`,
		"1-2-3":   `"1-2-3"`,
		"0x3":     `"0x3"`,
	} {
		s, err := ParseSet(list)
		if !errors.Is(err, ErrSyntax) || !s.Empty() {
			t.Errorf("ParseSet(%q) = %q, %v; want nothing and a syntax error", list, s, err)
		} else if !strings.Contains(err.Error(), part) {
			t.Errorf("ParseSet(%q): %q does not name %s", list, err, part)
		}
	}
	s, err := ParseSet("300-304")
	if err != nil {
		t.Fatalf("ParseSet: %v", err)
	}
	if err := g.Check(s); !errors.Is(err, ErrGeometry) || !strings.Contains(err.Error(), "cu 304") {
		t.Errorf("Check(%q) on 304 cus = %v; want an error about cu 304", s, err)
	}
	if s, err := ParseSet("4,1"); err != nil || s != Of(1, 4) {
		t.Errorf("ParseSet = %q, %v; want 1,4", s, err)
	}
	const canonical = "0-3,8,10-12"
	if s, err := ParseSet(canonical); err != nil || s != Of(0, 1, 2, 3, 8, 10, 11, 12) || s.String() != canonical {
		t.Errorf("ParseSet(%q) = %q, %v", canonical, s, err)
	}
}

func TestParseSet(t *testing.T) {
	for list, want := range map[string]string{
		"0":                    "0",
		"0-75":                 "0-75",
		"5-5":                  "5",
		"8,0-3,10-12":          "0-3,8,10-12",
		"0-3,4-7":              "0-7",
		"60-67":                "60-67",
		"007":                  "7",
		"1023":                 "1023",
		"0-1023":               "0-1023",
		"63,64":                "63-64",
		"00000000000000000001": "1",
	} {
		s, err := ParseSet(list)
		if err != nil || s.String() != want {
			t.Errorf("ParseSet(%q) = %q, %v; want %q", list, s, err, want)
		}
	}
}

func TestParseSetRefuses(t *testing.T) {
	for _, list := range []string{
		",", "0,", ",0", "0-", "-", "--", "0--3", "0-3-", " ", " 0", "0 ", "0 -3", "0, 1", "0;1", "0:1", "+1", "1+",
		"1024", "0-1024", "1024-1025", "4294967296", "18446744073709551617", "99999999999999999999999999", "0-4294967297",
		"0,0", "5-9,7", "0-1023,5", "1.5", "1e2", "a", "\x00", "0\n", "٣", "0-3\xff", "0_1", "\"0\"", strings.Repeat("9", 1<<16),
	} {
		s, err := ParseSet(list)
		if !errors.Is(err, ErrSyntax) || !s.Empty() {
			t.Errorf("ParseSet(%.40q) = %q, %v; want nothing and a syntax error", list, s, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("ParseSet(%.40q): the error has %d bytes", list, len(err.Error()))
		}
	}
}

func TestSetStringRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for range 2000 {
		s := randomSet(r, MaxCUs)
		if s.Empty() {
			continue
		}
		if got, err := ParseSet(s.String()); err != nil || got != s {
			t.Fatalf("ParseSet(%q) = %q, %v", s, got, err)
		}
	}
}

func FuzzParseSet(f *testing.F) {
	for _, seed := range []string{"0-3,8,10-12", "4,1", "", "0-3,,8", "7-4", "1-2-3", "0x3", "0-3,3-5", "1023", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		s, err := ParseSet(list)
		if err != nil {
			if !s.Empty() || !errors.Is(err, ErrSyntax) {
				t.Fatalf("ParseSet(%q) = %q and %v", list, s, err)
			}
			return
		}
		if s.Empty() {
			t.Fatalf("ParseSet(%q) is empty without an error", list)
		}
		if again, err := ParseSet(s.String()); err != nil || again != s {
			t.Fatalf("ParseSet(%q) = %q, read again %q, %v", list, s, again, err)
		}
		if read := rocrMasks("0:" + list); len(read) != 1 || read[0] != s {
			t.Fatalf("ParseSet(%q) = %q, but ROCr reads %v", list, s, read)
		}
	})
}
