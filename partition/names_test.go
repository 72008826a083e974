package partition

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

func TestProductName(t *testing.T) {
	ids := productIDs{{0x744c, 0xc8}: "AMD Radeon RX 7900 XTX from ids", {0x1234, 0x01}: "AMD Radeon New"}
	for name, test := range map[string]struct {
		fru      string
		device   uint16
		revision *uint8
		cus      int
		want     string
	}{
		"FRU first":                        {"AMD Instinct MI300X OAM", 0x74a1, new(uint8(0)), 304, "AMD Instinct MI300X OAM"},
		"FRU of blanks":                    {" \t ", 0x74a1, new(uint8(0)), 304, "AMD Instinct MI300X"},
		"amdgpu.ids before the table":      {"", 0x744c, new(uint8(0xc8)), 96, "AMD Radeon RX 7900 XTX from ids"},
		"only amdgpu.ids knows it":         {"", 0x1234, new(uint8(0x01)), 8, "AMD Radeon New"},
		"same device, other revision":      {"", 0x744c, new(uint8(0xcc)), 84, "AMD Radeon RX 7900 XT"},
		"a revision nobody knows":          {"", 0x744c, new(uint8(0x99)), 84, "AMD Radeon RX 7900 Series"},
		"no revision":                      {"", 0x744c, nil, 96, "AMD Radeon RX 7900 Series"},
		"told apart by CUs: 40":            {"", 0x1586, new(uint8(0xc1)), 40, "AMD Radeon 8060S"},
		"told apart by CUs: 32":            {"", 0x1586, nil, 32, "AMD Radeon 8050S"},
		"told apart by CUs: 16":            {"", 0x1586, nil, 16, "AMD Radeon 8040S"},
		"told apart by CUs: none of them":  {"", 0x1586, nil, 12, "AMD Radeon 8000S Series"},
		"virtual function":                 {"", 0x74b5, new(uint8(0)), 304, "AMD Instinct MI300X VF"},
		"unknown to all":                   {"", 0x0fff, new(uint8(7)), 8, "AMD GPU 0x0fff"},
		"FRU with control characters":      {"AMD\x00 Instinct\n\x1b[31mMI300X\u202e", 0x74a1, nil, 304, "AMD Instinct [31mMI300X"},
		"FRU that is not UTF-8":            {"AMD\xff\xfe Instinct", 0x74a1, nil, 304, "AMD Instinct"},
		"FRU of control characters alone":  {"\x01\x02", 0x74a1, nil, 304, "AMD Instinct MI300X"},
		"FRU that is long":                 {strings.Repeat("é", 100), 0x74a1, nil, 304, strings.Repeat("é", 32)},
		"FRU that is long at a blank":      {strings.Repeat("x", 63) + " y", 0x74a1, nil, 304, strings.Repeat("x", 63)},
		"FRU with separators of HAMi kept": {"AMD:Instinct,MI300X;", 0x74a1, nil, 304, "AMD:Instinct,MI300X;"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := productName(test.fru, ids, test.device, test.revision, test.cus); got != test.want {
				t.Errorf("want %q, found %q", test.want, got)
			}
		})
	}
}

func TestProductTable(t *testing.T) {
	seen := map[[3]int]bool{}
	for _, p := range productNames {
		if !strings.HasPrefix(p.name, "AMD ") || strings.ContainsAny(p.name, ",:;") || cleanName(p.name) != p.name {
			t.Errorf("%04x: name %q", p.device, p.name)
		}
		if key := [3]int{int(p.device), p.revision, p.cus}; seen[key] {
			t.Errorf("%04x: two names for %v", p.device, key)
		} else {
			seen[key] = true
		}
	}
	// Each product that can be split has a name, physical and virtual.
	for _, b := range boards {
		for _, id := range append(b.devices[:len(b.devices):len(b.devices)], b.vfs...) {
			if tableName(id, nil, 0) == "" {
				t.Errorf("%04x has profiles and no name", id)
			}
		}
	}
}

const idsFile = "# List of AMDGPU IDs\n\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n7481,   C7,     AMD Steam Machine\n" +
	"15D8,\t91,\tfirst\n15D8,\t91,\tsecond\n9830,00,AMD, with a comma\n"

func TestParseProductIDs(t *testing.T) {
	got := parseProductIDs([]byte(idsFile + "no commas\n744C,\tC9\nXYZ,\t00,\tbad device\n744C,\tXX,\tbad revision\n" +
		"12345,\t00,\tlong device\n744C,\t100,\tlong revision\n,\t00,\tno device\n164E,\t00,\t\n"))
	want := productIDs{
		{0x744c, 0xc8}: "AMD Radeon RX 7900 XTX", {0x7481, 0xc7}: "AMD Steam Machine",
		{0x15d8, 0x91}: "first", {0x9830, 0}: "AMD, with a comma",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDiscoverReadsProductIDs(t *testing.T) {
	root := fixturetest.Machine(t, "rx7900xtx")
	dir := t.TempDir()
	path := filepath.Join(dir, "amdgpu.ids")
	if err := os.WriteFile(path, []byte("1.0.0\n744C,\tC8,\tAMD Radeon of this host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, make([]byte, maxIDsFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path, want string
		notes      int
	}{
		"read":     {path, "AMD Radeon of this host", 0},
		"absent":   {filepath.Join(dir, "absent"), "AMD Radeon RX 7900 XTX", 0},
		"a folder": {dir, "AMD Radeon RX 7900 XTX", 1},
		"too long": {huge, "AMD Radeon RX 7900 XTX", 1},
	} {
		t.Run(name, func(t *testing.T) {
			inv, err := DiscoverWith(root, DiscoverOptions{AMDGPUIDs: test.path})
			if err != nil {
				t.Fatal(err)
			}
			if got := inv.GPUs[0].Name; got != test.want || len(inv.Notes) != test.notes {
				t.Errorf("want %q and %d notes, found %q, %q", test.want, test.notes, got, inv.Notes)
			}
		})
	}
}

func FuzzParseProductIDs(f *testing.F) {
	f.Add([]byte(idsFile))
	f.Add([]byte("744C,C8,\xff\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for id, name := range parseProductIDs(b) {
			if name == "" || len(name) > maxProductName || !utf8.ValidString(name) || cleanName(name) != name {
				t.Fatalf("%v: name %q", id, name)
			}
		}
	})
}
