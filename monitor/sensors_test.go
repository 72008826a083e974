package monitor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// show prints sensors with "-" for what is not known.
func (s sensors) show() string {
	var b strings.Builder
	for _, v := range []struct {
		name  string
		value *float64
	}{{"used", s.usedBytes}, {"total", s.totalBytes}, {"busy", s.busyPercent}, {"C", s.temperatureC}, {"W", s.powerW}} {
		if v.value == nil {
			fmt.Fprintf(&b, "%s - ", v.name)
		} else {
			fmt.Fprintf(&b, "%s %.15g ", v.name, *v.value)
		}
	}
	return strings.TrimSpace(b.String())
}

// firstGPU is the address of the first GPU of a machine.
func firstGPU(t *testing.T, sysfs string) partition.GPU {
	t.Helper()
	inv, err := partition.Discover(sysfs)
	if err != nil || len(inv.GPUs) == 0 {
		t.Fatalf("%+v, %v", inv, err)
	}
	return inv.GPUs[0]
}

// hwmonOf is the directory of a GPU's sensors below the root of sysfs.
func hwmonOf(t *testing.T, sysfs string, bdf partition.BDF) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(sysfs, deviceDir(bdf), "hwmon", "hwmon*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("hwmon of %s: %q, %v", bdf, found, err)
	}
	return deviceDir(bdf) + "/hwmon/" + filepath.Base(found[0])
}

func deviceDir(bdf partition.BDF) string { return "bus/pci/devices/" + string(bdf) }

func TestSensorsOfMachines(t *testing.T) {
	for machine, want := range map[string]string{
		"mi300x-spx-8": "used 298844160 total 206141652992 busy 0 C 44 W 139",
		"mi300x-cpx-8": "used 298844160 total 206141652992 busy 0 C 44 W 139",
		"mi355x-qpx-8": "used 298844160 total 309220868096 busy 0 C 44 W 139",
		"rx7900xtx":    "used 298844160 total 25753026560 busy 0 C 41 W 139",
		// A virtual function has no sensors.
		"mi300x-vf": "used 298844160 total 205822885888 busy - C - W -",
		// The memory of an APU is GTT.
		"apu-8060s": "used 14680064 total 118111600640 busy 0 C 41 W 9.041",
	} {
		t.Run(machine, func(t *testing.T) {
			sysfs := fixturetest.Machine(t, machine)
			g := firstGPU(t, sysfs)
			got, problems := readSensors(sysfs, g.BDF, g.APU)
			if problems != nil {
				t.Error(problems)
			}
			if got.show() != want {
				t.Errorf("got  %s\nwant %s", got.show(), want)
			}
		})
	}
}

