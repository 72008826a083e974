package annotations

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/google/go-cmp/cmp"
)

func TestCUsGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		value string
		cus   map[string]cumask.Set
	}{
		"nothing":         {`{}`, map[string]cumask.Set{}},
		"a quarter":       {`{"A":"0-75"}`, map[string]cumask.Set{"A": cumask.Range(0, 75)}},
		"scattered":       {`{"A":"0-3,8,10-12"}`, map[string]cumask.Set{"A": cumask.Of(12, 11, 10, 8, 3, 2, 1, 0)}},
		"two devices":     {`{"A":"0-75","B":"100-175"}`, map[string]cumask.Set{"B": cumask.Range(100, 175), "A": cumask.Range(0, 75)}},
		"word boundaries": {`{"A":"60-67","B":"63","C":"64","D":"0-1023"}`, map[string]cumask.Set{"A": cumask.Range(60, 67), "B": cumask.Of(63), "C": cumask.Of(64), "D": cumask.Range(0, 1023)}},
		"a strange id":    {`{"\"\u003c\n":"1"}`, map[string]cumask.Set{"\"<\n": cumask.Of(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := EncodeCUs(tt.cus)
			if value != tt.value || err != nil {
				t.Errorf("EncodeCUs = %q, %v, want %q", value, err, tt.value)
			}
			cus, err := DecodeCUs(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.cus, cus, sets); diff != "" {
				t.Errorf("DecodeCUs (-want +got):\n%s", diff)
			}
		})
	}
	if value, err := EncodeCUs(nil); value != "{}" || err != nil {
		t.Errorf("EncodeCUs(nil) = %q, %v, want {}", value, err)
	}
}

// sets compares CU sets, which have no exported fields, by value.
var sets = cmp.Comparer(func(a, b cumask.Set) bool { return a == b })

func TestC09CUListThatROCrWouldNotTake(t *testing.T) {
	for _, list := range []string{"0-3,3-5", "7-4", "0-3,,8", "", "-3", "1-2-3", "0x3", "0-", ",", "0,", " 0", "0 ", "1,1", "0-1024", "4294967296", "0-3;8", "+1", "A"} {
		t.Run(list, func(t *testing.T) {
			_, err := DecodeCUs(fmt.Sprintf(`{"ok":"0","A":%q}`, list))
			if err == nil {
				t.Fatalf("the list %q is accepted", list)
			}
			for _, want := range []string{CUAllocatedKey, `device "A"`, list} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if !errors.Is(err, cumask.ErrSyntax) {
				t.Errorf("error %q hides its cause", err)
			}
		})
	}
	// 300-304 is beyond an MI300X of 304 CUs: for whoever knows the device.
	cus, err := DecodeCUs(`{"A":"300-304"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := (cumask.Geometry{CUs: 304, XCCs: 8}).Check(cus["A"]); err == nil {
		t.Error("CU 304 of 304 passes the geometry's check")
	}
	for list, want := range map[string]cumask.Set{"4,1": cumask.Of(1, 4), "10-12,8,0-3": cumask.Of(0, 1, 2, 3, 8, 10, 11, 12)} {
		cus, err := DecodeCUs(fmt.Sprintf(`{"A":%q}`, list))
		if err != nil || cus["A"] != want {
			t.Errorf("the list %q = %v, %v, want %v", list, cus["A"], err, want)
		}
	}
}

// cuMapsRefused are values of CUAllocatedKey and what the error must say.
var cuMapsRefused = map[string]struct{ value, want string }{
	"nothing":            {"", "want an object, found the end"},
	"null":               {"null", "want an object"},
	"a list":             {`["0-75"]`, "want an object"},
	"a CU list alone":    {"0-75", "want an object"},
	"a device twice":     {`{"A":"0-3","A":"8"}`, `member "A" is there twice`},
	"the same, escaped":  {`{"A":"0-3","\u0041":"8"}`, `member "A" is there twice`},
	"an empty id":        {`{"":"0-3"}`, "device id is empty"},
	"a number as list":   {`{"A":5}`, `device "A": want a string, found "5"`},
	"null as list":       {`{"A":null}`, `device "A": want a string, found "null"`},
	"a list of numbers":  {`{"A":[0,1]}`, `device "A": want a string, found "[0,1]"`},
	"a map in the map":   {`{"A":{"cus":"0-3"}}`, `device "A": want a string`},
	"cut off":            {`{"A":"0-3"`, `want "," or "}", found the end`},
	"cut off in a list":  {`{"A":"0-3`, "closing quote"},
	"something after it": {`{"A":"0-3"} {}`, "want the end"},
	"a comma too many":   {`{"A":"0-3",}`, "want a member name"},
	"a pod string":       {"A,T,1,2:;", "want an object"},
}

func TestDecodeCUsRefuses(t *testing.T) {
	for name, tt := range cuMapsRefused {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeCUs(tt.value)
			if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), CUAllocatedKey) {
				t.Errorf("DecodeCUs(%q) = %v, %v, want an error with the key and %q", tt.value, got, err, tt.want)
			}
		})
	}
	t.Run("too long", func(t *testing.T) {
		if _, err := DecodeCUs(strings.Repeat(" ", MaxBytes) + "{}"); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("too many devices", func(t *testing.T) {
		var b strings.Builder
		for i := range maxMembers + 1 {
			fmt.Fprintf(&b, `,"%d":"0"`, i)
		}
		if _, err := DecodeCUs("{" + b.String()[1:] + "}"); err == nil || len(err.Error()) > 300 {
			t.Errorf("error = %v", err)
		}
	})
}

func TestEncodeCUsRefuses(t *testing.T) {
	many := map[string]cumask.Set{}
	for i := range maxMembers + 1 {
		many[fmt.Sprint(i)] = cumask.Of(0)
	}
	for name, tt := range map[string]struct {
		cus  map[string]cumask.Set
		want string
	}{
		"an empty set":     {map[string]cumask.Set{"A": {}}, `device "A": no CUs`},
		"an empty id":      {map[string]cumask.Set{"": cumask.Of(0)}, "device id is empty"},
		"an id not UTF-8":  {map[string]cumask.Set{"\xff": cumask.Of(0)}, "UTF-8"},
		"too many devices": {many, "257 devices"},
		"too many bytes":   {map[string]cumask.Set{strings.Repeat("A", MaxBytes): cumask.Of(0)}, "bytes long"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeCUs(tt.cus)
			if err == nil || got != "" || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), CUAllocatedKey) {
				t.Errorf("EncodeCUs = %.100q, %v, want an error with the key and %q", got, err, tt.want)
			}
		})
	}
}

