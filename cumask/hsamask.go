package cumask

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxDevices bounds the GPU numbers of a mask. The most partitions known on one
// node are 64; the bound keeps a few bytes of text from making a million
// entries, and is MaxCUs because a Set holds the numbers while they are read.
const maxDevices = MaxCUs

// A DeviceMask is what HSA_CU_MASK says about one GPU.
type DeviceMask struct {
	Device int // position in the container's device order, from 0
	CUs    Set
}

// FormatHSAMask returns the value of HSA_CU_MASK for a container:
// "0:0-75;1:0-75", ascending by device, one set for each. Device is the GPU's
// position in ROCR_VISIBLE_DEVICES, never a host index. A GPU that no mask
// names runs unmasked, so whole GPUs are left out; of no masks the value is
// "", which means not to set the variable.
//
// Errors are of kind [ErrSyntax]: an empty set (ROCr would ignore this and all
// later sets and run those GPUs unmasked), a repeated device, and one outside
// 0 to 1,023.
func FormatHSAMask(masks []DeviceMask) (string, error) {
	sorted := func(a, b DeviceMask) int { return a.Device - b.Device }
	for _, m := range masks {
		if m.Device < 0 || m.Device >= maxDevices {
			return "", fmt.Errorf("formatting cu mask: device %d: want 0 to %d: %w", m.Device, maxDevices-1, ErrSyntax)
		}
		if m.CUs.Empty() {
			return "", fmt.Errorf("formatting cu mask: device %d: no cus: %w", m.Device, ErrSyntax)
		}
	}
	if !slices.IsSortedFunc(masks, sorted) {
		masks = slices.SortedFunc(slices.Values(masks), sorted)
	}
	var buf [128]byte
	out := buf[:0]
	for i, m := range masks {
		if i > 0 {
			if masks[i-1].Device == m.Device {
				return "", fmt.Errorf("formatting cu mask: device %d is there twice: %w", m.Device, ErrSyntax)
			}
			out = append(out, ';')
		}
		out = strconv.AppendInt(out, int64(m.Device), 10)
		out = append(out, ':')
		out = m.CUs.append(out)
	}
	return string(out), nil
}

// An HSAMaskError says where a value of HSA_CU_MASK goes wrong, and what a real
// runtime does with it. ROCr reports nothing: it stops at the first bad set,
// keeps the sets before it and leaves every other GPU on all of its CUs.
type HSAMaskError struct {
	Set  int          // index of the first bad set, and so the number of sets kept
	Sets int          // number of sets in the value; Sets-Set of them are lost
	Kept []DeviceMask // the masks in force, ascending by device; every other GPU is unmasked
	Err  error        // what is wrong with the set, of kind ErrSyntax
}

func (e *HSAMaskError) Error() string {
	lost := "all sets are ignored, every gpu runs unmasked"
	if e.Set > 0 {
		lost = "it and all sets after it are ignored, their gpus run unmasked"
	}
	return fmt.Sprintf("cu mask: set %d of %d: %v: %s", e.Set+1, e.Sets, e.Err, lost)
}

func (e *HSAMaskError) Unwrap() error { return e.Err }

