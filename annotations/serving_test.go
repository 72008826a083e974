package annotations

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPodGrantsServing(t *testing.T) {
	pod := PodGrants{{}, {grantA}, {}, {grantB, grantA}, nil}
	var order []int
	left := pod
	for !left.Served() {
		i, grants, ok := left.Next()
		if !ok {
			t.Fatal("Next finds nothing although not all is served")
		}
		if diff := cmp.Diff(pod[i], grants); diff != "" {
			t.Errorf("container %d (-want +got):\n%s", i, diff)
		}
		order = append(order, i)
		left = left.Serve(i)
		if len(left) != len(pod) {
			t.Fatalf("serving left %d entries of %d", len(left), len(pod))
		}
	}
	if diff := cmp.Diff([]int{1, 3}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if i, grants, ok := left.Next(); ok || i != 0 || grants != nil {
		t.Errorf("Next after all are served = %d, %v, %v", i, grants, ok)
	}
	if diff := cmp.Diff(PodGrants{{}, {grantA}, {}, {grantB, grantA}, nil}, pod); diff != "" {
		t.Errorf("serving changed the original (-want +got):\n%s", diff)
	}
}

func TestServeOutOfRangeChangesNothing(t *testing.T) {
	pod := PodGrants{{grantA}}
	for _, i := range []int{-1, 1, 1000} {
		if diff := cmp.Diff(pod, pod.Serve(i)); diff != "" {
			t.Errorf("Serve(%d) (-want +got):\n%s", i, diff)
		}
	}
	if got := PodGrants(nil).Serve(0); len(got) != 0 {
		t.Errorf("serving no containers gives %v", got)
	}
	if !PodGrants(nil).Served() {
		t.Error("a pod without containers is not served")
	}
}

func TestAlign(t *testing.T) {
	a, b, none := []Grant{grantA}, []Grant{grantB}, []Grant{}
	for name, tt := range map[string]struct {
		pod  PodGrants
		asks []bool
		want PodGrants
	}{
		"in place":                           {PodGrants{none, a}, []bool{false, true}, PodGrants{none, a}},
		"side container left out by HAMi":    {PodGrants{a}, []bool{false, true}, PodGrants{none, a}},
		"init container left out by HAMi":    {PodGrants{a, b}, []bool{false, true, true}, PodGrants{none, a, b}},
		"empty entries added by HAMi":        {PodGrants{a, none, none, none}, []bool{true}, PodGrants{a}},
		"entry too far back":                 {PodGrants{none, none, a}, []bool{true, false}, PodGrants{a, none}},
		"nobody asks":                        {PodGrants{none, none}, []bool{false, false}, PodGrants{none, none}},
		"no containers":                      {nil, nil, PodGrants{}},
		"order kept between asking ones":     {PodGrants{none, b, none, a}, []bool{true, false, true}, PodGrants{b, none, a}},
		"more containers than entries":       {PodGrants{a}, []bool{true, false, false, false}, PodGrants{a, none, none, none}},
		"nil entries count as empty entries": {PodGrants{nil, a}, []bool{false, true}, PodGrants{none, a}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.pod.Align(tt.asks)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("aligned (-want +got):\n%s", diff)
			}
		})
	}
	for name, tt := range map[string]struct {
		pod  PodGrants
		asks []bool
		want string
	}{
		"one grant too few":     {PodGrants{a}, []bool{true, true}, "2 containers ask for GPUs, found grants for 1"},
		"one grant too many":    {PodGrants{a, b}, []bool{true, false}, "1 containers ask for GPUs, found grants for 2"},
		"grants nobody wants":   {PodGrants{a}, []bool{false}, "0 containers ask for GPUs, found grants for 1"},
		"no grants":             {PodGrants{none}, []bool{true}, "1 containers ask for GPUs, found grants for 0"},
		"grants, no containers": {PodGrants{a}, nil, "0 containers ask for GPUs, found grants for 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.pod.Align(tt.asks)
			if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Align = %v, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestC06InitContainersComeFirst(t *testing.T) {
	names := []string{"prep", "side", "train"} // prep is an init container
	for value, tt := range map[string]struct {
		asks []bool
		want string
	}{
		";;A,T,8192,76:;":  {[]bool{false, false, true}, "train"},
		"A,T,8192,76:;;;":  {[]bool{true, false, false}, "prep"},
		"A,T,8192,76:;":    {[]bool{false, false, true}, "train"}, // HAMi v2.10 leaves the other entries out
		";A,T,8192,76:;;;": {[]bool{false, true, false}, "side"},
	} {
		t.Run(value, func(t *testing.T) {
			pod, err := DecodePod(value)
			if err != nil {
				t.Fatal(err)
			}
			aligned, err := pod.Align(tt.asks)
			if err != nil {
				t.Fatal(err)
			}
			i, grants, ok := aligned.Next()
			if !ok || names[i] != tt.want || grants[0].UUID != "A" {
				t.Errorf("the first container to serve is %d with %v, want %s with A", i, grants, tt.want)
			}
		})
	}
}
