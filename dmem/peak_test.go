package dmem

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPeakCaps(t *testing.T) {
	a := func(n uint64) []Grant { return []Grant{{Region: gpuA, Bytes: n}} }
	part := func(n int) []Grant {
		var list []Grant
		for range n {
			list = append(list, Grant{Region: gpuA, Bytes: 73728 * mib, Partitions: 4})
		}
		return list
	}
	tests := map[string]struct {
		in   []Holder
		want []Cap
	}{
		"nothing": {},
		"one container": {
			[]Holder{{App, a(5)}}, []Cap{{gpuA, 5}},
		},
		"app containers of one GPU add up": {
			[]Holder{{App, a(5)}, {App, a(7)}}, []Cap{{gpuA, 12}},
		},
		"several GPUs are all limited": {
			[]Holder{{App, []Grant{{Region: gpuB, Bytes: 8}, {Region: gpuA, Bytes: 16}}}}, []Cap{{gpuA, 16}, {gpuB, 8}},
		},
		"an init container that holds more": {
			[]Holder{{Init, a(20)}, {App, a(5)}, {App, a(7)}}, []Cap{{gpuA, 20}},
		},
		"init containers do not add up": {
			[]Holder{{Init, a(8)}, {Init, a(9)}, {App, a(5)}}, []Cap{{gpuA, 9}},
		},
		"an init container with the sidecars before it": {
			[]Holder{{Sidecar, a(3)}, {Init, a(9)}, {Sidecar, a(4)}, {App, a(1)}}, []Cap{{gpuA, 12}},
		},
		"app containers with all sidecars": {
			[]Holder{{Sidecar, a(3)}, {Init, a(9)}, {Sidecar, a(4)}, {App, a(10)}}, []Cap{{gpuA, 17}},
		},
		"a whole GPU has none": {
			[]Holder{{App, []Grant{{Region: gpuA, Bytes: vram, Whole: true}, {Region: gpuB, Bytes: 5}}}}, []Cap{{gpuB, 5}},
		},
		"a GPU whole for an init container has none": {
			[]Holder{{Init, []Grant{{Region: gpuA, Whole: true}}}, {App, a(5)}}, nil,
		},
		"partitions of one GPU add up": {
			[]Holder{{App, part(1)}, {App, part(2)}}, []Cap{{gpuA, 3 * 73728 * mib}},
		},
		"all partitions are the whole GPU": {
			[]Holder{{App, part(1)}, {App, part(3)}}, nil,
		},
		"all partitions with the sidecar's": {
			[]Holder{{Sidecar, part(2)}, {App, part(2)}}, nil,
		},
		"partitions at different times do not add up": {
			[]Holder{{Init, part(3)}, {App, part(3)}}, []Cap{{gpuA, 3 * 73728 * mib}},
		},
		"containers without grants": {
			[]Holder{{Init, nil}, {App, nil}, {App, a(2)}}, []Cap{{gpuA, 2}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PeakCaps(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("caps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeakCapsRefuses(t *testing.T) {
	tests := map[string]struct {
		in   []Holder
		want string
	}{
		"a slice of nothing":   {[]Holder{{App, []Grant{{Region: gpuA}}}}, `dmem limits: container 0: grant of "drm/0000:06:00.0/vram": want bytes above 0, have 0`},
		"a region with blanks": {[]Holder{{App, nil}, {Init, []Grant{{Region: "a b", Bytes: 1}}}}, `dmem limits: container 1: want a region without blanks, have "a b"`},
		"no region":            {[]Holder{{Sidecar, []Grant{{Bytes: 1}}}}, `dmem limits: container 0: want a region without blanks, have ""`},
		"negative partitions":  {[]Holder{{App, []Grant{{Region: gpuA, Bytes: 1, Partitions: -1}}}}, `dmem limits: container 0: partitions of "drm/0000:06:00.0/vram": want 0 or more, have -1`},
		"an unknown kind":      {[]Holder{{Kind: 3}}, "dmem limits: container 0: want kind 0 to 2, have 3"},
		"an overflow": {[]Holder{{App, []Grant{{Region: gpuA, Bytes: math.MaxInt64}}}, {App, []Grant{{Region: gpuA, Bytes: 1}}}},
			`dmem limits: app containers: grants of "drm/0000:06:00.0/vram": want less than 2^63 bytes in all, have more`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PeakCaps(tt.in)
			if got != nil || err == nil || err.Error() != tt.want {
				t.Errorf("got %v, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}
