package dmem

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLines(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []line
	}{
		"no regions": {"", nil},
		"one":        {gpuA + " 206141652992\n", []line{{gpuA, vram}}},
		"several, of several drivers": {
			gpuA + " max\ndrm/0000:00:02.0/stolen 0\n" + gpuB + " 9223372036854775807\n",
			[]line{{gpuA, Max}, {"drm/0000:00:02.0/stolen", 0}, {gpuB, 9223372036854775807}},
		},
		"no newline at the end": {gpuA + " 1", []line{{gpuA, 1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseLines(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(line{})); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseLinesRefuses(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"an empty line":     {gpuA + " 1\n\n", `line 2: want a region and a value, have ""`},
		"no value":          {gpuA + "\n", `line 1: want a region and a value, have "drm/0000:06:00.0/vram"`},
		"no region":         {" 5\n", `line 1: want a region and a value, have " 5"`},
		"two blanks":        {gpuA + "  5\n", `line 1: want a region without blanks, have "drm/0000:06:00.0/vram "`},
		"a tab":             {gpuA + "\t5\n", `line 1: want a region and a value, have "drm/0000:06:00.0/vram\t5"`},
		"an empty value":    {gpuA + " \n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have ""`},
		"a sign":            {gpuA + " -1\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "-1"`},
		"a plus":            {gpuA + " +1\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "+1"`},
		"a suffix":          {gpuA + " 1G\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "1G"`},
		"beyond 63 bits":    {gpuA + " 9223372036854775808\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "9223372036854775808"`},
		"Max in capitals":   {gpuA + " MAX\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "MAX"`},
		"a region twice":    {gpuA + " 1\n" + gpuA + " 2\n", `line 2: region "drm/0000:06:00.0/vram" is listed twice`},
		"a carriage return": {gpuA + " 1\r\n", `line 1: value of "drm/0000:06:00.0/vram": want bytes or max, have "1\r"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseLines(tt.in)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\nwant    %s", err, tt.want)
			}
			if got != nil {
				t.Errorf("lines %v with an error", got)
			}
		})
	}
}

func FuzzParseLines(f *testing.F) {
	f.Add(gpuA + " max\n" + gpuB + " 0\n")
	f.Add("a 1\na 1")
	f.Add(" \n")
	f.Fuzz(func(t *testing.T, in string) {
		lines, err := parseLines(in)
		if err != nil {
			if lines != nil {
				t.Fatalf("lines %v with error %v", lines, err)
			}
			return
		}
		var b strings.Builder
		for _, l := range lines {
			fmt.Fprintf(&b, "%s %s\n", l.region, l.value)
		}
		again, err := parseLines(b.String())
		if err != nil {
			t.Fatalf("printed %q: %v", b.String(), err)
		}
		if diff := cmp.Diff(lines, again, cmp.AllowUnexported(line{})); diff != "" {
			t.Errorf("printed and parsed (-want +got):\n%s", diff)
		}
	})
}

func TestLimitString(t *testing.T) {
	for want, l := range map[string]Limit{"0": 0, "4096": 4096, "max": Max} {
		if got := l.String(); got != want {
			t.Errorf("Limit(%d) = %q, want %q", uint64(l), got, want)
		}
	}
}
