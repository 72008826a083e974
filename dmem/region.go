package dmem

import (
	"fmt"
	"slices"
	"strings"
)

const capacityFile = "dmem.capacity"

// Region is one line of dmem.capacity: memory that some driver lets the
// controller count.
type Region struct {
	Name  string // drm/0000:06:00.0/vram
	Bytes uint64 // the GPU's real VRAM
}

// Regions lists the regions of all drivers in order of name. A kernel whose
// amdgpu does not register its VRAM gives a list without it.
func (t *Tree) Regions() ([]Region, error) {
	values, err := t.values(capacityFile)
	if err != nil {
		return nil, fmt.Errorf("dmem regions: %w", err)
	}
	regions := make([]Region, 0, len(values))
	for name, bytes := range values {
		if bytes == Max {
			return nil, fmt.Errorf("dmem regions: %q in %q: want bytes, have max", name, t.path(capacityFile))
		}
		regions = append(regions, Region{name, uint64(bytes)})
	}
	slices.SortFunc(regions, func(a, b Region) int { return strings.Compare(a.Name, b.Name) })
	return regions, nil
}

// VRAMRegion names the VRAM of the GPU at a PCI address such as 0000:06:00.0:
// the DRM core prefixes the driver's "vram" with drm/ and the device
// (drivers/gpu/drm/drm_drv.c). All partitions of a GPU share it.
func VRAMRegion(bdf string) (string, error) {
	if !isBDF(bdf) {
		return "", fmt.Errorf("dmem region: want a PCI address in lower case such as 0000:06:00.0, have %q", bdf)
	}
	return "drm/" + bdf + "/vram", nil
}

// isBDF checks for dddd:bb:dd.f in lower-case hex; a domain may have up to
// eight digits (Intel VMD, Hyper-V).
func isBDF(s string) bool {
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || len(domain) < 4 || len(domain) > 8 || !isHex(domain) {
		return false
	}
	return len(rest) == len("06:00.0") && rest[2] == ':' && rest[5] == '.' &&
		isHex(rest[:2]) && isHex(rest[3:5]) && rest[6] >= '0' && rest[6] <= '7'
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}
