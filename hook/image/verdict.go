package image

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/hook"
)

// Verdict says whether the hook with the given needs is loaded into the
// program, and if not, why, for the pod's owner to read.
//
//	program                                   verdict
//	glibc, new enough, of the hook's machine  [hook.ImageLoads]
//	glibc that is older than the hook needs   [hook.ImageCannot]
//	glibc whose version cannot be read        [hook.ImageUnknown]
//	musl, static                              [hook.ImageCannot]
//	of another machine, setuid or setgid      [hook.ImageCannot]
//	unknown                                   [hook.ImageUnknown]
func (r Result) Verdict(need hook.Requirements) (hook.Image, string) {
	switch {
	case r.Libc == Unknown || r.Libc == "":
		return hook.ImageUnknown, r.Detail
	case r.Libc == Musl:
		return hook.ImageCannot, fmt.Sprintf("%q is loaded by musl, which does not implement LD_AUDIT", r.Program)
	case r.Libc == Static:
		return hook.ImageCannot, fmt.Sprintf("%q is linked statically, so nothing is loaded into it", r.Program)
	case r.Machine != need.Machine || r.Class != need.Class || r.Data != need.Data:
		return hook.ImageCannot, fmt.Sprintf("%q is for %s %s, the hook for %s %s", r.Program, r.Machine, r.Class, need.Machine, need.Class)
	case r.Secure:
		return hook.ImageCannot, fmt.Sprintf("%q is setuid or setgid, for which the loader ignores LD_AUDIT", r.Program)
	case r.Glibc == (hook.Glibc{}):
		return hook.ImageUnknown, r.Detail
	case r.Glibc.Compare(need.Glibc) < 0:
		return hook.ImageCannot, fmt.Sprintf("glibc %s of the image is older than %s, which the hook needs", r.Glibc, need.Glibc)
	}
	return hook.ImageLoads, ""
}
