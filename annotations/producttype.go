package annotations

import "strings"

// maxTypeBytes bounds a product type, which is written into every grant.
const maxTypeBytes = 64

// SanitizeType makes a Device.Type of any product name. HAMi matches a request
// for "AMD" by a substring of the type, shows AMD metrics for the prefix "AMD",
// and structures the pod string by , : ; so the result
//
//   - starts with "AMD", in capitals: "Radeon RX 9060 XT" becomes
//     "AMD Radeon RX 9060 XT", and a name without anything usable "AMD GPU";
//   - holds printable ASCII other than , : ; with single spaces inside;
//   - has at most 64 bytes.
//
// Sanitizing the result again changes nothing.
func SanitizeType(product string) string {
	const prefix = "AMD"
	b := make([]byte, 0, maxTypeBytes)
	gap := false
	for i := 0; i < len(product) && len(b) < maxTypeBytes; i++ {
		c := product[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(separators, c) >= 0 {
			gap = len(b) > 0
			continue
		}
		if gap {
			b = append(b, ' ')
			gap = false
		}
		b = append(b, c)
	}
	name := string(b)
	switch {
	case name == "":
		return prefix + " GPU"
	case len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix):
		name = prefix + name[len(prefix):]
	default:
		name = prefix + " " + name
	}
	return strings.TrimRight(name[:min(len(name), maxTypeBytes)], " ")
}
