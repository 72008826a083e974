package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProps(t *testing.T) {
	have := func(n uint64) number { return number{n, true} }
	for name, test := range map[string]struct {
		text string
		want kfdProps
	}{
		"known keys among others": {
			"cpu_cores_count 0\nsimd_count 1216\nfamily_id x y\nsimd_per_cu 4\nunique_id 11673270660693242239\n",
			kfdProps{cpuCores: have(0), simdCount: have(1216), simdPerCU: have(4), uniqueID: have(11673270660693242239)},
		},
		"hexadecimal unique_id":     {"unique_id a1ffc9d1799c317f\n", kfdProps{uniqueID: have(0xa1ffc9d1799c317f)}},
		"no newline at the end":     {"domain 3", kfdProps{domain: have(3)}},
		"largest number":            {"hive_id 18446744073709551615\n", kfdProps{hiveID: have(1<<64 - 1)}},
		"unknown keys alone":        {"debug_prop 1511\n", kfdProps{}},
		"unknown key twice":         {"capability 1\ncapability 2\n", kfdProps{}},
		"blank lines":               {"\n\nnum_xcc 8\n\n", kfdProps{xccCount: have(8)}},
		"a key that is a prefix":    {"simd_count_max 3\n", kfdProps{}},
		"unknown key without value": {"nonsense\n", kfdProps{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got kfdProps
			if err := parseProps([]byte(test.text), got.field); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(kfdProps{}, number{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":                  {"", "empty file"},
		"word":                   {"simd_count many\n", `simd_count "many": want a number`},
		"no value":               {"simd_count\n", `simd_count "": want a number`},
		"two values":             {"simd_count 1 2\n", `simd_count "1 2": want a number`},
		"negative":               {"simd_count -1\n", `simd_count "-1": want a number`},
		"plus":                   {"simd_count +1\n", `simd_count "+1": want a number`},
		"prefix":                 {"device_id 0x74a1\n", `device_id "0x74a1": want a number`},
		"beyond 64 bits":         {"hive_id 18446744073709551616\n", `hive_id "18446744073709551616": want a number`},
		"two blanks":             {"domain  1\n", `domain " 1": want a number`},
		"carriage return":        {"domain 1\r\n", `domain "1\r": want a number`},
		"twice":                  {"domain 1\ndomain 1\n", "domain: given twice"},
		"unique_id of 17 digits": {"unique_id a1ffc9d1799c317f0\n", `unique_id "a1ffc9d1799c317f0": want a number`},
		"NUL":                    {"domain \x00\n", `domain "\x00": want a number`},
		"long":                   {"domain " + strings.Repeat("9", 500), `domain "` + strings.Repeat("9", 64) + `": want a number`},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			var p kfdProps
			err := parseProps([]byte(test.text), p.field)
			if err == nil || err.Error() != test.want {
				t.Errorf("want %q, found %v", test.want, err)
			}
		})
	}
}

// Whatever a properties file holds, a node is refused or has a shape that
// masks can be made for, and an address and a render minor that can be.
func FuzzNodeProperties(f *testing.F) {
	f.Add("simd_count 1216\nsimd_per_cu 4\nvendor_id 4098\nlocation_id 1280\ndrm_render_minor 128\nnum_xcc 8\narray_count 32\n" +
		"simd_arrays_per_engine 1\ncu_per_simd_array 10\ngfx_target_version 90402\ndevice_id 29857\n")
	f.Add("simd_count 64\nsimd_per_cu 2\nvendor_id 4098\nlocation_id 4026531840\ngfx_target_version 120000\narray_count 4\nsimd_arrays_per_engine 2\ncu_per_simd_array 8\n")
	f.Add("simd_count 0\nunique_id ff\n")
	f.Fuzz(func(t *testing.T, text string) {
		var p kfdProps
		if err := parseProps([]byte(text), p.field); err != nil {
			return
		}
		a, _, err := p.address()
		if bdf := formatBDF(a); err == nil {
			if again, ok := splitBDF(string(bdf)); !ok || again != a {
				t.Fatalf("address %+v is spelled %q", a, bdf)
			}
		}
		if p.simdPerCU.n == 0 {
			return // not a GPU: gpu() says so before
		}
		var n kfdNode
		if err := p.node(1, &n); err != nil {
			return
		}
		if err := n.Geometry.Validate(); err != nil {
			t.Fatalf("%+v: %v", n.Geometry, err)
		}
		if n.Geometry.CUs != int(p.simdCount.n/p.simdPerCU.n) || n.ComputeQueues < 0 {
			t.Fatalf("%+v from %d SIMDs", n.Node, p.simdCount.n)
		}
		if n.noMinor == (n.RenderMinor != 0) || n.RenderMinor != 0 && n.RenderMinor < 128 {
			t.Fatalf("render minor %d", n.RenderMinor)
		}
		if name := gfxName(n.gfx); name != "" && !strings.HasPrefix(name, "gfx") {
			t.Fatalf("target %d is %q", n.gfx, name)
		}
	})
}

// FuzzParseProps checks that what is read is what was written.
func FuzzParseProps(f *testing.F) {
	f.Add(uint64(1), uint64(77309411328), "width 8192\n")
	f.Fuzz(func(t *testing.T, heap, size uint64, more string) {
		var p bankProps
		text := fmt.Sprintf("heap_type %d\nsize_in_bytes %d\n%s", heap, size, more)
		if err := parseProps([]byte(text), p.field); err != nil {
			if !strings.Contains("\n"+more, "\nheap_type") && !strings.Contains("\n"+more, "\nsize_in_bytes") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if p.heapType.n != heap || p.size.n != size {
			t.Fatalf("%q is read as %+v", text, p)
		}
	})
}
