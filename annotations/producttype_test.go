package annotations

import (
	"strings"
	"testing"
)

func TestSanitizeType(t *testing.T) {
	for product, want := range map[string]string{
		"AMD Instinct MI300X":                    "AMD Instinct MI300X",
		"AMD Instinct MI300X VF":                 "AMD Instinct MI300X VF",
		"Radeon RX 9060 XT":                      "AMD Radeon RX 9060 XT",
		"AMD Radeon(TM) 8060S Graphics":          "AMD Radeon(TM) 8060S Graphics",
		"amd foo":                                "AMD foo",
		"Amd Radeon":                             "AMD Radeon",
		"amd-gpu":                                "AMD-gpu",
		"amdgpu":                                 "AMDgpu",
		"AMD":                                    "AMD",
		"amd":                                    "AMD",
		"am":                                     "AMD am",
		"":                                       "AMD GPU",
		" \t\n":                                  "AMD GPU",
		",:;,:;":                                 "AMD GPU",
		"\x00\x01\x7f":                           "AMD GPU",
		"显卡":                                     "AMD GPU",
		"Radeon™ RX® 7900 XTX":                   "AMD Radeon RX 7900 XTX",
		"Radeon RX 7600, 7700S; 0x7480: rev cf":  "AMD Radeon RX 7600 7700S 0x7480 rev cf",
		"  Radeon  \t RX  ":                      "AMD Radeon RX",
		"Radeon\nRX\x00\x1b[31m":                 "AMD Radeon RX [31m",
		"Advanced Micro Devices, Inc. [AMD/ATI]": "AMD Advanced Micro Devices Inc. [AMD/ATI]",
		"NVIDIA":                                 "AMD NVIDIA",
		"\uff21\uff2d\uff24 Instinct":            "AMD Instinct",
		"Instinct \xff\xfe MI210":                "AMD Instinct MI210",
		",AMD Instinct":                          "AMD Instinct",
		strings.Repeat("X", 1000):                "AMD " + strings.Repeat("X", 60),
		"AMD " + strings.Repeat("X", 59) + " tail":          "AMD " + strings.Repeat("X", 59),
		strings.Repeat("X", 59) + strings.Repeat(" x", 100): "AMD " + strings.Repeat("X", 59),
		strings.Repeat(" ", 1<<20) + "AMD":                  "AMD",
	} {
		got := SanitizeType(product)
		if got != want {
			t.Errorf("SanitizeType(%.80q) = %q, want %q", product, got, want)
		}
		checkType(t, got)
	}
}

// checkType fails for a type that HAMi could not use.
func checkType(t *testing.T, s string) {
	t.Helper()
	if !strings.HasPrefix(s, "AMD") || strings.ContainsAny(s, ",:;") || len(s) > maxTypeBytes {
		t.Errorf("type %q", s)
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			t.Errorf("type %q holds the byte %#x", s, c)
		}
	}
	if again := SanitizeType(s); again != s {
		t.Errorf("SanitizeType(%q) = %q, want no change", s, again)
	}
	value, err := EncodePod(PodGrants{{{UUID: "A", Type: s}}})
	if err != nil {
		t.Fatal(err)
	}
	if pod, err := DecodePod(value); err != nil || pod[0][0].Type != s {
		t.Errorf("a grant of type %q is read as %v, %v", s, pod, err)
	}
}
