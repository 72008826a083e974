package cumask

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// masksOf is what ParseHSAMask returned, readable in a difference.
func masksOf(masks []DeviceMask) map[int]string {
	got := map[int]string{}
	for _, m := range masks {
		got[m.Device] = m.CUs.String()
	}
	return got
}

// TestC19MaskFollowsTheContainersOrder is the cumask part of the case: devices
// are positions in the container's order, and nothing else.
func TestC19MaskFollowsTheContainersOrder(t *testing.T) {
	// The container got B first, then A; the host has A first.
	b, a := DeviceMask{0, Range(0, 37)}, DeviceMask{1, Range(100, 175)}
	for name, masks := range map[string][]DeviceMask{"in order": {b, a}, "out of order": {a, b}} {
		got, err := FormatHSAMask(masks)
		if err != nil || got != "0:0-37;1:100-175" {
			t.Errorf("%s: FormatHSAMask = %q, %v; want 0:0-37;1:100-175", name, got, err)
		}
	}
}

// TestC20SyntaxSlipsDisableTheMask is the case.
func TestC20SyntaxSlipsDisableTheMask(t *testing.T) {
	for name, masks := range map[string][]DeviceMask{
		"zero cus on gpu 0":             {{0, Set{}}},
		"two entries for gpu 0":         {{0, Range(0, 3)}, {0, Range(8, 11)}},
		"valid gpu 0, then empty gpu 1": {{0, Range(0, 3)}, {1, Set{}}},
	} {
		if got, err := FormatHSAMask(masks); !errors.Is(err, ErrSyntax) || got != "" {
			t.Errorf("%s: FormatHSAMask = %q, %v; want nothing and an error", name, got, err)
		}
	}
	for value, want := range map[string]struct {
		kept, lost int
		inForce    map[int]string
	}{
		"0:":                {0, 1, map[int]string{}},
		"0:0-3;0:8-11":      {1, 1, map[int]string{0: "0-3"}},
		"0:0-3;1:5-2;2:0-3": {1, 2, map[int]string{0: "0-3"}},
		"0:0x0":             {0, 1, map[int]string{}},
	} {
		masks, err := ParseHSAMask(value)
		var bad *HSAMaskError
		if !errors.As(err, &bad) || masks != nil {
			t.Fatalf("ParseHSAMask(%q) = %v, %v; want an *HSAMaskError", value, masks, err)
		}
		if bad.Set != want.kept || bad.Sets-bad.Set != want.lost {
			t.Errorf("ParseHSAMask(%q): %d sets kept of %d, want %d and %d lost", value, bad.Set, bad.Sets, want.kept, want.lost)
		}
		if diff := cmp.Diff(want.inForce, masksOf(bad.Kept)); diff != "" {
			t.Errorf("ParseHSAMask(%q): masks in force (-want +got):\n%s", value, diff)
		}
	}
	for value, want := range map[string]map[int]string{
		"0:0-3;":           {0: "0-3"},
		" 0:0-3 ; 1:0x0F ": {0: "0-3", 1: "0-3"},
	} {
		masks, err := ParseHSAMask(value)
		if err != nil {
			t.Fatalf("ParseHSAMask(%q): %v", value, err)
		}
		if diff := cmp.Diff(want, masksOf(masks)); diff != "" {
			t.Errorf("ParseHSAMask(%q) (-want +got):\n%s", value, diff)
		}
	}
}

func TestParseHSAMask(t *testing.T) {
	for value, want := range map[string]map[int]string{
		"":                                      {},
		" \t\n":                                 {},
		"0:0-37":                                {0: "0-37"},
		"0:0-1;1:0-63":                          {0: "0-1", 1: "0-63"},
		"0-3:0xff":                              {0: "0-7", 1: "0-7", 2: "0-7", 3: "0-7"},
		"1:0;0:1":                               {0: "1", 1: "0"},
		"0,2-4,7:0-15,32-47":                    {0: "0-15,32-47", 2: "0-15,32-47", 3: "0-15,32-47", 4: "0-15,32-47", 7: "0-15,32-47"},
		"0,2:0-1; 5-6:0x337F":                   {0: "0-1", 2: "0-1", 5: "0-6,8-9,12-13", 6: "0-6,8-9,12-13"},
		"0:0XfF00":                              {0: "8-15"},
		"0:0x0000000000000000001f":              {0: "0-4"},
		"0:8,0-3":                               {0: "0-3,8"},
		"0:1 0-1\t2":                            {0: "10-12"},
		"1023:1023":                             {1023: "1023"},
		"00:007":                                {0: "7"},
		"0:0x1" + strings.Repeat("0", 255):      {0: "1020"},
		"0:0x" + strings.Repeat("0", 300) + "1": {0: "0"},
	} {
		masks, err := ParseHSAMask(value)
		if err != nil {
			t.Errorf("ParseHSAMask(%q): %v", value, err)
			continue
		}
		if diff := cmp.Diff(want, masksOf(masks)); diff != "" {
			t.Errorf("ParseHSAMask(%q) (-want +got):\n%s", value, diff)
		}
		for i := range masks[:max(len(masks)-1, 0)] {
			if masks[i].Device >= masks[i+1].Device {
				t.Errorf("ParseHSAMask(%q) = %v, want them ascending", value, masks)
			}
		}
	}
}