// ParseHSAMask reads a value of HSA_CU_MASK as ROCr does (flag.cpp), and
// returns one entry for each GPU it names, ascending. The empty value masks
// nothing.
//
//	value   = set { ";" set } [ ";" ]
//	set     = list ":" ( list | "0x" hex )     GPUs, then CUs; in hex bit 0 is CU 0
//	list    = item { "," item }
//	item    = number | number "-" number       decimal, ascending
//
// White space is removed first, wherever it stands, and letters may have either
// case. An error is always an *[HSAMaskError]. What ROCr refuses is refused:
// repeated GPUs and CUs, descending ranges, a missing colon, an empty list, a
// zero mask. What ROCr drops in silence or reads by accident is refused too:
// numbers above 1,023, empty items, signs, "3-", a colon at the end of a set.
// There the error tells the worst that may come of it. Whether the GPUs and CUs
// exist is not known here.
func ParseHSAMask(value string) ([]DeviceMask, error) {
	value = strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\n', '\v', '\f', '\r':
			return -1
		}
		return r
	}, value)
	if value == "" {
		return nil, nil
	}
	value = strings.TrimSuffix(value, ";")
	byDevice := map[int]Set{}
	for i, rest, more := 0, value, true; more; i++ {
		var text string
		text, rest, more = cut(rest, ';')
		gpus, cus, err := parseMaskSet(text)
		if err == nil {
			for gpu := range gpus.All() {
				if _, again := byDevice[gpu]; again {
					err = fmt.Errorf("set %q names gpu %d again: %w", clip(text), gpu, ErrSyntax)
					break
				}
			}
		}
		if err != nil {
			return nil, &HSAMaskError{Set: i, Sets: strings.Count(value, ";") + 1, Kept: deviceMasks(byDevice), Err: err}
		}
		for gpu := range gpus.All() {
			byDevice[gpu] = cus
		}
	}
	return deviceMasks(byDevice), nil
}

func parseMaskSet(text string) (gpus, cus Set, err error) {
	left, right, ok := cut(text, ':')
	if !ok || strings.Contains(right, ":") {
		return Set{}, Set{}, fmt.Errorf("set %q: want one colon: %w", clip(text), ErrSyntax)
	}
	if gpus, err = parseList(left, "gpu"); err != nil {
		return Set{}, Set{}, err
	}
	if len(right) > 1 && right[0] == '0' && right[1]|0x20 == 'x' {
		cus, err = parseHex(right[2:])
	} else {
		cus, err = ParseSet(right)
	}
	if err != nil {
		return Set{}, Set{}, err
	}
	return gpus, cus, nil
}

// parseHex reads a mask without its 0x, the last digit holding CUs 0 to 3.
func parseHex(digits string) (Set, error) {
	var s Set
	for i := range len(digits) {
		c := digits[len(digits)-1-i]
		var v uint64
		switch {
		case '0' <= c && c <= '9':
			v = uint64(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			v = uint64(c|0x20-'a') + 10
		default:
			return Set{}, fmt.Errorf("hex mask %q: digit %q: %w", clip(digits), c, ErrSyntax)
		}
		if v == 0 {
			continue
		}
		if i*4 >= MaxCUs {
			return Set{}, fmt.Errorf("hex mask %q: want cus up to %d: %w", clip(digits), MaxCUs-1, ErrSyntax)
		}
		s.w[i*4/wordBits] |= v << (i * 4 % wordBits)
	}
	if s.Empty() {
		return Set{}, fmt.Errorf("hex mask %q: no cus: %w", clip(digits), ErrSyntax)
	}
	return s, nil
}

func deviceMasks(byDevice map[int]Set) []DeviceMask {
	out := make([]DeviceMask, 0, len(byDevice))
	for device, cus := range byDevice {
		out = append(out, DeviceMask{Device: device, CUs: cus})
	}
	slices.SortFunc(out, func(a, b DeviceMask) int { return a.Device - b.Device })
	return out
}

// FormatGlobalCUMask returns the value of ROC_GLOBAL_CU_MASK for the set, such
// as "0xff". HIP and OpenCL read it; it is one mask for all GPUs of a process,
// and where CUs work in WGPs each of its bits is a WGP. A mask of all CUs is
// ignored by the runtime, which comes to the same. The set must pass
// [Geometry.Check].
func FormatGlobalCUMask(g Geometry, s Set) (string, error) {
	if err := g.Check(s); err != nil {
		return "", fmt.Errorf("formatting global cu mask: %w", err)
	}
	var digits [MaxCUs / 4]byte
	top := 0
	for cu := range s.All() {
		bit := cu / g.wgp()
		digits[bit/4] |= 1 << (bit % 4)
		top = bit / 4
	}
	out := []byte("0x")
	for i := top; i >= 0; i-- {
		out = append(out, "0123456789abcdef"[digits[i]])
	}
	return string(out), nil
}
