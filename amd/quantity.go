package amd

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// An InvalidRequestError says why what a container asks for cannot be granted
// by any node. It is what HAMi calls ErrInvalidDeviceRequest from v2.11 on.
type InvalidRequestError struct {
	Container string // the container's name
	Resource  string // the resource, environment variable or field at fault
	Reason    string // what was wanted and what was found
}

func (e *InvalidRequestError) Error() string {
	return fmt.Sprintf("container %q: %s: %s", e.Container, e.Resource, e.Reason)
}

// wholeNumber reads q as a whole number up to the largest int32. fault says
// what is wrong with it, "" when nothing is.
func wholeNumber(q resource.Quantity) (n int32, fault string) {
	switch {
	case q.Sign() < 0:
		return 0, "negative"
	case q.Sign() == 0:
		return 0, ""
	case exceeds(q, math.MaxInt32):
		return 0, "too large"
	}
	v := q.Value()
	if q.CmpInt64(v) != 0 {
		return 0, "not whole"
	}
	return int32(v), ""
}

// exceeds reports whether q is more than n, which is not negative. Quantity's own
// comparison is exact and writes out all digits of both numbers: whoever may
// create a pod could keep the scheduler busy for hours with 1e999999999, which
// parses in no time, and so does 0e999999999. Near n there are few digits.
func exceeds(q resource.Quantity, n int64) bool {
	return q.Sign() > 0 && (q.AsApproximateFloat64() > 2*float64(n) || q.CmpInt64(n) > 0)
}

// The parsers below return the value and, when it is refused, the reason.

func parseGPUCount(q resource.Quantity) (int32, string) {
	n, fault := wholeNumber(q)
	if fault != "" {
		return 0, fmt.Sprintf("want a whole number of GPUs from 0 to %d, found %q", math.MaxInt32, short(q))
	}
	return n, ""
}

// parseMemory reads MiB. A figure in Mi, Gi or beyond means bytes to whoever
// wrote it and is refused with the figure they want: kubectl would accept it,
// and read as MiB it is more than any GPU has.
func parseMemory(q resource.Quantity) (int32, string) {
	n, fault := wholeNumber(q)
	inBytes := q.Format == resource.BinarySI && exceeds(q, 1<<20-1)
	if fault == "" && !inBytes {
		return n, ""
	}
	reason := fmt.Sprintf("want a whole number of MiB from 0 (all of a GPU) to %d, found %q", math.MaxInt32, short(q))
	if !exceeds(q, 1<<20-1) || exceeds(q, math.MaxInt64) {
		return 0, reason + " (the unit is MiB)"
	}
	bytes := q.Value()
	mib := bytes >> 20
	if bytes&(1<<20-1) != 0 {
		mib++
	}
	return 0, fmt.Sprintf("%s (the unit is MiB: for %s write %d)", reason, short(q), mib)
}

func parseMemoryPercentage(q resource.Quantity) (int32, string) {
	n, fault := wholeNumber(q)
	if fault != "" || n > 100 {
		return 0, fmt.Sprintf("want an integer 0–100 (percent of each GPU's memory, 0 for unset), found %q", short(q))
	}
	return n, ""
}

func parseCores(q resource.Quantity) (int32, string) {
	n, fault := wholeNumber(q)
	if fault != "" || n < 1 || n > 100 {
		return 0, fmt.Sprintf("want an integer 1–100 (percent of each GPU's compute units), found %q", short(q))
	}
	return n, ""
}

func parsePriority(q resource.Quantity) (int32, string) {
	n, fault := wholeNumber(q)
	if fault != "" {
		return 0, fmt.Sprintf("want a whole number from 0 (highest) to %d, found %q", math.MaxInt32, short(q))
	}
	return n, ""
}

// short is the quantity as kubectl prints it. A hostile one that goes on for
// long is rounded: String writes out all digits of 888888888888e99999 to count
// the zeros at their end, which takes minutes with some more nines.
func short(q resource.Quantity) string {
	const longest = 1e24
	switch f := q.AsApproximateFloat64(); {
	case math.IsInf(f, 0):
		return fmt.Sprintf("a number beyond %g", math.Copysign(math.MaxFloat64, f))
	case math.Abs(f) > longest:
		return fmt.Sprintf("%g", f)
	}
	s := q.String()
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
