package kubeyaml

import (
	"fmt"
	"strings"
	"testing"
)

// resource.Quantity spends hours and gigabytes on an exponent of nine digits,
// and minutes on a million digits before it.
func TestQuantitiesThatTakeForeverAreSkipped(t *testing.T) {
	for name, quantity := range map[string]string{
		"a small number":         `"1e-999999999"`,
		"a large number":         `"1E+999999999"`,
		"with a fraction":        `"0.1e-2147483647"`,
		"zero":                   `"0e-999999999"`,
		"a bare number":          `1e-999999999`,
		"hidden by escapes":      `"1\u0065-999999999"`,
		"hidden from the start":  `"\u0031e-999999999"`,
		"many digits":            `"` + strings.Repeat("9", 100) + `"`,
		"many digits and a unit": `"` + strings.Repeat("9", 100) + `Mi"`,
	} {
		for where, object := range map[string]string{
			"limits":      `{"kind":"Pod","metadata":{"name":"x"},"spec":{"initContainers":[{"name":"c","resources":{"limits":{"amd.com/gpumem":%s}}}]}}`,
			"requests":    `{"kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%s}}}]}}`,
			"overhead":    `{"kind":"Pod","metadata":{"name":"x"},"spec":{"overhead":{"memory":%s}}}`,
			"size limit":  `{"kind":"Pod","metadata":{"name":"x"},"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":%s}}]}}`,
			"divisor":     `{"kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"env":[{"name":"e","valueFrom":{"resourceFieldRef":{"divisor":%s}}}]}]}}`,
			"capacity":    `{"kind":"Node","metadata":{"name":"x"},"status":{"capacity":{"amd.com/gpu":%s}}}`,
			"allocatable": `{"kind":"Node","metadata":{"name":"x"},"status":{"allocatable":{"amd.com/gpu":%s}}}`,
		} {
			t.Run(name+" in "+where, func(t *testing.T) {
				o, err := Read(strings.NewReader(fmt.Sprintf(object, quantity)))
				if err != nil {
					t.Fatal(err)
				}
				if len(o.Pods)+len(o.Nodes) != 0 || len(o.Skipped) != 1 || !strings.Contains(o.Skipped[0].Error(), "digits") {
					t.Errorf("found %+v, want one object skipped for its digits", summarize(o))
				}
			})
		}
	}
}

func TestOtherLongNumbersAreRead(t *testing.T) {
	for name, object := range map[string]string{
		"a label like a number":      `{"kind":"Pod","metadata":{"name":"x","labels":{"pod-template-hash":"12e45678"}}}`,
		"an annotation of digits":    `{"kind":"Pod","metadata":{"name":"x","annotations":{"a":"` + strings.Repeat("1", 500) + `"}}}`,
		"a quantity with exponent":   `{"kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"resources":{"limits":{"amd.com/gpumem":"1e3"}}}]}}`,
		"an escape in an annotation": `{"kind":"Pod","metadata":{"name":"x","annotations":{"a":"\n{\"a\":1}"}}}`,
		"text cut off by an escape":  `{"kind":"Pod","metadata":{"name":"x","annotations":{"a":"1\\"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Read(strings.NewReader(object))
			if err != nil || len(o.Pods) != 1 {
				t.Fatalf("found %+v, %v, want one pod", o, err)
			}
		})
	}
}
