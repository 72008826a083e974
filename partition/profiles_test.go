package partition

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/cumask"
)

func nps(modes ...MemoryMode) []MemoryMode { return modes }

// The profiles of each product, for every mode, as amd-smi lists them.
func TestProfilesOfProducts(t *testing.T) {
	four := func(dpx, qpx, cpx []MemoryMode) []Profile {
		return []Profile{
			{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 8},
			{Index: 1, Compute: DPX, Memory: dpx, Partitions: 2, XCCsPerPart: 4},
			{Index: 2, Compute: QPX, Memory: qpx, Partitions: 4, XCCsPerPart: 2},
			{Index: 3, Compute: CPX, Memory: cpx, Partitions: 8, XCCsPerPart: 1},
		}
	}
	mi355x := four(nps("nps1", "nps2"), nps("nps1"), nps("nps1"))
	mi300x := four(nps("nps1"), nps("nps1", "nps4"), nps("nps1", "nps4"))
	mi308x := []Profile{
		{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 4},
		{Index: 1, Compute: DPX, Memory: nps("nps1"), Partitions: 2, XCCsPerPart: 2},
		{Index: 2, Compute: CPX, Memory: nps("nps1", "nps4"), Partitions: 4, XCCsPerPart: 1},
	}
	for name, test := range map[string]struct {
		devices []uint16
		want    []Profile
	}{
		"MI355X and MI350X, virtual ones too": {[]uint16{0x75a3, 0x75a0}, mi355x},
		"MI355X VF":                           {[]uint16{0x75b3, 0x75b0}, four(nps("nps1", "nps2"), nps("nps1"), nps("nps1", "nps2"))},
		"MI300X, HF, and their VFs":           {[]uint16{0x74a1, 0x74a9, 0x74b5, 0x74bd}, mi300x},
		"MI325X":                              {[]uint16{0x74a5, 0x74b9}, four(nps("nps1"), nps("nps1"), nps("nps1"))},
		"MI308X, HF, and their VFs":           {[]uint16{0x74a2, 0x74a8, 0x74b6, 0x74bc}, mi308x},
		"MI300A": {[]uint16{0x74a0, 0x74b4}, []Profile{
			{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 6},
			{Index: 1, Compute: TPX, Memory: nps("nps1"), Partitions: 3, XCCsPerPart: 2},
			{Index: 2, Compute: CPX, Memory: nps("nps1"), Partitions: 6, XCCsPerPart: 1},
		}},
		"MI210, a Radeon and an APU": {[]uint16{0x740f, 0x744c, 0x1586}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, device := range test.devices {
				for _, current := range []ComputeMode{"", SPX, DPX, TPX, QPX, CPX} {
					want := slices.Clone(test.want)
					for i := range want {
						want[i].Current = want[i].Compute == current
					}
					got := profilesOf(&GPU{DeviceID: device, Compute: current}, profileSource{})
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%04x in %q (-want +got):\n%s", device, current, diff)
					}
				}
			}
		})
	}
}

func TestProfilesFromSysfs(t *testing.T) {
	for name, test := range map[string]struct {
		gpu  GPU
		src  profileSource
		want []Profile
	}{
		"sysfs over the table": {
			GPU{DeviceID: 0x74a1, Compute: DPX, MemoryModes: nps("nps1", "nps2")},
			profileSource{supported: []ComputeMode{SPX, DPX}},
			[]Profile{
				{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 8},
				{Index: 1, Compute: DPX, Memory: nps("nps1", "nps2"), Partitions: 2, XCCsPerPart: 4, Current: true},
			},
		},
		"available_compute_partition where there is no config folder": {
			GPU{DeviceID: 0x74a2, ComputeModes: []ComputeMode{SPX, CPX}},
			profileSource{},
			[]Profile{
				{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 4},
				{Index: 1, Compute: CPX, Memory: nps("nps1", "nps4"), Partitions: 4, XCCsPerPart: 1},
			},
		},
		"the selected config's own memory modes": {
			GPU{DeviceID: 0x75a3, MemoryModes: nps("nps1", "nps2")},
			profileSource{supported: []ComputeMode{SPX, CPX}, selected: CPX, memory: nps("nps1", "nps2")},
			[]Profile{
				{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 8},
				{Index: 1, Compute: CPX, Memory: nps("nps1", "nps2"), Partitions: 8, XCCsPerPart: 1},
			},
		},
		"a product that is not in the table": {
			GPU{DeviceID: 0x7fff, Nodes: []Node{{Geometry: cumask.Geometry{CUs: 64, XCCs: 2}}, {Geometry: cumask.Geometry{CUs: 64, XCCs: 2}}}},
			profileSource{supported: []ComputeMode{SPX, DPX, TPX, CPX}},
			[]Profile{
				{Index: 0, Compute: SPX, Memory: nps("nps1"), Partitions: 1, XCCsPerPart: 4},
				{Index: 1, Compute: DPX, Memory: nps("nps1"), Partitions: 2, XCCsPerPart: 2},
				// TPX cannot be made of four XCCs.
				{Index: 2, Compute: CPX, Memory: nps("nps1"), Partitions: 4, XCCsPerPart: 1},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, profilesOf(&test.gpu, test.src)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseModes(t *testing.T) {
	for text, want := range map[string][]ComputeMode{
		"SPX, DPX, QPX, CPX": {SPX, DPX, QPX, CPX},
		"SPX,CPX":            {SPX, CPX},
		" TPX ":              {TPX},
		"Not supported":      nil,
		"":                   nil,
		", ,":                nil,
		"SPX, FOO, SPX, CPX": {SPX, CPX},
		"UNKNOWN":            nil,
		"spx, Cpx":           {SPX, CPX},
		"\u017fPX":           nil, // a long s is an s to whoever ignores case as Unicode does
	} {
		if diff := cmp.Diff(want, parseModes(text, parseComputeMode)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string][]MemoryMode{
		"NPS1, NPS4": {"nps1", "nps4"}, "NPS8": {"nps8"}, "NPS5": nil, "NPS": nil, "NPS44": nil,
		"NPS1, NPS2, NPS3, NPS4, NPS6, NPS8": {"nps1", "nps2", "nps3", "nps4", "nps6", "nps8"}, // all the kernel knows
	} {
		if diff := cmp.Diff(want, parseModes(text, parseMemoryMode)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzParseModes(f *testing.F) {
	f.Add("SPX, DPX, QPX, CPX")
	f.Add("Not supported")
	f.Fuzz(func(t *testing.T, text string) {
		modes := parseModes(text, parseComputeMode)
		words := make([]string, len(modes))
		for i, m := range modes {
			words[i] = strings.ToUpper(string(m))
		}
		again := parseModes(strings.Join(words, ", "), parseComputeMode)
		if !slices.Equal(modes, again) || len(modes) > len(computeModes) {
			t.Fatalf("%q: %v, then %v", text, modes, again)
		}
		for _, p := range profilesOf(&GPU{DeviceID: 0x74a1}, profileSource{supported: modes}) {
			if p.Partitions*p.XCCsPerPart != 8 {
				t.Fatalf("%q: profile %+v of 8 XCCs", text, p)
			}
		}
	})
}
