package partition

import (
	"fmt"
	"strings"
	"testing"
)

func TestUUID(t *testing.T) {
	for name, test := range map[string]struct {
		serial uint64
		device uint16
		want   string
	}{
		"MI300X virtual function": {0x8e1bb56457addd1b, 0x74b5, "8eff74b5-0000-1000-801b-b56457addd1b"},
		"MI355X":                  {0x08da82c12ef81b5d, 0x75a3, "08ff75a3-0000-1000-80da-82c12ef81b5d"},
		"APU without a serial":    {0, 0x1586, "00ff1586-0000-1000-8000-000000000000"},
		"all bits":                {1<<64 - 1, 0xffff, "ffffffff-0000-1000-80ff-ffffffffffff"},
		"lowest bits":             {1, 1, "00ff0001-0000-1000-8000-000000000001"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FormatUUID(test.serial, test.device); got != test.want {
				t.Errorf("want %s, found %s", test.want, got)
			}
			if got := (GPU{UniqueID: test.serial, DeviceID: test.device}).UUID(); got != test.want {
				t.Errorf("GPU: want %s, found %s", test.want, got)
			}
			serial, device, err := ParseUUID(test.want)
			if err != nil || serial != test.serial || device != test.device {
				t.Errorf("back: found %x, %x, %v", serial, device, err)
			}
		})
	}
}

func TestParseUUIDRefuses(t *testing.T) {
	const good = "8eff74b5-0000-1000-801b-b56457addd1b"
	for name, s := range map[string]string{
		"empty":              "",
		"ROCr's name":        "GPU-8e1bb56457addd1b",
		"no ff":              strings.Replace(good, "8eff", "8efe", 1),
		"time":               strings.Replace(good, "-0000-", "-0001-", 1),
		"version":            strings.Replace(good, "-1000-", "-4000-", 1),
		"variant":            strings.Replace(good, "-801b-", "-901b-", 1),
		"upper case":         strings.ToUpper(good),
		"no hex":             strings.Replace(good, "b5-", "g5-", 1),
		"a partition":        good + "-p1",
		"short":              good[:35],
		"dash in the serial": strings.Replace(good, "b56457", "b5-457", 1),
		"sign":               strings.Replace(good, "b56457", "+56457", 1),
	} {
		if serial, device, err := ParseUUID(s); err == nil || serial != 0 || device != 0 {
			t.Errorf("%s: want an error and zeros, found %x, %x", name, serial, device)
		}
	}
}

func TestROCrID(t *testing.T) {
	for id, want := range map[uint64]string{
		637966063454657373:   "GPU-08da82c12ef81b5d",
		1801979520617338022:  "GPU-1901ead3a2ecd4a6",
		11673270660693242239: "GPU-a1ffc9d1799c317f", // beyond the signed numbers
		1:                    "GPU-0000000000000001",
		0:                    "",
	} {
		if got := (Node{UniqueID: id}).ROCrID(); got != want {
			t.Errorf("%d: want %q, found %q", id, want, got)
		}
	}
}

func FuzzUUID(f *testing.F) {
	f.Add("8eff74b5-0000-1000-801b-b56457addd1b", uint64(0x8e1bb56457addd1b), uint16(0x74b5))
	f.Add("00ff0000-0000-1000-8000-000000000000", uint64(0), uint16(0))
	f.Fuzz(func(t *testing.T, s string, serial uint64, device uint16) {
		if gotSerial, gotDevice, err := ParseUUID(s); err == nil && FormatUUID(gotSerial, gotDevice) != s {
			t.Fatalf("%q is read as %x, %x, which is %q", s, gotSerial, gotDevice, FormatUUID(gotSerial, gotDevice))
		}
		gotSerial, gotDevice, err := ParseUUID(FormatUUID(serial, device))
		if err != nil || gotSerial != serial || gotDevice != device {
			t.Fatalf("%x, %x comes back as %x, %x, %v", serial, device, gotSerial, gotDevice, err)
		}
	})
}

func ExampleFormatUUID() {
	fmt.Println(FormatUUID(0x08da82c12ef81b5d, 0x75a3))
	// Output: 08ff75a3-0000-1000-80da-82c12ef81b5d
}
