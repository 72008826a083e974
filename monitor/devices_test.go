package monitor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

func showGPUs(d *devices) string {
	var b strings.Builder
	for _, g := range d.gpus {
		fmt.Fprintf(&b, "%s %s %d %s %s\n", g.bdf, g.id, g.index, g.typ, g.region)
	}
	return b.String()
}

func registeredAs(id, bdf string, index uint) annotations.Device {
	return annotations.Device{ID: id, Index: index, Type: "AMD X", CustomInfo: annotations.CustomInfo{PCIBDF: bdf}}
}

func TestNewDevices(t *testing.T) {
	for name, tt := range map[string]struct {
		registered []annotations.Device
		want       string
		problems   []string
	}{
		"none": {nil, "", nil},
		"whole GPUs, in another order": {
			[]annotations.Device{registeredAs("b", "0000:27:00.0", 1), registeredAs("a", "0000:05:00.0", 0)},
			"0000:05:00.0 a 0 AMD X drm/0000:05:00.0/vram\n0000:27:00.0 b 1 AMD X drm/0000:27:00.0/vram\n", nil,
		},
		"partitions": {
			[]annotations.Device{
				registeredAs("a-p1", "0000:05:00.0", 2), registeredAs("a-p0", "0000:05:00.0", 0), registeredAs("b-p0", "0000:27:00.0", 1),
			},
			"0000:05:00.0 a 0 AMD X drm/0000:05:00.0/vram\n0000:27:00.0 b 1 AMD X drm/0000:27:00.0/vram\n", nil,
		},
		"partitions that do not say whose they are": {
			[]annotations.Device{registeredAs("a-p0", "0000:05:00.0", 0), registeredAs("b-p1", "0000:05:00.0", 1), registeredAs("c", "0000:05:00.0", 2)},
			"0000:05:00.0 a-p0 0 AMD X drm/0000:05:00.0/vram\n", nil,
		},
		"an address in capitals": {
			[]annotations.Device{registeredAs("a", "0000:C1:00.0", 0)}, "0000:c1:00.0 a 0 AMD X drm/0000:c1:00.0/vram\n", nil,
		},
		"addresses that are none": {
			[]annotations.Device{registeredAs("a", "", 0), registeredAs("b", "05:00.0", 1), registeredAs("c", "0000:05:00.0", 2), registeredAs("d", "0000:05:00.0/../..", 3)},
			"0000:05:00.0 c 2 AMD X drm/0000:05:00.0/vram\n",
			[]string{`registered device "a"`, `registered device "b"`, `registered device "d"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, problems := newDevices(tt.registered, nil, nodeName)
			if diff := cmp.Diff(tt.want, showGPUs(d)); diff != "" {
				t.Errorf("gpus (-want +got):\n%s", diff)
			}
			if len(problems) != len(tt.problems) {
				t.Fatalf("problems %v, want %q", problems, tt.problems)
			}
			for i, err := range problems {
				if !strings.Contains(err.Error(), tt.problems[i]) {
					t.Errorf("problem %q, want %q in it", err, tt.problems[i])
				}
			}
		})
	}
}

// An annotation cannot make the monitor look at any number of files.
func TestNewDevicesIsBounded(t *testing.T) {
	var list []annotations.Device
	for i := range 2 * maxGPUs {
		list = append(list, registeredAs(fmt.Sprint("d", i), fmt.Sprintf("%04x:00:00.0", i), uint(i)))
	}
	d, problems := newDevices(list, nil, nodeName)
	if len(d.gpus) != maxGPUs || len(problems) != 1 {
		t.Errorf("%d gpus, problems %v", len(d.gpus), problems)
	}
}

// Both sides call a GPU the same, so either alone gives what both give.
func TestDiscoveryAgreesWithTheRegistration(t *testing.T) {
	for _, machine := range []string{"mi300x-spx-8", "mi300x-cpx-8", "mi355x-qpx-8", "mi355x-qpx-8-noxcp", "mi300x-vf", "rx7900xtx", "apu-8060s"} {
		inv, err := partition.Discover(fixturetest.Machine(t, machine))
		if err != nil {
			t.Fatal(err)
		}
		alone, problems := newDevices(nil, inv, nodeName)
		if len(problems) > 0 || len(alone.gpus) != len(inv.GPUs) {
			t.Errorf("%s: %d gpus, %v", machine, len(alone.gpus), problems)
		}
		for _, mode := range []partition.OperatingMode{partition.ModeCU, partition.ModePartition} {
			list, err := inv.Devices(partition.RegisterOptions{Mode: mode, NodeName: nodeName})
			if err != nil {
				t.Fatal(err)
			}
			registered, problems := newDevices(list, nil, nodeName)
			if diff := cmp.Diff(showGPUs(alone), showGPUs(registered)); diff != "" || len(problems) > 0 {
				t.Errorf("%s, %s (-discovered +registered): %v\n%s", machine, mode, problems, diff)
			}
			for _, dev := range list {
				found, ok := alone.find(dev.ID)
				if !ok || found.gpu == nil || found.Geometry() != dev.Geometry() {
					t.Errorf("%s: discovery does not know %q", machine, dev.ID)
				}
			}
		}
	}
}

func TestFind(t *testing.T) {
	d, _ := newDevices([]annotations.Device{
		registeredAs("a-p0", "0000:05:00.0", 0), registeredAs("a-p1", "0000:05:00.0", 1), registeredAs("b", "0000:27:00.0", 2),
	}, nil, nodeName)
	for id, want := range map[string]string{
		"a-p1": "0000:05:00.0", "b": "0000:27:00.0", // registered
		"a": "0000:05:00.0", "a-p5": "0000:05:00.0", "b-p0": "0000:27:00.0", // as they were in another mode
		"c": "", "c-p0": "", "": "", "-p0": "", "a-p": "", "a-px": "", "a-p999": "", "b-p0-p1": "",
	} {
		got := ""
		if dev, ok := d.find(id); ok {
			got = string(dev.gpu.bdf)
		}
		if got != want {
			t.Errorf("%q: gpu %q, want %q", id, got, want)
		}
	}
}
