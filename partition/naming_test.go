package partition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResources(t *testing.T) {
	mixed := machine(mi300x, 3, SPX, "nps1")
	mixed.GPUs[1] = mi300x.gpu(1, QPX, "nps1")
	mixed.GPUs[2] = mi300x.gpu(2, CPX, "nps4")
	numberNodes(mixed)
	unknownNPS := machine(mi300x, 1, CPX, "")
	oddNPS := machine(mi300x, 1, CPX, "nps/4 x")
	unknownMode := machine(mi300x, 1, SPX, "nps1")
	unknownMode.GPUs[0].Compute, unknownMode.GPUs[0].RawCompute = "", "_"
	noXCP := machine(mi355x, 1, QPX, "nps1")
	for i := range noXCP.GPUs[0].Nodes {
		noXCP.GPUs[0].Nodes[i].RenderMinor = 128
	}
	vf := machine(mi300xVF, 1, CPX, "nps1")
	vf.GPUs[0].Nodes = vf.GPUs[0].Nodes[:1]
	note := "partitions of different modes (cpx_nps4, qpx_nps1, spx_nps1) are all amd.com/gpu: the mixed naming strategy tells them apart"
	tests := map[string]struct {
		inv     *Inventory
		mode    OperatingMode
		naming  NamingStrategy
		want    []string
		entries int
		note    string
	}{
		"single, one mode":                 {machine(mi300x, 2, CPX, "nps4"), ModePartition, "", []string{"amd.com/gpu"}, 16, ""},
		"mixed, one mode":                  {machine(mi300x, 2, CPX, "nps4"), ModePartition, NamingMixed, []string{"amd.com/cpx_nps4"}, 0, ""},
		"single, three modes":              {mixed, ModePartition, NamingSingle, []string{"amd.com/gpu"}, 13, note},
		"mixed, three modes":               {mixed, ModePartition, NamingMixed, []string{"amd.com/cpx_nps4", "amd.com/gpu", "amd.com/qpx_nps1"}, 1, ""},
		"mixed, whole GPUs in SPX":         {machine(mi300x, 2, SPX, "nps1"), ModePartition, NamingMixed, []string{"amd.com/gpu"}, 2, ""},
		"mixed, GPUs without modes":        {machine(rx7900, 2, "", ""), ModePartition, NamingMixed, []string{"amd.com/gpu"}, 2, ""},
		"mixed, a VF that is one node":     {vf, ModePartition, NamingMixed, []string{"amd.com/gpu"}, 1, ""},
		"mixed in cu mode":                 {mixed, ModeCU, NamingMixed, []string{"amd.com/gpu"}, 3, ""},
		"mixed, no partitions apart":       {noXCP, ModePartition, NamingMixed, []string{"amd.com/qpx_nps1"}, 0, ""},
		"mixed, memory mode unknown":       {unknownNPS, ModePartition, NamingMixed, []string{"amd.com/cpx"}, 0, ""},
		"mixed, memory mode that is none":  {oddNPS, ModePartition, NamingMixed, []string{"amd.com/cpx"}, 0, ""},
		"mixed, compute mode that is none": {unknownMode, ModePartition, NamingMixed, []string{"amd.com/gpu"}, 1, ""},
		"no GPUs":                          {&Inventory{}, ModePartition, NamingMixed, nil, 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			opts := RegisterOptions{Mode: test.mode, Naming: test.naming}
			reg, err := test.inv.Register(opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, Resources(reg.Devices)); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			entries, err := test.inv.Devices(opts)
			if err != nil || len(entries) != test.entries {
				t.Errorf("%d register entries, want %d, error %v", len(entries), test.entries, err)
			}
			found := ""
			for _, n := range reg.Notes {
				if strings.Contains(n, "naming strategy") {
					found = n
				}
			}
			if found != test.note {
				t.Errorf("note %q, want %q", found, test.note)
			}
			checkRegistered(t, test.inv, reg.Devices)
		})
	}
}

// In the mixed strategy a device belongs to exactly one resource, and the IDs
// kubelet sees under it are those of that mode.
func TestMixedNamesGoWithTheirDevices(t *testing.T) {
	inv := machine(mi300x, 2, SPX, "nps1")
	inv.GPUs[1] = mi300x.gpu(1, DPX, "nps2")
	got := map[string][]string{}
	for _, d := range mustRegister(t, inv, RegisterOptions{Mode: ModePartition, Naming: NamingMixed}) {
		got[d.Resource] = append(got[d.Resource], d.KubeletIDs...)
	}
	want := map[string][]string{
		"amd.com/gpu":      {"0000:05:00.0"},
		"amd.com/dpx_nps2": {"0000:15:00.0-p0", "0000:15:00.0-p1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseNamingStrategy(t *testing.T) {
	for s, want := range map[string]NamingStrategy{"": NamingSingle, "single": NamingSingle, "mixed": NamingMixed} {
		if got, err := ParseNamingStrategy(s); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"Single", "mixed ", "both", "single,mixed"} {
		_, err := ParseNamingStrategy(s)
		checkRefused(t, err, "resource naming strategy ")
	}
}
