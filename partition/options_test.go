package partition

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	tests := map[string]struct {
		opts RegisterOptions
		want string
	}{
		"a negative split count":         {RegisterOptions{SplitCount: -1}, "split count -1: want 0 to 1024"},
		"a split count beyond reason":    {RegisterOptions{SplitCount: 1025}, "split count 1025: want 0 to 1024"},
		"a negative memory scaling":      {RegisterOptions{MemoryScaling: -0.5}, "memory scaling -0.5: want a number above 0"},
		"a memory scaling that is none":  {RegisterOptions{MemoryScaling: math.NaN()}, "memory scaling NaN: want a number above 0"},
		"an infinite memory scaling":     {RegisterOptions{MemoryScaling: math.Inf(1)}, "memory scaling +Inf: want a number above 0"},
		"an unknown operating mode":      {RegisterOptions{Mode: "mig"}, `operating mode "mig": want "cu" or "partition"`},
		"an unknown naming strategy":     {RegisterOptions{Naming: "double"}, `resource naming strategy "double": want "single" or "mixed"`},
		"a node name with a separator":   {RegisterOptions{NodeName: "a,b"}, `node name "a,b": want a Kubernetes node name`},
		"a node name in upper case":      {RegisterOptions{NodeName: "Node"}, `node name "Node": want a Kubernetes node name`},
		"exclude: a short PCI address":   {RegisterOptions{Exclude: []string{"06:00.0"}}, `exclude "06:00.0": want a PCI address such as "0000:06:00.0" or a DRM card such as "card1"`},
		"exclude: a list in one entry":   {RegisterOptions{Exclude: []string{"card1,card2"}}, `exclude "card1,card2": want a DRM card such as "card1"`},
		"exclude: a card without number": {RegisterOptions{Exclude: []string{"card"}}, `exclude "card": want a DRM card such as "card1"`},
		"exclude: a negative card":       {RegisterOptions{Exclude: []string{"card-1"}}, `exclude "card-1": want a DRM card such as "card1"`},
		"exclude: leading zeros":         {RegisterOptions{Exclude: []string{"card01"}}, `exclude "card01": want a DRM card such as "card1"`},
		"exclude: a number beyond int":   {RegisterOptions{Exclude: []string{"card99999999999"}}, `exclude "card99999999999": want a DRM card such as "card1"`},
		"exclude: a render node":         {RegisterOptions{Exclude: []string{"renderD128"}}, `exclude "renderD128": want a PCI address such as "0000:06:00.0" or a DRM card such as "card1"`},
		"exclude: one bad among good":    {RegisterOptions{Exclude: []string{"card1", "0000:06:00.0", "*"}}, `exclude "*": want a PCI address such as "0000:06:00.0" or a DRM card such as "card1"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, test.opts.Validate(), test.want)
			inv := machine(mi300x, 1, SPX, "nps1")
			if reg, err := inv.Register(test.opts); err == nil || reg != nil {
				t.Errorf("Register gave %v, %v", reg, err)
			}
			if devices, err := inv.Devices(test.opts); err == nil || devices != nil {
				t.Errorf("Devices gave %v, %v", devices, err)
			}
		})
	}
}

func TestExclude(t *testing.T) {
	inv := machine(mi300x, 3, QPX, "nps1") // cards 0, 8, 16; partitions 1 to 3 of GPU 0 are cards 1 to 3
	for i := range inv.GPUs[0].Nodes {
		inv.GPUs[0].Nodes[i].Card = ptr(i)
	}
	tests := map[string]struct {
		exclude []string
		left    []BDF
		notes   []string
	}{
		"nothing":                                {nil, []BDF{"0000:05:00.0", "0000:15:00.0", "0000:25:00.0"}, nil},
		"blank entries of an empty flag":         {[]string{"", " "}, []BDF{"0000:05:00.0", "0000:15:00.0", "0000:25:00.0"}, nil},
		"a PCI address":                          {[]string{"0000:15:00.0"}, []BDF{"0000:05:00.0", "0000:25:00.0"}, nil},
		"a PCI address in upper case and blanks": {[]string{" 0000:15:00.0 "}, []BDF{"0000:05:00.0", "0000:25:00.0"}, nil},
		"a card":                                 {[]string{"card8"}, []BDF{"0000:05:00.0", "0000:25:00.0"}, nil},
		"one GPU twice":                          {[]string{"card8", "0000:15:00.0"}, []BDF{"0000:05:00.0", "0000:25:00.0"}, nil},
		"all":                                    {[]string{"card0", "card8", "card16"}, nil, nil},
		"a GPU that is not there":                {[]string{"card7", "0000:99:00.0"}, []BDF{"0000:05:00.0", "0000:15:00.0", "0000:25:00.0"}, []string{`exclude "card7": no such GPU on this node`, `exclude "0000:99:00.0": no such GPU on this node`}},
		"the card of a partition":                {[]string{"card2"}, []BDF{"0000:15:00.0", "0000:25:00.0"}, []string{`exclude "card2": a partition of 0000:05:00.0, which is excluded as a whole`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []OperatingMode{ModeCU, ModePartition} {
				reg, err := inv.Register(RegisterOptions{Mode: mode, Exclude: test.exclude})
				if err != nil {
					t.Fatal(err)
				}
				var left []BDF
				for _, d := range reg.Devices {
					if len(left) == 0 || left[len(left)-1] != d.GPU.BDF {
						left = append(left, d.GPU.BDF)
					}
				}
				if diff := cmp.Diff(test.left, left); diff != "" {
					t.Errorf("%s mode: GPUs left (-want +got):\n%s", mode, diff)
				}
				if diff := cmp.Diff(test.notes, reg.Notes); diff != "" {
					t.Errorf("%s mode: notes (-want +got):\n%s", mode, diff)
				}
			}
		})
	}
}

// With no GPU left the register annotation says so: an empty list clears what
// the node registered before.
func TestAllExcludedIsAnEmptyList(t *testing.T) {
	devices, err := machine(mi300x, 1, SPX, "nps1").Devices(RegisterOptions{Exclude: []string{"card0"}})
	if err != nil || devices == nil || len(devices) != 0 {
		t.Errorf("devices %#v, error %v: want an empty list", devices, err)
	}
}

func FuzzExclude(f *testing.F) {
	for _, s := range []string{"card1", "0000:06:00.0", "card", "CARD1", "0000:06:00.8", " card2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		parsed, err := parseExclude([]string{entry})
		if err != nil {
			if parsed != nil {
				t.Fatalf("%v beside the error %v", parsed, err)
			}
			return
		}
		for _, e := range parsed {
			if e.bdf == "" && e.card < 0 {
				t.Fatalf("entry %q: %+v", entry, e)
			}
		}
	})
}
