package annotations

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPolicies(t *testing.T) {
	for value, want := range map[string][]string{
		"":                   nil,
		"binpack":            {PolicyBinpack},
		"numa,binpack":       {PolicyNUMA, PolicyBinpack},
		" mutex , spread\t":  {PolicyMutex, PolicySpread},
		",,topology-aware,,": {PolicyTopology},
		"Binpack":            {"Binpack"},
	} {
		if diff := cmp.Diff(want, slices.Collect(Policies(value))); diff != "" {
			t.Errorf("Policies(%q) (-want +got):\n%s", value, diff)
		}
	}
	for word := range Policies("numa,binpack") {
		if word != PolicyNUMA {
			t.Errorf("the walk goes on to %q", word)
		}
		break
	}
}

func TestParseWeights(t *testing.T) {
	for value, want := range map[string]ScoringWeights{
		"slot=1,core=1,memory=3":          {Slot: 1, Core: 1, Memory: 3},
		"memory=0,slot=0,core=2":          {Core: 2},
		" slot = 1 , core=0 , memory=0":   {Slot: 1},
		"slot=2147483647,core=0,memory=0": {Slot: 2147483647},
	} {
		if got, err := ParseWeights(value); got != want || err != nil {
			t.Errorf("ParseWeights(%q) = %+v, %v, want %+v", value, got, err, want)
		}
	}
	for _, value := range []string{
		"", "slot", "slot=1", "slot=1,core=1", "slot=1,core=1,memory=3,disk=1", "slot=1,core=1,core=1",
		"slot=1,core=1,memory=3,", "slot=0,core=0,memory=0", "slot=-1,core=1,memory=1", "slot=1.5,core=1,memory=1",
		"slot=,core=1,memory=1", "slot=x,core=1,memory=1", "Slot=1,core=1,memory=1", "slot=2147483648,core=1,memory=1",
		"slot:1,core:1,memory:1", "slot=1;core=1;memory=1", "slot=1=1,core=1,memory=1", strings.Repeat(",", MaxBytes+1),
	} {
		got, err := ParseWeights(value)
		if err == nil || got != (ScoringWeights{}) || !strings.Contains(err.Error(), ScoringWeightsKey) || len(err.Error()) > 300 {
			t.Errorf("ParseWeights(%.80q) = %+v, %v, want an error with the key", value, got, err)
		}
	}
}

func TestParseBindPhase(t *testing.T) {
	for _, want := range []BindPhase{BindAllocating, BindSuccess, BindFailed} {
		if got, err := ParseBindPhase(string(want)); got != want || err != nil {
			t.Errorf("ParseBindPhase(%q) = %q, %v", want, got, err)
		}
	}
	for _, value := range []string{"", "Success", " success", "allocated", strings.Repeat("x", 1<<20)} {
		got, err := ParseBindPhase(value)
		if err == nil || got != "" || !strings.Contains(err.Error(), BindPhaseKey) || len(err.Error()) > 300 {
			t.Errorf("ParseBindPhase(%.80q) = %q, %v, want an error with the key", value, got, err)
		}
	}
}

func TestTime(t *testing.T) {
	want := time.Unix(1787300439, 0)
	if got := FormatTime(want.Add(999 * time.Millisecond)); got != "1787300439" {
		t.Errorf("FormatTime = %q", got)
	}
	if got, err := ParseTime("1787300439"); !got.Equal(want) || err != nil {
		t.Errorf("ParseTime = %v, %v", got, err)
	}
	if got, err := ParseTime("253402300799"); got.UTC().Year() != 9999 || err != nil {
		t.Errorf("the last time: %v, %v", got, err)
	}
	for _, value := range []string{"", "-1", "+1", "01", "1.5", "1e9", " 1", "1 ", "0x1", "253402300800", "9223372036854775807", "9223372036854775808", "2026-08-21T08:20:39Z", strings.Repeat("1", 1<<20)} {
		if got, err := ParseTime(value); err == nil || !got.IsZero() || len(err.Error()) > 300 {
			t.Errorf("ParseTime(%.40q) = %v, %v, want an error", value, got, err)
		}
	}
}

func TestParseCordon(t *testing.T) {
	for value, want := range map[string][]string{
		"":           nil,
		"A":          {"A"},
		"A,B":        {"A", "B"},
		" A , B ,\n": {"A", "B"},
		",,A,,A":     {"A"},
		"A B":        {"A B"},
		" , ":        nil,
	} {
		cordon, err := ParseCordon(value)
		if err != nil {
			t.Errorf("ParseCordon(%q): %v", value, err)
		}
		if len(cordon) != len(want) {
			t.Errorf("ParseCordon(%q) = %v, want %v", value, cordon, want)
		}
		for _, id := range want {
			if !cordon.Has(id) {
				t.Errorf("ParseCordon(%q) does not have %q", value, id)
			}
		}
		if cordon.Has("") || cordon.Has("a") {
			t.Errorf("ParseCordon(%q) has ids it does not name: %v", value, cordon)
		}
	}
	var many strings.Builder
	for i := range maxDevices + 1 {
		fmt.Fprintf(&many, "%d,", i)
	}
	for _, value := range []string{many.String(), strings.Repeat(",", MaxBytes+1)} {
		if cordon, err := ParseCordon(value); err == nil || cordon != nil || !strings.Contains(err.Error(), DeviceCordonKey) {
			t.Errorf("ParseCordon of %d bytes = %d ids, %v, want an error with the key", len(value), len(cordon), err)
		}
	}
	if Cordon(nil).Has("A") {
		t.Error("a node without the annotation has a cordoned device")
	}
}
