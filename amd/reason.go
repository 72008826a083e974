package amd

import (
	"slices"
	"strconv"
)

// A Reason is why a device was not taken, in the words of HAMi's events.
type Reason uint8

// The reasons Fit gives, in the order of its checks.
const (
	// Unhealthy: the node registered the device as such.
	Unhealthy Reason = iota
	// Cordoned: named by the node annotation hami.io/device-cordon.
	Cordoned
	// TypeMismatch: amd.com/use-gputype or nouse-gputype.
	TypeMismatch
	// UUIDMismatch: amd.com/use-gpu-uuid or nouse-gpu-uuid.
	UUIDMismatch
	// IndexMismatch: amd.com/gpu-index. HAMi has no word of its own for it and
	// calls it a custom filter rule.
	IndexMismatch
	// SharesExhausted: as many containers as the device's count share it.
	SharesExhausted
	// NotIdle: the mutex policy wants an idle device.
	NotIdle
	// QuotaExceeded: the namespace's ResourceQuota leaves less memory.
	QuotaExceeded
	// InsufficientMemory: less memory free than asked for, or a whole GPU asked
	// for and this one in use.
	InsufficientMemory
	// InsufficientCores: fewer CUs free than asked for, or none known.
	InsufficientCores
	// NUMAMismatch: the device would do, but no NUMA node has enough of them.
	NUMAMismatch
	// TooFewFit: the device would do, but fewer would than were asked for.
	TooFewFit
	// TooFewDevices: the node has fewer devices than were asked for.
	TooFewDevices

	reasonCount

	// fits is no reason.
	fits = reasonCount
)

// String is HAMi's word, without spaces so that its event parser reads it.
func (r Reason) String() string {
	if r >= reasonCount {
		return "Reason" + strconv.Itoa(int(r))
	}
	return [reasonCount]string{
		Unhealthy:          "CardNotHealth",
		Cordoned:           "CardCordoned",
		TypeMismatch:       "CardTypeMismatch",
		UUIDMismatch:       "CardUuidMismatch",
		IndexMismatch:      "CardNotFoundCustomFilterRule",
		SharesExhausted:    "CardTimeSlicingExhausted",
		NotIdle:            "ExclusiveDeviceAllocateConflict",
		QuotaExceeded:      "ResourceQuotaNotFit",
		InsufficientMemory: "CardInsufficientMemory",
		InsufficientCores:  "CardInsufficientCore",
		NUMAMismatch:       "NumaNotFit",
		TooFewFit:          "AllocatedCardsInsufficientRequest",
		TooFewDevices:      "NodeInsufficientDevice",
	}[r]
}

// Reasons counts the candidates of a refused request by reason, each under the
// first check it failed. The zero value is no refusal. It is comparable.
type Reasons struct {
	cards   int32
	counts  [reasonCount]int32
	refused bool
}

// Refused reports whether Fit found no devices.
func (r Reasons) Refused() bool { return r.refused }

// Count is how many candidates have this reason.
func (r Reasons) Count(reason Reason) int {
	if reason >= reasonCount {
		return 0
	}
	return int(r.counts[reason])
}

// String counts in HAMi's format, sorted as HAMi sorts it:
// "1/8 CardInsufficientMemory, 2/8 CardNotHealth". It is "" for no refusal.
func (r Reasons) String() string {
	if !r.refused {
		return ""
	}
	var items [reasonCount]string
	n, size := 0, 0
	var buf [96]byte
	for reason, count := range r.counts {
		// A node without devices still has to say so.
		if count == 0 && (r.cards > 0 || Reason(reason) != TooFewDevices) {
			continue
		}
		b := strconv.AppendInt(buf[:0], int64(count), 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(r.cards), 10)
		b = append(b, ' ')
		b = append(b, Reason(reason).String()...)
		items[n] = string(b)
		size += len(b) + 2
		n++
	}
	if n == 1 {
		return items[0]
	}
	slices.Sort(items[:n])
	out := make([]byte, 0, size)
	for i, item := range items[:n] {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, item...)
	}
	return string(out)
}

func (r *Reasons) add(reason Reason, n int) {
	r.refused = true
	r.counts[reason] += int32(n)
}