func TestParseHSAMaskRefuses(t *testing.T) {
	for value, kept := range map[string]int{
		";":                                0,
		";0:0-3":                           0,
		"0:0-3;;1:0-3":                     1,
		"0:0-3;;":                          1,
		"0":                                0,
		"0-3":                              0,
		":0-3":                             0,
		"0:0-3:":                           0,
		"0:0-3:1":                          0,
		"0:0;1":                            1,
		"0:0-3,3":                          0,
		"0,0:1":                            0,
		"0-1:1;1-2:1":                      1,
		"0-1:1;2:1;1:0":                    2,
		"1-0:1":                            0,
		"0:0,":                             0,
		"0:,0":                             0,
		"0:0,,2":                           0,
		"0,:0":                             0,
		"0:0x":                             0,
		"0:0x00000000":                     0,
		"0:0xfg":                           0,
		"0:x1":                             0,
		"0:1x1":                            0,
		"0:00x1":                           0,
		"0x0:1":                            0,
		"0:-3":                             0,
		"0:3-":                             0,
		"0:+3":                             0,
		"0:1-2-3":                          0,
		"0:1024":                           0,
		"1024:0":                           0,
		"0-1024:0":                         0,
		"0:0-4294967296":                   0,
		"0:4294967296":                     0,
		"all:0":                            0,
		"0:0|1":                            0,
		"0:0;1:0;2:":                       2,
		"0:0x1" + strings.Repeat("0", 256): 0,
		"0:0;" + strings.Repeat("9", 1<<16) + ":0": 1,
	} {
		masks, err := ParseHSAMask(value)
		var bad *HSAMaskError
		if !errors.As(err, &bad) || !errors.Is(err, ErrSyntax) || masks != nil {
			t.Errorf("ParseHSAMask(%.40q) = %v, %v; want an *HSAMaskError", value, masks, err)
			continue
		}
		if bad.Set != kept {
			t.Errorf("ParseHSAMask(%.40q): %d sets kept, want %d", value, bad.Set, kept)
		}
		if len(err.Error()) > 400 {
			t.Errorf("ParseHSAMask(%.40q): the error has %d bytes", value, len(err.Error()))
		}
	}
}

func TestHSAMaskErrorText(t *testing.T) {
	for value, want := range map[string]string{
		"0:0-3;1:5-2;2:0-3": `cu mask: set 2 of 3: cu list "5-2": part "5-2": want an ascending range: invalid list or mask: it and all sets after it are ignored, their gpus run unmasked`,
		"0:0x0":             `cu mask: set 1 of 1: hex mask "0": no cus: invalid list or mask: all sets are ignored, every gpu runs unmasked`,
	} {
		if _, err := ParseHSAMask(value); err == nil || err.Error() != want {
			t.Errorf("ParseHSAMask(%q): %v\nwant %s", value, err, want)
		}
	}
}

