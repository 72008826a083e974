package draw

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/internal/palette"
)

var variable = regexp.MustCompile(`--([a-z0-9-]+):(#[0-9a-f]{3,6})`)

// schemes are the colours of a style sheet by name, light and dark.
func schemes(style string) map[string]map[string]string {
	all := map[string]map[string]string{"light": {}, "dark": {}}
	light, dark, _ := strings.Cut(style, "@media(prefers-color-scheme:dark)")
	dark, _, _ = strings.Cut(dark, "}}")
	for _, m := range variable.FindAllStringSubmatch(light, -1) {
		all["light"][m[1]] = m[2]
	}
	for _, m := range variable.FindAllStringSubmatch(dark, -1) {
		all["dark"][m[1]] = m[2]
	}
	return all
}

// luminance is the relative luminance of WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	hex = strings.TrimPrefix(hex, "#")
	if len(hex) == 3 {
		hex = fmt.Sprintf("%c%c%c%c%c%c", hex[0], hex[0], hex[1], hex[1], hex[2], hex[2])
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatalf("colour %q: %v", hex, err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// Text needs 4.5 (WCAG 2, level AA), bars and marks 3.
func TestContrast(t *testing.T) {
	text := [][2]string{
		{"text", "page"}, {"text", "card"}, {"text", "hover"}, {"text", "chip"}, {"text", "free"},
		{"text", "warning-soft"}, {"error", "warning-soft"}, {"dim", "warning-soft"}, {"dim", "page"}, {"dim", "card"}, {"dim", "hover"},
		{"error", "card"}, {"error", "page"}, {"error", "error-soft"}, {"error", "hover"},
		{"warning", "card"}, {"warning", "page"}, {"warning", "warning-soft"},
	}
	marks := [][2]string{{"full", "free"}, {"full2", "free"}, {"full", "page"}, {"full2", "page"}, {"error", "free"}, {"focus", "page"}, {"focus", "card"}}
	for sheet, style := range map[string]string{"page": pageStyle, "picture": pictureStyle} {
		for scheme, colours := range schemes(style) {
			if len(colours) < 8 {
				t.Fatalf("%s has %d colours in %s", sheet, len(colours), scheme)
			}
			check := func(pairs [][2]string, least float64) {
				for _, pair := range pairs {
					a, b := colours[pair[0]], colours[pair[1]]
					if a == "" || b == "" {
						if sheet == "page" {
							t.Errorf("%s has no %v in %s", sheet, pair, scheme)
						}
						continue
					}
					if c := contrast(t, a, b); c < least {
						t.Errorf("%s, %s: %s on %s has %.2f, want %.1f", sheet, scheme, pair[0], pair[1], c, least)
					}
				}
			}
			check(text, 4.5)
			check(marks, 3)
		}
	}
	colours := []palette.Colour{clashColour}
	for i := range palette.Size {
		colours = append(colours, palette.Of(i))
	}
	for _, c := range colours {
		if got := contrast(t, c.Hex, inkOn(c)); got < 4.5 {
			t.Errorf("letters on %s have %.2f", c.Hex, got)
		}
	}
}
