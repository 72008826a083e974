package amd

import "testing"

func TestReasonsString(t *testing.T) {
	for name, test := range map[string]struct {
		cards  int32
		counts map[Reason]int
		want   string
	}{
		"one":               {8, map[Reason]int{InsufficientMemory: 8}, "8/8 CardInsufficientMemory"},
		"two":               {8, map[Reason]int{Unhealthy: 2, InsufficientMemory: 1}, "1/8 CardInsufficientMemory, 2/8 CardNotHealth"},
		"sorted as text":    {64, map[Reason]int{Unhealthy: 10, SharesExhausted: 9, NotIdle: 45}, "10/64 CardNotHealth, 45/64 ExclusiveDeviceAllocateConflict, 9/64 CardTimeSlicingExhausted"},
		"no devices at all": {0, map[Reason]int{TooFewDevices: 0}, "0/0 NodeInsufficientDevice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Reasons{cards: test.cards}
			for reason, n := range test.counts {
				r.add(reason, n)
			}
			if got := r.String(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			for reason, n := range test.counts {
				if r.Count(reason) != n {
					t.Errorf("%v: %d, want %d", reason, r.Count(reason), n)
				}
			}
		})
	}
	if got := (Reasons{cards: 8}).String(); got != "" {
		t.Errorf("no refusal is %q, want nothing", got)
	}
}

// The words are HAMi's, whose events are made of them.
func TestReasonWords(t *testing.T) {
	want := []string{
		"CardNotHealth", "CardCordoned", "CardTypeMismatch", "CardUuidMismatch", "CardNotFoundCustomFilterRule",
		"CardTimeSlicingExhausted", "ExclusiveDeviceAllocateConflict", "ResourceQuotaNotFit", "CardInsufficientMemory",
		"CardInsufficientCore", "NumaNotFit", "AllocatedCardsInsufficientRequest", "NodeInsufficientDevice",
	}
	for i, word := range want {
		if got := Reason(i).String(); got != word {
			t.Errorf("%d is %q, want %q", i, got, word)
		}
	}
	if int(reasonCount) != len(want) || reasonCount.String() != "Reason13" || (Reasons{}).Count(reasonCount) != 0 {
		t.Errorf("%d reasons, want %d", reasonCount, len(want))
	}
}
