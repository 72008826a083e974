package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPack(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want packed
	}{
		"quarter of an idle MI300X": {
			[]string{"--cus", "304", "--xccs", "8", "--want", "76"},
			packed{CUs: "0-75", Count: 76, PerXCC: []int{10, 10, 10, 10, 9, 9, 9, 9}, Effective: 72, HSACUMask: "0:0-75"},
		},
		"the whole of it": {
			[]string{"--cus", "304", "--xccs", "8", "--want", "304"},
			packed{CUs: "0-303", Count: 304, PerXCC: []int{38, 38, 38, 38, 38, 38, 38, 38}, Effective: 304, HSACUMask: "0:0-303"},
		},
		"beside others": {
			[]string{"--cus", "104", "--used", "0-51,60-103", "--want", "8", "-o", "json"},
			packed{CUs: "52-59", Count: 8, PerXCC: []int{8}, Effective: 8, HSACUMask: "0:52-59"},
		},
		"whole WGPs": {
			[]string{"--cus", "32", "--cus-per-wgp", "2", "--used", "1", "--want", "30"},
			packed{CUs: "2-31", Count: 30, PerXCC: []int{30}, Effective: 30, HSACUMask: "0:2-31"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got packed
			if err := json.Unmarshal([]byte(ok(t, "", append([]string{"pack"}, tc.args...)...).stdout), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	golden(t, "pack", ok(t, "", "pack", "--cus", "304", "--xccs", "8", "--want", "76", "-o", "text"))
}

func TestPackRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"below one CU for each XCC": {[]string{"--cus", "304", "--xccs", "8", "--want", "3"}, []string{"8"}},
		"half a WGP":                {[]string{"--cus", "32", "--cus-per-wgp", "2", "--want", "3"}, nil},
		"none":                      {[]string{"--cus", "304", "--want", "0"}, nil},
		"negative":                  {[]string{"--cus", "304", "--want", "-8"}, []string{"-8"}},
		"more than there are":       {[]string{"--cus", "304", "--want", "305"}, []string{"305"}},
		"more than are free":        {[]string{"--cus", "304", "--used", "0-299", "--want", "8"}, []string{"4"}},
		"an XCC is full":            {[]string{"--cus", "16", "--xccs", "8", "--used", "3,11", "--want", "8"}, []string{"xcc 3"}},
		"GPU of no CUs":             {[]string{"--cus", "0", "--want", "8"}, nil},
		"XCCs of unequal size":      {[]string{"--cus", "303", "--xccs", "8", "--want", "8"}, []string{"303"}},
		"list ROCr would refuse":    {[]string{"--cus", "304", "--used", "7-4", "--want", "8"}, []string{"--used", "7-4"}},
		"list beyond the GPU":       {[]string{"--cus", "304", "--used", "300-310", "--want", "8"}, []string{"--used", "304-310"}},
		"number that is none":       {[]string{"--cus", "many", "--want", "8"}, []string{"many"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", append([]string{"pack"}, tc.args...), tc.words...) })
	}
}
