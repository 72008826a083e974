package annotations

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// MaxBytes is the longest value any decoder here looks at and any encoder
// writes: Kubernetes refuses an object whose annotations are longer in total
// (apimachinery's TotalAnnotationSizeLimitB, 256 KiB).
const MaxBytes = 256 * 1024

// Limits on elements. They are far above any real machine (8 GPUs in CPX mode
// are 64 devices) and keep the work on a hostile value small.
const (
	maxDevices    = 1024 // devices of a node, or of one CU map
	maxContainers = 1024 // containers of a pod
	maxGrants     = 256  // devices of one container
	maxMembers    = 256  // members of one JSON object
	maxUnknown    = 64   // members of one JSON object that are kept unread
	maxDepth      = 32   // nesting of a JSON value this package does not know
)

// separators are the bytes that structure a pod-device string; no device id and
// no type may contain one.
const separators = ",:;"

// quote shows hostile text in an error message: escaped, and cut short so that
// a 256 KiB value does not end up in a log line.
func quote(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:cut], len(s))
}

// quoteValue is quote for the JSON text of a value: it tells the string "8" from
// the number 8.
func quoteValue(text string) string {
	if len(text) > 1 && text[0] == '"' {
		return "the string " + quote(text[1:len(text)-1])
	}
	return quote(text)
}

// quoteName is quote for the name of a field: without quotation marks where that
// can mislead nobody.
func quoteName(s string) string {
	if s == "" || len(s) > 64 {
		return quote(s)
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return quote(s)
		}
	}
	return s
}

// checkSize refuses a value that cannot be an annotation.
func checkSize(s string) error {
	if len(s) > MaxBytes {
		return fmt.Errorf("%d bytes long, want at most %d", len(s), MaxBytes)
	}
	return nil
}

// hasSeparator is strings.ContainsAny(s, separators), quicker.
func hasSeparator(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == ',' || c == ':' || c == ';' {
			return true
		}
	}
	return false
}

// checkName refuses a device id or type that would break a pod-device string.
func checkName(field, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", field)
	}
	if hasSeparator(s) {
		return fmt.Errorf("%s %s contains one of the separators %q", field, quote(s), separators)
	}
	return nil
}

// parseCount reads a decimal number from 0 to the largest int32 and nothing
// else: no sign, no spaces, no leading zeros.
func parseCount(s string) (int32, bool) {
	if s == "" || len(s) > 10 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if n > math.MaxInt32 {
		return 0, false
	}
	return int32(n), true
}