// A broken value must not have half an effect: it would free or take CUs.
func TestRangeCUsChecksAllBeforeTheFirstCall(t *testing.T) {
	for name, tt := range cuMapsRefused {
		t.Run(name, func(t *testing.T) {
			err := RangeCUs(tt.value, func(device string, cus cumask.Set) error {
				t.Errorf("called with %s: %v", device, cus)
				return nil
			})
			if err == nil {
				t.Errorf("RangeCUs(%q) accepts it", tt.value)
			}
		})
	}
	var seen []string
	stop := errors.New("enough")
	err := RangeCUs(`{"B":"0","A":"1-2","C":"3","D":"4","E":"5","F":"6"}`, func(device string, cus cumask.Set) error {
		seen = append(seen, device+"="+cus.String())
		if device == "E" {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Errorf("error = %v, want that of the callback as it is", err)
	}
	if diff := cmp.Diff([]string{"B=0", "A=1-2", "C=3", "D=4", "E=5"}, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRangeCUsDoesNotAllocate(t *testing.T) {
	const value = `{"8eff74b5-0000-1000-801b-b56457addd1b":"0-75","9fff74b5-0000-1000-801b-b56457addd1b":"0-3,8,10-12"}`
	allocs := testing.AllocsPerRun(100, func() {
		if err := RangeCUs(value, func(string, cumask.Set) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for two devices, want 0", allocs)
	}
}

func TestC25OverlappingPodsAreBothNamed(t *testing.T) {
	gpus := map[string]*cumask.Occupancy{
		"A": cumask.NewOccupancy(cumask.Geometry{CUs: 304, XCCs: 8}),
		"B": cumask.NewOccupancy(cumask.Geometry{CUs: 304, XCCs: 8}),
	}
	var overlaps []string
	for _, pod := range []struct{ name, value string }{
		{"default/p", `{"A":"0-75"}`},
		{"default/q", `{"A":"70-100","B":"0-37"}`},
		{"default/broken", `{"B":"38-75","A":"0-"}`},
	} {
		err := RangeCUs(pod.value, func(device string, cus cumask.Set) error {
			if err := gpus[device].Add(pod.name, cus); err != nil {
				overlaps = append(overlaps, device+": "+err.Error())
			}
			return nil
		})
		if (err != nil) != (pod.name == "default/broken") {
			t.Errorf("%s: %v", pod.name, err)
		}
	}
	if len(overlaps) != 1 {
		t.Fatalf("overlaps = %q, want one", overlaps)
	}
	for _, want := range []string{"A:", "70", "default/p", "default/q"} {
		if !strings.Contains(overlaps[0], want) {
			t.Errorf("overlap %q does not name %q", overlaps[0], want)
		}
	}
	if got := gpus["A"].Used(); got != cumask.Range(0, 100) {
		t.Errorf("used on A = %v, want the union 0-100", got)
	}
	if got := gpus["B"].Used(); got != cumask.Range(0, 37) {
		t.Errorf("used on B = %v, want 0-37 and nothing of the broken pod", got)
	}
}

// The plugin compares what it stored with what it would store again.
func TestC52StoredCUsComeBackUnchanged(t *testing.T) {
	const value = `{"A":"0-75"}`
	for range 3 {
		cus, err := DecodeCUs(value)
		if err != nil {
			t.Fatal(err)
		}
		cus["A"] = cus["A"].Union(cumask.Range(0, 75))
		if again, err := EncodeCUs(cus); again != value || err != nil {
			t.Fatalf("stored again: %q, %v, want %q", again, err, value)
		}
	}
}

func TestCUsAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		want := map[string]cumask.Set{}
		for i := range r.IntN(9) {
			var cus []int
			for range 1 + r.IntN(80) {
				cus = append(cus, r.IntN(cumask.MaxCUs))
			}
			want[fmt.Sprintf("%x-%d", r.Uint32(), i)] = cumask.Of(cus...)
		}
		value, err := EncodeCUs(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCUs(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sets); diff != "" {
			t.Fatalf("%s (-written +read):\n%s", value, diff)
		}
	}
}
