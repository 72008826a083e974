package partition

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/testdata"
)

var updateRegister = flag.Bool("update-register", false, "write the golden register annotations anew")

func discovered(tb testing.TB, name string) *Inventory {
	tb.Helper()
	inv, err := Discover(fixturetest.Machine(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	return inv
}

// The register annotations of two machines, byte for byte; the files have a
// line break between devices that the annotation does not.
func TestRegisterAnnotationGolden(t *testing.T) {
	for name, test := range map[string]struct {
		machine string
		opts    RegisterOptions
	}{
		"mi300x-spx-8-cu":        {"mi300x-spx-8", RegisterOptions{}},
		"mi300x-spx-8-partition": {"mi300x-spx-8", RegisterOptions{Mode: ModePartition}},
		"mi355x-qpx-8-cu":        {"mi355x-qpx-8", RegisterOptions{}},
		"mi355x-qpx-8-partition": {"mi355x-qpx-8", RegisterOptions{Mode: ModePartition}},
		"apu-8060s-cu":           {"apu-8060s", RegisterOptions{NodeName: "node-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			devices, err := discovered(t, test.machine).Devices(test.opts)
			if err != nil {
				t.Fatal(err)
			}
			text, err := annotations.EncodeDevices(devices)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(text, `},{"id"`, "},\n{\"id\"") + "\n"
			golden := filepath.Join("testdata", "register", name+".json")
			if *updateRegister {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// What each machine offers in both modes: its first device, and how many.
func TestRegisterMachines(t *testing.T) {
	type offer struct {
		Devices, IDs int
		First        string
	}
	tests := map[string]struct{ cu, partition offer }{
		"mi300x-spx-8": {
			offer{8, 80, "soft x10: 196592 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			offer{8, 8, "hard spx x1: 196592 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0, nodes 1"}},
		"mi300x-cpx-8": {
			offer{8, 80, "soft x10: 196592 MiB, 304 CUs, 8 XCCs, cpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 8 unhealthy"},
			offer{64, 64, "hard cpx x1: 24576 MiB, 38 CUs, 1 XCCs, cpx_nps1, 0000:05:00.0-p0, nodes 1"}},
		"mi300x-vf": {
			offer{2, 20, "soft x10: 196288 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:03:00.0#0..0000:03:00.0#9, nodes 1"},
			offer{2, 20, "soft x10: 196288 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:03:00.0#0..0000:03:00.0#9, nodes 1"}},
		"mi355x-spx-8": {
			offer{8, 80, "soft x10: 294896 MiB, 256 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			offer{8, 8, "hard spx x1: 294896 MiB, 256 CUs, 8 XCCs, spx_nps1, 0000:05:00.0, nodes 1"}},
		"mi355x-qpx-8": {
			offer{8, 80, "soft x10: 294912 MiB, 256 CUs, 8 XCCs, qpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 4 unhealthy"},
			offer{32, 32, "hard qpx x1: 73728 MiB, 64 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0-p0, nodes 1"}},
		"mi355x-qpx-8-noxcp": {
			offer{8, 80, "soft x10: 294896 MiB, 256 CUs, 8 XCCs, qpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 4 unhealthy"},
			offer{8, 8, "hard qpx x1: 294896 MiB, 256 CUs, 8 XCCs, qpx_nps1, 0000:05:00.0, nodes 4"}},
		"mi210-8": {
			offer{8, 80, "soft x10: 65520 MiB, 104 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#9, nodes 1"},
			offer{8, 80, "soft x10: 65520 MiB, 104 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#9, nodes 1"}},
		"rx9060xt": {
			offer{1, 2, "soft x2: 16304 MiB, 32 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#1, nodes 1"},
			offer{1, 2, "soft x2: 16304 MiB, 32 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#1, nodes 1"}},
		"rx7900xtx": {
			offer{1, 10, "soft x10: 24560 MiB, 96 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#9, nodes 1"},
			offer{1, 10, "soft x10: 24560 MiB, 96 CUs, 1 XCCs, , 0000:03:00.0#0..0000:03:00.0#9, nodes 1"}},
		"apu-8060s": {
			offer{1, 10, "soft x10: 112640 MiB, 40 CUs, 1 XCCs, , 0000:c2:00.0#0..0000:c2:00.0#9, nodes 1"},
			offer{1, 10, "soft x10: 112640 MiB, 40 CUs, 1 XCCs, , 0000:c2:00.0#0..0000:c2:00.0#9, nodes 1"}},
		"empty": {},
	}
	for _, name := range testdata.Machines() {
		t.Run(name, func(t *testing.T) {
			test, ok := tests[name]
			if !ok {
				t.Fatalf("no expectation for machine %q", name)
			}
			inv := discovered(t, name)
			for mode, want := range map[OperatingMode]offer{ModeCU: test.cu, ModePartition: test.partition} {
				reg := mustRegister(t, inv, RegisterOptions{Mode: mode, NodeName: "node-1"})
				got := offer{Devices: len(reg)}
				for i, d := range reg {
					got.IDs += len(d.KubeletIDs)
					if i == 0 {
						got.First = brief(d)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s mode (-want +got):\n%s", mode, diff)
				}
				checkRegistered(t, inv, reg)
			}
		})
	}
}

// The captures of real machines: MI210s, which have no modes, and an MI300X
// host in CPX mode whose kernel ran out of DRM minors for one partition. The
// captures hold no size of the video memory.
func TestRegisterCaptures(t *testing.T) {
	tests := map[string]struct {
		mode OperatingMode
		want map[string]int // kind, CUs and XGMI peers, by how many devices
	}{
		"mi210-xgmi-pcie": {ModePartition, map[string]int{"soft 104 3": 8}},
		"mi300-cpx":       {ModePartition, map[string]int{"hard cpx 38 7": 63}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inv, err := Discover(fixturetest.Captured(t, name))
			if err != nil {
				t.Fatal(err)
			}
			reg := mustRegister(t, inv, RegisterOptions{Mode: test.mode, NodeName: "node-1"})
			got := map[string]int{}
			for _, d := range reg {
				kind := "soft"
				if d.Hard {
					kind = "hard " + d.Mode
				}
				got[fmt.Sprintf("%s %d %d", kind, d.Devcore, len(d.CustomInfo.XGMIPeers))]++
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			checkRegistered(t, inv, reg)
		})
	}
}
