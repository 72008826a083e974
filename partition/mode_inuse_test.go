package partition

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestModeChangedInUse(t *testing.T) {
	const a, b = "08ff74a1-0000-1000-80da-82c12ef81b00", "08ff74a1-0000-1000-80da-82c12ef81b01"
	spx, qpx := machine(mi300x, 2, SPX, "nps1"), machine(mi300x, 2, QPX, "nps1")
	part := RegisterOptions{Mode: ModePartition}
	mixed := RegisterOptions{Mode: ModePartition, Naming: NamingMixed}
	entries := func(inv *Inventory, opts RegisterOptions) []annotations.Device {
		devices, err := inv.Devices(opts)
		if err != nil {
			t.Fatal(err)
		}
		return devices
	}
	holders := map[string][]string{
		"ns/two": {b, a}, "ns/first": {a}, "ns/part": {a + "-p1"}, "ns/gone": {"08ff74a1-0000-1000-80ff-000000000000"}, "ns/none": nil,
	}
	tests := map[string]struct {
		before []annotations.Device
		after  []Registered
		want   []string
	}{
		"nothing changed":                    {entries(spx, RegisterOptions{}), mustRegister(t, spx, RegisterOptions{}), []string{"ns/part"}},
		"from shares to whole GPUs in SPX":   {entries(spx, RegisterOptions{}), mustRegister(t, spx, part), []string{"ns/first", "ns/part", "ns/two"}},
		"and back":                           {entries(spx, part), mustRegister(t, spx, RegisterOptions{}), []string{"ns/first", "ns/part", "ns/two"}},
		"from whole GPUs to partitions":      {entries(spx, part), mustRegister(t, qpx, part), []string{"ns/first", "ns/two"}},
		"to partitions outside HAMi":         {entries(spx, part), mustRegister(t, qpx, mixed), []string{"ns/first", "ns/two"}},
		"from partitions to whole GPUs":      {entries(qpx, part), mustRegister(t, spx, part), []string{"ns/part"}},
		"between partition modes":            {entries(machine(mi300x, 2, DPX, "nps1"), part), mustRegister(t, qpx, part), []string{"ns/first", "ns/part", "ns/two"}},
		"the old annotation is lost":         {nil, mustRegister(t, qpx, part), []string{"ns/first", "ns/two"}},
		"the old annotation is lost, shares": {nil, mustRegister(t, spx, part), []string{"ns/part"}},
		"the GPUs are gone":                  {entries(spx, part), nil, nil},
		"one GPU excluded":                   {entries(spx, RegisterOptions{}), mustRegister(t, spx, RegisterOptions{Mode: ModePartition, Exclude: []string{"card0"}}), []string{"ns/two"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ModeChangedInUse(test.before, test.after, holders)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}
