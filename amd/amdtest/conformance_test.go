package amdtest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/amd/amdtest"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// backend is package amd itself.
type backend struct{ *amd.Devices }

func (b backend) Fit(usage []amd.Usage, req amd.Request, pod *corev1.Pod) ([]annotations.Grant, string, bool) {
	grants, reasons := b.Devices.Fit(req, amd.ParsePolicy(pod.Annotations, ""), len(usage), at(usage))
	return grants, reasons.String(), !reasons.Refused()
}

func (b backend) Score(usage []amd.Usage, grants []annotations.Grant) float32 {
	return b.Devices.Score(grants, len(usage), at(usage))
}

func at(usage []amd.Usage) func(int, *amd.Usage) {
	return func(i int, u *amd.Usage) { *u = usage[i] }
}

func TestConformance(t *testing.T) {
	d, err := amd.New(amd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	amdtest.Run(t, backend{d})
}

func TestParseReason(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		want   int
	}{
		"one":                {"8/8 CardNotHealth", 1},
		"two":                {"1/8 CardInsufficientMemory, 2/8 CardNotHealth", 2},
		"empty":              {"", 0},
		"prose":              {"core limit out of range", 0},
		"another word":       {"1/8 CardTired", 0},
		"twice":              {"1/8 CardNotHealth, 2/8 CardNotHealth", 0},
		"negative":           {"-1/8 CardNotHealth", 0},
		"no number":          {"1 CardNotHealth", 0},
		"trailing separator": {"1/8 CardNotHealth, ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := amdtest.ParseReason(test.reason)
			if len(got) != test.want || (err == nil) != (test.want > 0) {
				t.Errorf("%v, %v, want %d reasons", got, err, test.want)
			}
		})
	}
}
