package partition

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBDF(t *testing.T) {
	for s, want := range map[string]BDF{
		"0000:05:00.0":     "0000:05:00.0",
		"0000:C2:1F.7":     "0000:c2:1f.7",
		"ffff:ff:1f.7":     "ffff:ff:1f.7",
		"10000:e1:00.0":    "10000:e1:00.0", // VMD domains have five digits
		"deadbeef:00:00.0": "deadbeef:00:00.0",
	} {
		got, err := ParseBDF(s)
		if err != nil || got != want {
			t.Errorf("%q: want %q, found %q, %v", s, want, got, err)
		}
	}
	for name, s := range map[string]string{
		"empty":                         "",
		"no domain":                     "05:00.0",
		"short domain":                  "000:05:00.0",
		"leading zero in long domain":   "00000:05:00.0",
		"domain beyond 32 bits":         "123456789:05:00.0",
		"device beyond 5 bits":          "0000:05:20.0",
		"function beyond 3 bits":        "0000:05:00.8",
		"short bus":                     "0000:5:00.0",
		"long function":                 "0000:05:00.00",
		"no function":                   "0000:05:00",
		"blank in front":                " 0000:05:00.0",
		"blank behind":                  "0000:05:00.0 ",
		"newline":                       "0000:05:00.0\n",
		"no hex":                        "0000:0g:00.0",
		"sign":                          "0000:+5:00.0",
		"underscore":                    "0000:_5:00.0",
		"prefix":                        "0x00:05:00.0",
		"separator of function":         "0000:05:00:0",
		"a partition of the plugin":     "0000:05:00.0-p1",
		"path":                          "../../0000:05:00.0",
		"multi-byte character":          "0000:05:0\u0660.0",
		"very long":                     strings.Repeat("0", 10_000),
		"separators without an element": ":::.",
	} {
		if got, err := ParseBDF(s); err == nil || got != "" {
			t.Errorf("%s: want an error, found %q", name, got)
		}
	}
	_, err := ParseBDF("05:00.0")
	const want = `pci address "05:00.0": want domain:bus:device.function such as "0000:05:00.0"`
	if err == nil || err.Error() != want {
		t.Errorf("want %q, found %v", want, err)
	}
}

func TestCompareBDF(t *testing.T) {
	want := []BDF{
		"0000:05:00.0", "0000:05:00.1", "0000:05:01.0", "0000:c2:00.0", "0001:00:00.0", "ffff:00:00.0", "10000:00:00.0",
		"card1", "node 2",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	sortBDFs(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzParseBDF(f *testing.F) {
	for _, s := range []string{"0000:05:00.0", "10000:E1:1f.7", "05:00.0", "0000:05:00.8"} {
		f.Add(s)
	}
	kernel := regexp.MustCompile(`^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	f.Fuzz(func(t *testing.T, s string) {
		bdf, err := ParseBDF(s)
		if (err == nil) != kernel.MatchString(strings.ToLower(s)) || (err == nil) != (bdf != "") {
			t.Fatalf("%q: found %q, %v", s, bdf, err)
		}
		if err != nil {
			return
		}
		a, ok := splitBDF(string(bdf))
		if !ok || formatBDF(a) != bdf {
			t.Fatalf("%q: %+v is spelled %q", s, a, formatBDF(a))
		}
		if again, err := ParseBDF(string(bdf)); err != nil || again != bdf {
			t.Fatalf("%q: a second time %q, %v", s, again, err)
		}
	})
}