func TestSensors(t *testing.T) {
	const usual = "used 298844160 total 25753026560 busy 0 C 41 W 139"
	for name, tt := range map[string]struct {
		edit func(write func(name, content string), remove func(names ...string))
		want string
		err  string // "" for none
	}{
		"as it is": {func(func(string, string), func(...string)) {}, usual, ""},
		"no sensors at all": {
			func(_ func(string, string), remove func(...string)) {
				remove("hwmon", "gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total")
			},
			"used - total - busy - C - W -", "",
		},
		"busy": {
			func(write func(string, string), _ func(...string)) { write("gpu_busy_percent", "100\n") },
			"used 298844160 total 25753026560 busy 100 C 41 W 139", "",
		},
		"no edge sensor": {
			func(_ func(string, string), remove func(...string)) { remove("HWMON/temp1_label", "HWMON/temp1_input") },
			"used 298844160 total 25753026560 busy 0 C 44 W 139", "",
		},
		"the edge sensor in another place": {
			func(write func(string, string), _ func(...string)) {
				write("HWMON/temp1_label", "mem\n")
				write("HWMON/temp3_label", "edge\n")
			},
			"used 298844160 total 25753026560 busy 0 C 36 W 139", "",
		},
		"no labels": {
			func(_ func(string, string), remove func(...string)) {
				remove("HWMON/temp1_label", "HWMON/temp2_label", "HWMON/temp3_label")
			},
			usual, "",
		},
		"memory's temperature alone": {
			func(_ func(string, string), remove func(...string)) {
				remove("HWMON/temp1_label", "HWMON/temp2_label", "HWMON/temp1_input", "HWMON/temp2_input")
			},
			"used 298844160 total 25753026560 busy 0 C - W 139", "",
		},
		"below zero": {
			func(write func(string, string), _ func(...string)) { write("HWMON/temp1_input", "-5000\n") },
			"used 298844160 total 25753026560 busy 0 C -5 W 139", "",
		},
		"power as newer parts name it": {
			func(write func(string, string), remove func(...string)) {
				remove("HWMON/power1_average")
				write("HWMON/power1_input", "42500000\n")
			},
			"used 298844160 total 25753026560 busy 0 C 41 W 42.5", "",
		},
		"both powers": {
			func(write func(string, string), _ func(...string)) { write("HWMON/power1_input", "42500000\n") },
			usual, "",
		},
		"another chip's sensors": {
			func(write func(string, string), _ func(...string)) { write("HWMON/name", "nvme\n") },
			"used 298844160 total 25753026560 busy 0 C - W -", "",
		},
		"a second chip's sensors before": {
			func(write func(string, string), _ func(...string)) {
				write("hwmon/hwmon0/name", "other\n")
				write("hwmon/hwmon0/temp1_input", "99000\n")
			},
			usual, "",
		},
		"an empty attribute": {
			func(write func(string, string), _ func(...string)) { write("gpu_busy_percent", "\n") },
			"used 298844160 total 25753026560 busy - C 41 W 139", "",
		},
		"busier than can be": {
			func(write func(string, string), _ func(...string)) { write("gpu_busy_percent", "101\n") },
			"used 298844160 total 25753026560 busy - C 41 W 139", "gpu_busy_percent: want 0 to 100, have 101",
		},
		"garbage in one place": {
			func(write func(string, string), _ func(...string)) { write("HWMON/power1_average", "0x10\n") },
			"used 298844160 total 25753026560 busy 0 C 41 W -", `power1_average: want a number, have "0x10"`,
		},
		"a negative size": {
			func(write func(string, string), _ func(...string)) { write("mem_info_vram_used", "-1\n") },
			"used - total 25753026560 busy 0 C 41 W 139", `mem_info_vram_used: want a number, have "-1"`,
		},
		"a size beyond 64 bits": {
			func(write func(string, string), _ func(...string)) {
				write("mem_info_vram_total", "99999999999999999999\n")
			},
			"used 298844160 total - busy 0 C 41 W 139", "mem_info_vram_total: want a number",
		},
		"a long attribute": {
			func(write func(string, string), _ func(...string)) {
				write("gpu_busy_percent", strings.Repeat("1", 1<<20))
			},
			"used 298844160 total 25753026560 busy - C 41 W 139", "gpu_busy_percent: want at most 128 bytes",
		},
		"a directory": {
			func(write func(string, string), remove func(...string)) {
				remove("gpu_busy_percent")
				write("gpu_busy_percent/x", "1")
			},
			"used 298844160 total 25753026560 busy - C 41 W 139", "gpu_busy_percent: is a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			sysfs := fixturetest.Machine(t, "rx7900xtx")
			bdf := firstGPU(t, sysfs).BDF
			hwmon := hwmonOf(t, sysfs, bdf)
			place := func(name string) string {
				if rest, ok := strings.CutPrefix(name, "HWMON/"); ok {
					return hwmon + "/" + rest
				}
				return deviceDir(bdf) + "/" + name
			}
			tt.edit(
				func(name, content string) { fixturetest.Write(t, sysfs, place(name), content) },
				func(names ...string) {
					for _, name := range names {
						fixturetest.Remove(t, sysfs, place(name))
					}
				})
			got, problems := readSensors(sysfs, bdf, false)
			if diff := cmp.Diff(tt.want, got.show()); diff != "" {
				t.Errorf("sensors (-want +got):\n%s", diff)
			}
			switch {
			case tt.err == "" && problems == nil:
			case tt.err != "" && len(problems) == 1 && strings.HasPrefix(problems[0].Error(), "gpu "+string(bdf)+": ") && strings.Contains(problems[0].Error(), tt.err):
			default:
				t.Errorf("problems %v, want %q", problems, tt.err)
			}
		})
	}
}

func TestSensorsOfNoGPU(t *testing.T) {
	sysfs := fixturetest.Machine(t, "rx7900xtx")
	for name, tt := range map[string]struct{ sysfs, bdf string }{
		"gone":     {sysfs, "0000:ff:00.0"},
		"no sysfs": {filepath.Join(sysfs, "none"), "0000:03:00.0"},
	} {
		if got, problems := readSensors(tt.sysfs, partition.BDF(tt.bdf), false); len(problems) != 1 || !errors.Is(problems[0], fs.ErrNotExist) || got != (sensors{}) {
			t.Errorf("%s: %s, %v", name, got.show(), problems)
		}
	}
}

// A link in a copied or forged tree leads nowhere.
func TestSensorsStayInSysfs(t *testing.T) {
	sysfs := fixturetest.Machine(t, "rx7900xtx")
	bdf := firstGPU(t, sysfs).BDF
	outside := t.TempDir()
	fixturetest.Write(t, outside, "busy", "77\n")
	fixturetest.Link(t, sysfs, deviceDir(bdf)+"/gpu_busy_percent", filepath.Join(outside, "busy"))
	got, problems := readSensors(sysfs, bdf, false)
	if got.busyPercent != nil || len(problems) != 1 {
		t.Errorf("busy %s, %v", got.show(), problems)
	}
	if got.usedBytes == nil {
		t.Error("the other attributes are not read")
	}
}

// The sensors of an APU name it where KFD hides it from the monitor.
func TestHasVDDNB(t *testing.T) {
	sysfs := fixturetest.Machine(t, "apu-8060s")
	bdf := firstGPU(t, sysfs).BDF
	fixturetest.Write(t, sysfs, hwmonOf(t, sysfs, bdf)+"/in1_label", "vddnb\n")
	if !hasVDDNB(sysfs, bdf) {
		t.Error("the APU is not one")
	}
	card := fixturetest.Machine(t, "rx7900xtx")
	if hasVDDNB(card, firstGPU(t, card).BDF) || hasVDDNB(card, "0000:ff:00.0") {
		t.Error("a card, or none, is an APU")
	}
}
