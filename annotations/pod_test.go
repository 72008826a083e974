package annotations

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	grantA = Grant{UUID: "A", Type: "T", MemoryMiB: 16384, CUs: 76}
	grantB = Grant{UUID: "B", Type: "T", MemoryMiB: 8192, CUs: 38}
)

// podGolden are the bytes HAMi v2.10 writes (EncodePodSingleDevice).
var podGolden = map[string]struct {
	value string
	pod   PodGrants
}{
	"no containers":             {"", PodGrants{}},
	"one container without":     {";", PodGrants{{}}},
	"two containers without":    {";;", PodGrants{{}, {}}},
	"one GPU":                   {"GPU-a,AMD Instinct MI300X,16384,76:;", PodGrants{{{"GPU-a", "AMD Instinct MI300X", 16384, 76}}}},
	"two GPUs in one container": {"a,AMD X,1,2:b,AMD X,1,2:;", PodGrants{{{"a", "AMD X", 1, 2}, {"b", "AMD X", 1, 2}}}},
	"a sidecar before it":       {";a,AMD X,1,2:;", PodGrants{{}, {{"a", "AMD X", 1, 2}}}},
	"one GPU shared by two":     {"A,T,16384,76:;A,T,16384,76:;", PodGrants{{grantA}, {grantA}}},
	"memory alone":              {"A,T,1024,0:;", PodGrants{{{"A", "T", 1024, 0}}}},
	"the largest numbers":       {"A,T,2147483647,2147483647:;", PodGrants{{{"A", "T", math.MaxInt32, math.MaxInt32}}}},
	"odd names":                 {"GPU a/b#c, AMD \t\x00é,1,2:;", PodGrants{{{"GPU a/b#c", " AMD \t\x00é", 1, 2}}}},
}