func TestFormatHSAMask(t *testing.T) {
	for name, tc := range map[string]struct {
		masks []DeviceMask
		want  string
	}{
		"none":                {nil, ""},
		"one":                 {[]DeviceMask{{0, Range(0, 75)}}, "0:0-75"},
		"two":                 {[]DeviceMask{{0, Range(0, 75)}, {1, Range(0, 75)}}, "0:0-75;1:0-75"},
		"the first unmasked":  {[]DeviceMask{{1, Of(0, 2, 3)}}, "1:0,2-3"},
		"any order, any gaps": {[]DeviceMask{{9, Of(1)}, {2, Of(2)}, {4, Of(1023)}}, "2:2;4:1023;9:1"},
		"the last device":     {[]DeviceMask{{1023, Of(0)}}, "1023:0"},
	} {
		before := append([]DeviceMask(nil), tc.masks...)
		got, err := FormatHSAMask(tc.masks)
		if err != nil || got != tc.want {
			t.Errorf("%s: FormatHSAMask = %q, %v; want %q", name, got, err, tc.want)
		}
		for i := range before {
			if before[i] != tc.masks[i] {
				t.Errorf("%s: the input became %v", name, tc.masks)
			}
		}
		again, err := ParseHSAMask(got)
		if err != nil || len(again) != len(tc.masks) {
			t.Errorf("%s: %q read again: %v, %v", name, got, again, err)
		}
	}
	for name, masks := range map[string][]DeviceMask{
		"negative device":     {{-1, Of(0)}},
		"device out of range": {{1024, Of(0)}},
		"repeated, apart":     {{0, Of(0)}, {1, Of(0)}, {0, Of(1)}},
	} {
		if got, err := FormatHSAMask(masks); !errors.Is(err, ErrSyntax) || got != "" {
			t.Errorf("%s: FormatHSAMask = %q, %v; want an error", name, got, err)
		}
	}
}

func TestFormatGlobalCUMask(t *testing.T) {
	for name, tc := range map[string]struct {
		g    Geometry
		cus  Set
		want string
		kind error
	}{
		"first four":     {Geometry{CUs: 38}, Range(0, 3), "0xf", nil},
		"word boundary":  {Geometry{CUs: 304}, Range(60, 67), "0xff000000000000000", nil},
		"all":            {Geometry{CUs: 38}, Range(0, 37), "0x3fffffffff", nil},
		"a bit is a wgp": {Geometry{CUs: 32, CUsPerWGP: 2}, Of(2, 3, 8, 9), "0x12", nil},
		"nothing":        {Geometry{CUs: 38}, Set{}, "", ErrGranularity},
		"half a wgp":     {Geometry{CUs: 32, CUsPerWGP: 2}, Of(2), "", ErrGranularity},
		"an xcc without": {Geometry{CUs: 304, XCCs: 8}, Of(0), "", ErrGranularity},
		"foreign cus":    {Geometry{CUs: 38}, Of(38), "", ErrGeometry},
	} {
		got, err := FormatGlobalCUMask(tc.g, tc.cus)
		if !errors.Is(err, tc.kind) || got != tc.want {
			t.Errorf("%s: FormatGlobalCUMask = %q, %v; want %q, %v", name, got, err, tc.want, tc.kind)
		}
	}
}

func FuzzParseHSAMask(f *testing.F) {
	for _, seed := range []string{
		"0:0-75;1:0-75", "0-3:0xff", " 0:0-3 ; 1:0x0F ", "0:0-3;", "0:", "0:0x0", "0:0-3;0:8-11", "0:0-3;1:5-2;2:0-3",
		"0,2-4,7:0-15,32-47; 8-9:0x337F", "0:0-3:", "0:3-", "0:-3", "0:+3", "0:0,", ";", "1 0:1 0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		masks, err := ParseHSAMask(value)
		reads := rocrMasks(value)
		if err != nil {
			var bad *HSAMaskError
			if masks != nil || !errors.As(err, &bad) || !errors.Is(err, ErrSyntax) || bad.Set >= bad.Sets {
				t.Fatalf("ParseHSAMask(%q) = %v, %v", value, masks, err)
			}
			for _, m := range bad.Kept {
				if reads[m.Device] != m.CUs {
					t.Fatalf("ParseHSAMask(%q) keeps %v, but ROCr reads %v", value, bad.Kept, reads)
				}
			}
			return
		}
		if len(masks) != len(reads) {
			t.Fatalf("ParseHSAMask(%q) = %v, but ROCr reads %v", value, masks, reads)
		}
		for _, m := range masks {
			if m.CUs.Empty() || reads[m.Device] != m.CUs {
				t.Fatalf("ParseHSAMask(%q) = %v, but ROCr reads %v", value, masks, reads)
			}
		}
		text, err := FormatHSAMask(masks)
		if err != nil {
			t.Fatalf("FormatHSAMask(%v): %v", masks, err)
		}
		again, err := ParseHSAMask(text)
		if err != nil || len(again) != len(masks) {
			t.Fatalf("%q formatted as %q, read again %v, %v", value, text, again, err)
		}
		for i := range masks {
			if masks[i] != again[i] {
				t.Fatalf("%q formatted as %q, read again %v", value, text, again)
			}
		}
	})
}
