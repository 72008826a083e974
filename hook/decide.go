package hook

import (
	"errors"
	"fmt"
)

// Image says what was found out about a container image.
type Image int

// The answers about an image. The zero value is the careful one.
const (
	// ImageUnknown: it could not be told, or nobody looked. It counts as
	// ImageCannot.
	ImageUnknown Image = iota
	// ImageLoads: its entry point is loaded by a glibc that satisfies the hook.
	ImageLoads
	// ImageCannot: musl, static, or a glibc too old for the hook.
	ImageCannot
	// ImageNotOnNode: not pulled yet, so there is nothing to look at.
	ImageNotOnNode
)

// Verdict is what happens with the hook in one container.
type Verdict int

// The verdicts. The zero value is the careful one.
const (
	// Refuse: the container must not start.
	Refuse Verdict = iota
	// Load: mount the hook and set its environment.
	Load
	// LeaveOut: start without the hook.
	LeaveOut
)

// String is the verdict in a word or two.
func (v Verdict) String() string {
	switch v {
	case Load:
		return "load"
	case LeaveOut:
		return "leave out"
	}
	return "refuse"
}

// Why a container is refused. The first is what kubelet shows for a pod whose
// image is still being pulled; its text is fixed.
var (
	ErrImageNotOnNode = errors.New("image is not on the node yet")
	ErrImageCannot    = errors.New("image cannot load the memory hook and dmem does not cap its VRAM")
	ErrHookMissing    = errors.New("memory hook is not installed on the node and dmem does not cap the slice's VRAM")
)

// Case is one container for which [Decide] answers.
type Case struct {
	// Slice is a container that holds less than a whole GPU.
	Slice bool
	// FailClosed is the node's musl_fail_closed switch. While it is off no
	// image needs to be looked at.
	FailClosed bool
	// Image is what is known of the image; only looked at for a slice with
	// FailClosed.
	Image Image
	// ImageDetail goes into the refusal, such as "musl does not implement
	// LD_AUDIT".
	ImageDetail string
	// HookFile is whether [InspectFile] accepts the library on the host, and it
	// is one for the host's machine.
	HookFile bool
	// DmemCaps is whether the kernel limits every slice of the container.
	DmemCaps bool
}

// Decide says whether the hook goes into a container. The error is not nil
// exactly for [Refuse], and is one of the sentinels of this file, wrapped.
//
//	slice  fail-closed  image             hook file  dmem      answer
//	no     any          any               any        any       leave out
//	yes    off          not looked at     ok         any       load
//	yes    off          not looked at     missing    caps      leave out
//	yes    off          not looked at     missing    does not  refuse: hook missing
//	yes    on           not on the node   any        any       refuse: not on the node yet
//	yes    on           any other         missing    caps      leave out
//	yes    on           any other         missing    does not  refuse: hook missing
//	yes    on           loads             ok         any       load
//	yes    on           cannot, unknown   ok         caps      leave out
//	yes    on           cannot, unknown   ok         does not  refuse: image cannot
//
// An image that is not on the node is refused even where dmem would cap it:
// the refusal is short-lived (the pull runs in the background), while a pod
// started on a guess would keep a hook that its image may not load.
func Decide(c Case) (Verdict, error) {
	switch {
	case !c.Slice:
		return LeaveOut, nil
	case c.FailClosed && c.Image == ImageNotOnNode:
		return Refuse, c.refusal(ErrImageNotOnNode)
	case !c.HookFile && c.DmemCaps:
		return LeaveOut, nil
	case !c.HookFile:
		return Refuse, ErrHookMissing
	case !c.FailClosed || c.Image == ImageLoads:
		return Load, nil
	case c.DmemCaps:
		return LeaveOut, nil
	}
	return Refuse, c.refusal(ErrImageCannot)
}

func (c Case) refusal(err error) error {
	if c.ImageDetail == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, c.ImageDetail)
}