func TestEncodePodGolden(t *testing.T) {
	for name, tt := range podGolden {
		t.Run(name, func(t *testing.T) {
			if got, err := EncodePod(tt.pod); got != tt.value || err != nil {
				t.Errorf("EncodePod(%v) = %q, %v, want %q", tt.pod, got, err, tt.value)
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		if got, err := EncodePod(nil); got != "" || err != nil {
			t.Errorf("EncodePod(nil) = %q, %v", got, err)
		}
		if got, err := EncodePod(PodGrants{nil, {}}); got != ";;" || err != nil {
			t.Errorf("EncodePod of nil and empty entries = %q, %v, want ;;", got, err)
		}
	})
}

func TestDecodePodGolden(t *testing.T) {
	for name, tt := range podGolden {
		t.Run(name, func(t *testing.T) {
			got, err := DecodePod(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.pod, got); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
		})
	}
}

// The last separators may be missing, as in what older writers left.
func TestDecodePodWithoutLastSeparators(t *testing.T) {
	for name, tt := range map[string]struct {
		value string
		want  PodGrants
	}{
		"no semicolon":              {"A,T,16384,76:", PodGrants{{grantA}}},
		"no colon":                  {"A,T,16384,76;", PodGrants{{grantA}}},
		"neither":                   {"A,T,16384,76", PodGrants{{grantA}}},
		"between":                   {"A,T,16384,76;B,T,8192,38", PodGrants{{grantA}, {grantB}}},
		"in one container":          {"A,T,16384,76:B,T,8192,38", PodGrants{{grantA, grantB}}},
		"a container without first": {";A,T,16384,76", PodGrants{{}, {grantA}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodePod(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("grants (-want +got):\n%s", diff)
			}
		})
	}
}

// checkDecodePodRefuses expects an error that names the place and holds want.
func checkDecodePodRefuses(t *testing.T, value, want string) {
	t.Helper()
	got, err := DecodePod(value)
	if err == nil || got != nil {
		t.Fatalf("DecodePod(%q) = %v, %v, want nil and an error", value, got, err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %q\n does not contain %q", err, want)
	}
}

func TestC01BadNumberIsAnErrorAndNeverZero(t *testing.T) {
	for value, want := range map[string]string{
		"A,T,16g,76:;":                 `container 0: device 0: memory: want MiB as a whole number from 0 to 2147483647, found "16g"`,
		"A,T,,76:;":                    `container 0: device 0: memory: want MiB as a whole number from 0 to 2147483647, found ""`,
		"A,T,16384,:;":                 `container 0: device 0: CUs: want a whole number from 0 to 2147483647, found ""`,
		"A,T,4294967297,76:;":          `memory: want MiB as a whole number from 0 to 2147483647, found "4294967297"`,
		"A,T,-1,76:;":                  `memory: want MiB as a whole number from 0 to 2147483647, found "-1"`,
		"A,T,1,2:;B,T,1,2:C,T,1,-76:;": `container 1: device 1: CUs: want a whole number from 0 to 2147483647, found "-76"`,
		"A,T,16384,2147483648:;":       `CUs: want a whole number`,
		"A,T,+1,76:;":                  "memory",
		"A,T, 1,76:;":                  "memory",
		"A,T,1 ,76:;":                  "memory",
		"A,T,1_000,76:;":               "memory",
		"A,T,0x10,76:;":                "memory",
		"A,T,1e3,76:;":                 "memory",
		"A,T,1.0,76:;":                 "memory",
		"A,T,007,76:;":                 "memory",
		"A,T,١٢,76:;":                  "memory",
		"A,T,16384,7 6:;":              "CUs",
	} {
		t.Run(value, func(t *testing.T) { checkDecodePodRefuses(t, value, want) })
	}
	got, err := DecodePod("A,T,16384,76:;")
	if diff := cmp.Diff(PodGrants{{grantA}}, got); diff != "" || err != nil {
		t.Errorf("error %v, grants (-want +got):\n%s", err, diff)
	}
}

func TestC02FieldsAndSeparators(t *testing.T) {
	for value, want := range map[string]string{
		"A,T:;":                  `container 0: device 0: want UUID,type,memory,CUs, found 2 fields in "A,T"`,
		"A,T,16384:;":            `found 3 fields in "A,T,16384"`,
		"garbage:;":              `found 1 field in "garbage"`,
		"garbage":                `found 1 field in "garbage"`,
		"A,T,1,2,3:;":            `found 5 fields in "A,T,1,2,3"`,
		"A,T,1,2,:;":             `found 5 fields`,
		"A,T,1,2::;":             `device 1: want UUID,type,memory,CUs, found 1 field in ""`,
		":;":                     `device 0: want UUID,type,memory,CUs, found 1 field in ""`,
		":A,T,1,2:;":             `device 0: want UUID`,
		";garbage;":              `container 1: device 0`,
		",T,1,2:;":               `device 0: UUID is empty`,
		"A,,1,2:;":               `device 0: type is empty`,
		"A,T,1,2:B,,1,2:;":       `device 1: type is empty`,
		"A,T,1,2:A,T,1,2:;":      `container 0: device 1: UUID "A" is there twice`,
		"0000:03:00.0,T,1,2:;":   `found 1 field in "0000"`,
		"A,T,1,2:;00:03.0,T,1,2": `container 1: device 0: want UUID,type,memory,CUs, found 1 field in "00"`,
		" ":                      `found 1 field in " "`,
		"null":                   `found 1 field in "null"`,
		"[]":                     `found 1 field in "[]"`,
	} {
		t.Run("decode "+value, func(t *testing.T) { checkDecodePodRefuses(t, value, want) })
	}
	for name, tt := range map[string]struct {
		grant Grant
		want  string
	}{
		"comma in the UUID":     {Grant{UUID: "A,B", Type: "T"}, `UUID "A,B" contains one of the separators ",:;"`},
		"colon in the UUID":     {Grant{UUID: "0000:03:00.0", Type: "T"}, `UUID "0000:03:00.0" contains one of the separators`},
		"semicolon in the UUID": {Grant{UUID: "A;", Type: "T"}, `UUID "A;" contains`},
		"comma in the type":     {Grant{UUID: "A", Type: "AMD X, Y"}, `type "AMD X, Y" contains`},
		"colon in the type":     {Grant{UUID: "A", Type: "AMD: X"}, `type "AMD: X" contains`},
		"semicolon in the type": {Grant{UUID: "A", Type: ";"}, `type ";" contains`},
		"no UUID":               {Grant{Type: "T"}, "UUID is empty"},
		"no type":               {Grant{UUID: "A"}, "type is empty"},
		"negative memory":       {Grant{UUID: "A", Type: "T", MemoryMiB: -1}, "memory is negative: -1"},
		"negative CUs":          {Grant{UUID: "A", Type: "T", CUs: math.MinInt32}, "CUs are negative: -2147483648"},
		"the UUID before again": {Grant{UUID: "B", Type: "T"}, `UUID "B" is there twice`},
	} {
		t.Run("encode "+name, func(t *testing.T) {
			got, err := EncodePod(PodGrants{{}, {grantB, tt.grant}})
			if err == nil || got != "" || !strings.Contains(err.Error(), "container 1: device 1: "+tt.want) {
				t.Errorf("EncodePod = %q, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestC04ContainersKeepTheirPlace(t *testing.T) {
	for value, want := range map[string]PodGrants{
		"A,T,16384,76:;;B,T,8192,38:;": {{grantA}, {}, {grantB}},
		"A,T,16384,76:;;B,T,8192,38:":  {{grantA}, {}, {grantB}},
		"A,T,16384,76:;;":              {{grantA}, {}},
		"A,T,16384,76:;":               {{grantA}},
		";;":                           {{}, {}},
	} {
		got, err := DecodePod(value)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("DecodePod(%q): error %v, grants (-want +got):\n%s", value, err, diff)
		}
	}
	if got, err := EncodePod(make(PodGrants, 2)); got != ";;" || err != nil {
		t.Errorf("two containers without a GPU encode as %q, %v, want ;;", got, err)
	}
}

func TestC05AnnotationDoesNotGrow(t *testing.T) {
	rounds := func(t *testing.T, value string) {
		t.Helper()
		for round := range 3 {
			pod, err := DecodePod(value)
			if err != nil {
				t.Fatal(err)
			}
			again, err := EncodePod(pod)
			if err != nil || again != value {
				t.Fatalf("round %d made %q of %q, error %v", round+1, again, value, err)
			}
		}
	}
	const value = "A,T,16384,76:;B,T,8192,38:;"
	rounds(t, value)
	pod, err := DecodePod(value)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{";B,T,8192,38:;", ";;"} {
		pod = pod.Serve(i)
		got, err := EncodePod(pod)
		if err != nil || got != want {
			t.Fatalf("after serving container %d: %q, %v, want %q", i, got, err, want)
		}
		rounds(t, got)
	}
	rounds(t, "A,T,16384,76:;;;;;") // as HAMi v2.10 left it after some rounds
}

// The hook reads a limit of 0 as none, so an amount that does not fit must never
// come out as 0, or as any other number.
func TestC12MemoryNeverWraps(t *testing.T) {
	for _, memory := range []string{"2147483648", "4294967296", "17179869184", "18446744073709551616", "-1", "1500m", "16Gi"} {
		checkDecodePodRefuses(t, "A,T,"+memory+",76:;", fmt.Sprintf("memory: want MiB as a whole number from 0 to 2147483647, found %q", memory))
	}
	got, err := DecodePod("A,T,196288,304:;")
	if diff := cmp.Diff(PodGrants{{{"A", "T", 196288, 304}}}, got); diff != "" || err != nil {
		t.Errorf("a whole card: error %v, grants (-want +got):\n%s", err, diff)
	}
}

func TestPodBounds(t *testing.T) {
	devices := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,T,1,2:", i)
		}
		return b.String() + ";"
	}
	for name, tt := range map[string]struct {
		value string
		ok    bool
	}{
		"containers as allowed": {strings.Repeat(";", maxContainers), true},
		"one container more":    {strings.Repeat(";", maxContainers) + "A,T,1,2", false},
		"semicolons alone":      {strings.Repeat(";", MaxBytes), false},
		"devices as allowed":    {devices(maxGrants), true},
		"one device more":       {devices(maxGrants + 1), false},
		"as long as allowed":    {"A," + strings.Repeat("T", MaxBytes-len("A,,1,2:;")) + ",1,2:;", true},
		"one byte longer":       {"A," + strings.Repeat("T", MaxBytes+1-len("A,,1,2:;")) + ",1,2:;", false},
		"commas alone":          {strings.Repeat(",", MaxBytes), false},
	} {
		t.Run(name, func(t *testing.T) {
			pod, err := DecodePod(tt.value)
			if (err == nil) != tt.ok {
				t.Fatalf("error = %v, want accepted: %v", err, tt.ok)
			}
			if err != nil {
				if len(err.Error()) > 500 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
				return
			}
			if got, err := EncodePod(pod); got != tt.value || err != nil {
				t.Errorf("encoded again it has %d bytes of %d, error %v", len(got), len(tt.value), err)
			}
		})
	}
	for name, pod := range map[string]PodGrants{
		"too many containers": make(PodGrants, maxContainers+1),
		"too many devices":    {make([]Grant, maxGrants+1)},
		"too long":            {{{UUID: strings.Repeat("A", MaxBytes), Type: "T"}}},
	} {
		t.Run("encode "+name, func(t *testing.T) {
			if got, err := EncodePod(pod); err == nil || got != "" {
				t.Errorf("EncodePod = %.100q, %v, want an error", got, err)
			}
		})
	}
}

// randomPod is a pod that EncodePod must accept.
func randomPod(r *rand.Rand) PodGrants {
	pod := make(PodGrants, r.IntN(6))
	for i := range pod {
		pod[i] = []Grant{}
		for j := range r.IntN(5) {
			pod[i] = append(pod[i], Grant{
				UUID:      fmt.Sprintf("%x-%d", r.Uint64(), j),
				Type:      strings.Repeat("T", 1+r.IntN(20)),
				MemoryMiB: r.Int32N(math.MaxInt32),
				CUs:       r.Int32N(305),
			})
		}
	}
	return pod
}

func TestPodIsReadAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := randomPod(r)
		value, err := EncodePod(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodePod(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-written +read):\n%s", value, diff)
		}
	}
}

// A caller that appends to one container must not reach into the next.
func TestDecodePodEntriesAreSeparate(t *testing.T) {
	pod, err := DecodePod("A,T,16384,76:;B,T,8192,38:;")
	if err != nil {
		t.Fatal(err)
	}
	_ = append(pod[0], Grant{UUID: "C"})
	if pod[1][0] != grantB {
		t.Errorf("appending to the first container made the second %v", pod[1])
	}
}
