package partition

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// BDF is the address of a PCI function as the kernel names it in
// /sys/bus/pci/devices: domain, bus, device and function in lower-case hex,
// "0000:05:00.0". Domains above ffff have more digits. It is what a GPU is
// known by on its node.
type BDF string

// ParseBDF reads a full PCI address; letters may be in either case. Short
// forms without the domain, which could mean another device on a machine with
// several domains, are refused, and so is everything the kernel would spell
// otherwise.
func ParseBDF(s string) (BDF, error) {
	if _, ok := splitBDF(s); !ok {
		return "", fmt.Errorf("pci address %.64q: want domain:bus:device.function such as \"0000:05:00.0\"", s)
	}
	return BDF(strings.ToLower(s)), nil
}

// address is a PCI address in numbers.
type address struct {
	domain                uint32
	bus, device, function uint8
}

// formatBDF spells an address as the kernel does (pci_name).
func formatBDF(a address) BDF {
	return BDF(fmt.Sprintf("%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function))
}

// splitBDF takes an address apart: a domain of four digits, or up to eight
// without leading zeros, then two, two and one.
func splitBDF(s string) (a address, ok bool) {
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || len(domain) < 4 || len(domain) > 8 || len(domain) > 4 && domain[0] == '0' ||
		len(rest) != len("05:00.0") || rest[2] != ':' || rest[5] != '.' {
		return a, false
	}
	var n [4]uint64
	for i, part := range [4]string{domain, rest[0:2], rest[3:5], rest[6:7]} {
		// ParseUint takes hex digits alone: no sign, no underscore, no prefix.
		v, err := strconv.ParseUint(part, 16, 32)
		if err != nil {
			return a, false
		}
		n[i] = v
	}
	if n[2] > 0x1f || n[3] > 7 {
		return a, false
	}
	return address{domain: uint32(n[0]), bus: uint8(n[1]), device: uint8(n[2]), function: uint8(n[3])}, true
}

// compareBDF orders addresses by their numbers; text order differs once a
// domain has five digits. What is no address comes last, as text.
func compareBDF(x, y BDF) int {
	a, okA := splitBDF(string(x))
	b, okB := splitBDF(string(y))
	if !okA || !okB {
		return cmp.Or(-boolCompare(okA, okB), strings.Compare(string(x), string(y)))
	}
	return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.bus, b.bus),
		cmp.Compare(a.device, b.device), cmp.Compare(a.function, b.function))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
