package partition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolveOperatingMode(t *testing.T) {
	tests := map[string]struct {
		variable, annotation string
		want                 OperatingMode
		source               Source
		notes                []string
	}{
		"nothing given":                          {want: ModeCU, source: SourceDefault},
		"the variable":                           {variable: "partition", want: ModePartition, source: SourceVariable},
		"the variable says the default":          {variable: "cu", want: ModeCU, source: SourceVariable},
		"the annotation over the default":        {annotation: "partition", want: ModePartition, source: SourceAnnotation},
		"the annotation over the variable":       {variable: "partition", annotation: "cu", want: ModeCU, source: SourceAnnotation},
		"a bad annotation leaves the variable":   {variable: "partition", annotation: "mig", want: ModePartition, source: SourceVariable, notes: []string{`node annotation hami.io/amd-operating-mode: operating mode "mig": want "cu" or "partition"; using "partition" from the variable`}},
		"a bad annotation leaves the default":    {annotation: "CU", want: ModeCU, source: SourceDefault, notes: []string{`node annotation hami.io/amd-operating-mode: operating mode "CU": want "cu" or "partition"; using "cu" from the default`}},
		"a blank annotation is a bad annotation": {annotation: " ", want: ModeCU, source: SourceDefault, notes: []string{`node annotation hami.io/amd-operating-mode: operating mode " ": want "cu" or "partition"; using "cu" from the default`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mode, source, notes, err := ResolveOperatingMode(test.variable, test.annotation)
			if err != nil {
				t.Fatal(err)
			}
			if mode != test.want || source != test.source {
				t.Errorf("got %q from the %s, want %q from the %s", mode, source, test.want, test.source)
			}
			if diff := cmp.Diff(test.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveComputePartition(t *testing.T) {
	tests := map[string]struct {
		mode                 OperatingMode
		variable, annotation string
		want                 ComputeMode
		source               Source
		notes                []string
	}{
		"nothing given":                  {mode: ModePartition, source: SourceDefault},
		"the variable":                   {mode: ModePartition, variable: "qpx", want: QPX, source: SourceVariable},
		"the annotation over it":         {mode: ModePartition, variable: "qpx", annotation: "spx", want: SPX, source: SourceAnnotation},
		"the spelling of the kernel":     {mode: ModePartition, variable: "CPX", want: CPX, source: SourceVariable},
		"the six-XCC parts have one too": {mode: ModePartition, annotation: "tpx", want: TPX, source: SourceAnnotation},
		"a bad annotation": {mode: ModePartition, variable: "dpx", annotation: "qpx_nps1", want: DPX, source: SourceVariable,
			notes: []string{`node annotation hami.io/amd-compute-partition: compute partition "qpx_nps1": want one of "spx", "dpx", "tpx", "qpx" or "cpx"; using "dpx" from the variable`}},
		"a bad annotation alone": {mode: ModePartition, annotation: "8", source: SourceDefault,
			notes: []string{`node annotation hami.io/amd-compute-partition: compute partition "8": want one of "spx", "dpx", "tpx", "qpx" or "cpx"; using none from the default`}},
		"it has no effect in cu mode": {mode: ModeCU, variable: "qpx", source: SourceDefault,
			notes: []string{`compute partition "qpx" from the variable has no effect in operating mode "cu"`}},
		"it has no effect in the default mode": {annotation: "cpx", source: SourceDefault,
			notes: []string{`compute partition "cpx" from the node annotation has no effect in operating mode "cu"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to, source, notes, err := ResolveComputePartition(test.mode, test.variable, test.annotation)
			if err != nil {
				t.Fatal(err)
			}
			if to != test.want || source != test.source {
				t.Errorf("got %q from the %s, want %q from the %s", to, source, test.want, test.source)
			}
			if diff := cmp.Diff(test.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// A bad variable stops the plugin in every mode and whatever the annotation
// says: it is the deployment that is wrong.
func TestBadVariablesAreRefused(t *testing.T) {
	for name, value := range map[string]string{
		"another word": "mig", "a blank": " ", "a trailing newline": "cu\n", "a list": "cu,partition",
		"hostile": strings.Repeat("partition\n", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			mode, source, notes, err := ResolveOperatingMode(value, "partition")
			checkRefused(t, err, "variable OPERATING_MODE: operating mode ")
			if mode != "" || source != "" || notes != nil {
				t.Errorf("%q from %q, notes %q beside the error", mode, source, notes)
			}
			for _, operating := range []OperatingMode{ModeCU, ModePartition} {
				_, _, _, err = ResolveComputePartition(operating, value, "spx")
				checkRefused(t, err, "variable COMPUTE_PARTITION: compute partition ")
			}
		})
	}
}

// checkRefused wants one short line that starts like this.
func checkRefused(t *testing.T, err error, prefix string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that starts %q", prefix)
	}
	if text := err.Error(); !strings.HasPrefix(text, prefix) || strings.Contains(text, "\n") || len(text) > 400 {
		t.Errorf("error %q: want one short line that starts %q", text, prefix)
	}
}

// The notes of a bad annotation go into a log and an event.
func TestNotesOfHostileAnnotationsAreShort(t *testing.T) {
	mode, _, notes, err := ResolveOperatingMode("", strings.Repeat("\n\x00é", 80000))
	if err != nil || mode != ModeCU || len(notes) != 1 {
		t.Fatalf("mode %q, notes %q, error %v", mode, notes, err)
	}
	if len(notes[0]) > 600 || strings.ContainsAny(notes[0], "\n\x00") {
		t.Errorf("note %q", notes[0])
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("cu", "partition")
	f.Add("", "QPX")
	f.Add("spx", "")
	f.Fuzz(func(t *testing.T, variable, annotation string) {
		mode, source, notes, err := ResolveOperatingMode(variable, annotation)
		if (err == nil) != (mode == ModeCU || mode == ModePartition) || (err != nil) != (source == "") {
			t.Fatalf("%q from %q, error %v", mode, source, err)
		}
		if _, bad := ParseOperatingMode(annotation); err == nil && annotation != "" && (bad != nil) != (len(notes) == 1) {
			t.Fatalf("annotation %q: notes %q", annotation, notes)
		}
		to, _, _, err := ResolveComputePartition(ModePartition, variable, annotation)
		if err == nil && to != "" && !to.known() {
			t.Fatalf("compute partition %q", to)
		}
	})
}
