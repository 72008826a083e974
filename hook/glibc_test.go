package hook

import (
	"slices"
	"testing"
)

func TestParseGlibc(t *testing.T) {
	for in, want := range map[string]Glibc{
		"2.34": {2, 34, 0}, "2.2.5": {2, 2, 5}, "2.0": {2, 0, 0}, "10.1": {10, 1, 0}, "2.34.0": {2, 34, 0},
	} {
		if got, err := ParseGlibc(in); err != nil || got != want {
			t.Errorf("ParseGlibc(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "2", "2.", ".34", "2.34.1.1", "2.x", "-2.34", "+2.34", "2. 34", "2.034", "2.99999", "2_0.1"} {
		if got, err := ParseGlibc(in); err == nil || got != (Glibc{}) {
			t.Errorf("ParseGlibc(%q) = %v, %v; want an error", in, got, err)
		}
	}
}

// Versions are numbers and not text: 2.4 is old.
func TestGlibcCompare(t *testing.T) {
	order := []string{"2.2.5", "2.3.4", "2.4", "2.9", "2.17", "2.31", "2.34", "2.39", "3.0"}
	var list []Glibc
	for _, s := range order {
		v, err := ParseGlibc(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	slices.Reverse(list)
	slices.SortFunc(list, Glibc.Compare)
	for i, v := range list {
		if v.String() != order[i] {
			t.Errorf("place %d: %s, want %s", i, v, order[i])
		}
	}
}

func TestNewestGlibc(t *testing.T) {
	tests := map[string]struct {
		symbols []string
		want    Glibc
	}{
		"none":                   {nil, Glibc{}},
		"what the hook needs":    {[]string{"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.17"}, Glibc{2, 34, 0}},
		"2.4 is older than 2.17": {[]string{"GLIBC_2.4", "GLIBC_2.17"}, Glibc{2, 17, 0}},
		"private and ABI names":  {[]string{"GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBC_2.36"}, Glibc{2, 36, 0}},
		"other libraries' names": {[]string{"GCC_3.0", "GLIBCXX_3.4.30", "GLIBC_"}, Glibc{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := NewestGlibc(tt.symbols); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzParseGlibc(f *testing.F) {
	f.Add("2.34")
	f.Add("2.2.5")
	f.Fuzz(func(t *testing.T, in string) {
		v, err := ParseGlibc(in)
		if err != nil {
			if v != (Glibc{}) {
				t.Errorf("%v with an error", v)
			}
			return
		}
		if again, err := ParseGlibc(v.String()); err != nil || again != v {
			t.Errorf("%q printed as %q, parsed as %v, %v", in, v, again, err)
		}
	})
}
