package hook

import (
	"errors"
	"fmt"
	"testing"
)

// TestDecide walks every input against the rules, stated one by one.
func TestDecide(t *testing.T) {
	bools := []bool{false, true}
	seen := 0
	for _, slice := range bools {
		for _, closed := range bools {
			for _, image := range []Image{ImageUnknown, ImageLoads, ImageCannot, ImageNotOnNode} {
				for _, file := range bools {
					for _, caps := range bools {
						c := Case{Slice: slice, FailClosed: closed, Image: image, HookFile: file, DmemCaps: caps}
						t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { checkDecision(t, c) })
						seen++
					}
				}
			}
		}
	}
	if seen != 64 {
		t.Errorf("%d cases, want 64", seen)
	}
}

func checkDecision(t *testing.T, c Case) {
	got, err := Decide(c)
	if (got == Refuse) != (err != nil) {
		t.Fatalf("verdict %v with error %v", got, err)
	}
	if !c.Slice {
		if got != LeaveOut {
			t.Errorf("a whole GPU: %v", got)
		}
		return
	}
	if got == Load && !c.HookFile {
		t.Error("loads a hook that is not there")
	}
	if c.FailClosed {
		if c.Image == ImageNotOnNode && !errors.Is(err, ErrImageNotOnNode) {
			t.Errorf("image not on the node: %v, %v", got, err)
		}
		if got == Load && c.Image != ImageLoads {
			t.Error("loads the hook into an image that is not known to load it")
		}
		if got == LeaveOut && !c.DmemCaps {
			t.Error("starts a slice that nothing limits")
		}
		if c.Image != ImageNotOnNode && got == Refuse && (c.DmemCaps || c.HookFile && c.Image == ImageLoads) {
			t.Errorf("refuses a slice that would be limited: %v", err)
		}
		return
	}
	// Off: the image changes nothing.
	other := c
	other.Image = (c.Image + 1) % 4
	if v, _ := Decide(other); v != got {
		t.Errorf("fail-closed is off, yet the image changes %v to %v", got, v)
	}
	want := Load
	if !c.HookFile {
		want = Refuse
		if c.DmemCaps {
			want = LeaveOut
		}
	}
	if got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDecideReasons(t *testing.T) {
	tests := map[string]struct {
		c    Case
		want string
		is   error
	}{
		"not on the node": {
			Case{Slice: true, FailClosed: true, Image: ImageNotOnNode, HookFile: true, DmemCaps: true},
			"image is not on the node yet", ErrImageNotOnNode,
		},
		"musl": {
			Case{Slice: true, FailClosed: true, Image: ImageCannot, ImageDetail: "musl does not implement LD_AUDIT", HookFile: true},
			"image cannot load the memory hook and dmem does not cap its VRAM: musl does not implement LD_AUDIT", ErrImageCannot,
		},
		"unknown": {
			Case{Slice: true, FailClosed: true, HookFile: true},
			"image cannot load the memory hook and dmem does not cap its VRAM", ErrImageCannot,
		},
		"no hook file": {
			Case{Slice: true},
			"memory hook is not installed on the node and dmem does not cap the slice's VRAM", ErrHookMissing,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := Decide(tt.c)
			if v != Refuse || err == nil || err.Error() != tt.want || !errors.Is(err, tt.is) {
				t.Errorf("got %v, %v; want refuse, %q", v, err, tt.want)
			}
		})
	}
}

// C43: the same Alpine image that runs with a whole GPU is refused as a slice
// when fail-closed is on and dmem does not cap it.
func TestC43SliceOfTheSameImageIsRefused(t *testing.T) {
	alpine := Case{FailClosed: true, Image: ImageCannot, HookFile: true}
	if v, err := Decide(alpine); v != LeaveOut || err != nil {
		t.Errorf("whole GPU: %v, %v", v, err)
	}
	alpine.Slice = true
	if v, err := Decide(alpine); v != Refuse || !errors.Is(err, ErrImageCannot) {
		t.Errorf("slice: %v, %v; want refuse", v, err)
	}
	alpine.DmemCaps = true
	if v, err := Decide(alpine); v != LeaveOut || err != nil {
		t.Errorf("slice that dmem caps: %v, %v; want leave out", v, err)
	}
}
