package cumask

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func holders(o *Occupancy) map[string]string {
	got := map[string]string{}
	for holder, s := range o.Holders() {
		got[holder] = s.String()
	}
	return got
}

func TestOccupancy(t *testing.T) {
	o := NewOccupancy(Geometry{CUs: 304, XCCs: 8})
	for holder, cus := range map[string]Set{"a": Range(0, 75), "b": Range(76, 113), "": Range(200, 207)} {
		if err := o.Add(holder, cus); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Add("a", Range(70, 75).Union(Range(300, 303))); err != nil {
		t.Errorf("more for the same holder: %v", err)
	}
	if err := o.Add("nobody", Set{}); err != nil {
		t.Errorf("nothing: %v", err)
	}
	want := map[string]string{"a": "0-75,300-303", "b": "76-113", "": "200-207"}
	if diff := cmp.Diff(want, holders(o)); diff != "" {
		t.Errorf("Holders (-want +got):\n%s", diff)
	}
	if got := o.Used().String(); got != "0-113,200-207,300-303" {
		t.Errorf("Used = %q", got)
	}
	if got := o.Free().String(); got != "114-199,208-299" {
		t.Errorf("Free = %q", got)
	}
	if got := o.Remove("a").String(); got != "0-75,300-303" {
		t.Errorf("Remove = %q", got)
	}
	for _, holder := range []string{"a", "nobody", "stranger"} {
		if got := o.Remove(holder); !got.Empty() {
			t.Errorf("Remove(%q) = %q, want nothing", holder, got)
		}
	}
	if got := o.Held("b").String(); got != "76-113" || !o.Held("a").Empty() {
		t.Errorf("Held = %q and %q", got, o.Held("a"))
	}
	if got := o.Used().String(); got != "76-113,200-207" {
		t.Errorf("Used = %q", got)
	}
}

func TestOccupancyHoldersInOrder(t *testing.T) {
	o := NewOccupancy(Geometry{CUs: 304})
	for i, holder := range []string{"c", "a", "b", "d"} {
		if err := o.Add(holder, Of(i)); err != nil {
			t.Fatal(err)
		}
	}
	o.Remove("a")
	var got []string
	for holder := range o.Holders() {
		o.Remove(holder) // does not disturb the walk
		if got = append(got, holder); len(got) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"b", "c"}, got); diff != "" {
		t.Errorf("Holders (-want +got):\n%s", diff)
	}
}

// TestC25OverlappingSets is the cumask part of the case's (a).
func TestC25OverlappingSets(t *testing.T) {
	g := Geometry{CUs: 304, XCCs: 8}
	o, other := NewOccupancy(g), NewOccupancy(g)
	if err := errors.Join(o.Add("ns/p", Range(0, 75)), other.Add("ns/r", Range(0, 75))); err != nil {
		t.Fatal(err)
	}
	err := o.Add("ns/q", Range(70, 100))
	var overlap *OverlapError
	if !errors.As(err, &overlap) {
		t.Fatalf("Add = %v, want an *OverlapError", err)
	}
	want := OverlapError{CU: 70, Holders: [2]string{"ns/p", "ns/q"}}
	if *overlap != want || !strings.Contains(err.Error(), `cu 70: held by "ns/p", claimed by "ns/q"`) {
		t.Errorf("Add = %v, want %v", err, &want)
	}
	if o.Used() != Range(0, 100) || o.Disputed() != Range(70, 75) {
		t.Errorf("Used = %q, Disputed = %q; want 0-100 and 70-75", o.Used(), o.Disputed())
	}
	if got, err := Pack(g, o.Used(), 76); err != nil || !got.Intersect(Range(0, 100)).Empty() {
		t.Errorf("Pack = %q, %v; want CUs from 101 on", got, err)
	}
	if other.Used() != Range(0, 75) || !other.Disputed().Empty() {
		t.Errorf("the other GPU: used %q, disputed %q", other.Used(), other.Disputed())
	}
	if err := o.Add("ns/s", Range(200, 207)); err != nil {
		t.Errorf("a third holder: %v", err)
	}
	// What both claimed is free when both are gone, and not before.
	if got := o.Remove("ns/p"); got != Range(0, 69) {
		t.Errorf("Remove = %q, want 0-69", got)
	}
	if !o.Disputed().Empty() || o.Used() != Range(70, 100).Union(Range(200, 207)) {
		t.Errorf("Used = %q, Disputed = %q", o.Used(), o.Disputed())
	}
	if got := o.Remove("ns/q"); got != Range(70, 100) {
		t.Errorf("Remove = %q, want 70-100", got)
	}
}

func TestOccupancyRefusesForeignCUs(t *testing.T) {
	o := NewOccupancy(Geometry{CUs: 304, XCCs: 8})
	if err := o.Add("a", Range(0, 7)); err != nil {
		t.Fatal(err)
	}
	err := o.Add("b", Range(0, 400))
	if !errors.Is(err, ErrGeometry) || !strings.Contains(err.Error(), `"b"`) || !strings.Contains(err.Error(), "cu 304") {
		t.Errorf("Add = %v, want an error about b and cu 304", err)
	}
	if diff := cmp.Diff(map[string]string{"a": "0-7"}, holders(o)); diff != "" || !o.Disputed().Empty() {
		t.Errorf("a refused holder left traces (-want +got):\n%s", diff)
	}
	if err := NewOccupancy(Geometry{}).Add("a", Of(0)); !errors.Is(err, ErrGeometry) {
		t.Errorf("Add on no gpu = %v", err)
	}
}

// TestOccupancyAgainstModel counts claims of each CU beside random additions
// and removals: no CU may be lost or freed twice.
func TestOccupancyAgainstModel(t *testing.T) {
	g := Geometry{CUs: 128, XCCs: 8}
	r := rand.New(rand.NewPCG(4, 4))
	for range 50 {
		o := NewOccupancy(g)
		model := map[string]Set{}
		for range 300 {
			holder := fmt.Sprint("pod-", r.IntN(12))
			if r.IntN(3) == 0 {
				var others Set
				for name, s := range model {
					if name != holder {
						others = others.Union(s)
					}
				}
				if got, want := o.Remove(holder), model[holder].Minus(others); got != want {
					t.Fatalf("Remove(%s) = %q, want %q", holder, got, want)
				}
				delete(model, holder)
			} else {
				s := randomSet(r, g.CUs)
				var others Set
				for name, m := range model {
					if name != holder {
						others = others.Union(m)
					}
				}
				err := o.Add(holder, s)
				fresh := s.Minus(model[holder])
				if clash := fresh.Intersect(others); (err != nil) == clash.Empty() {
					t.Fatalf("Add(%s, %q) beside %q = %v", holder, s, others, err)
				}
				if !s.Empty() {
					model[holder] = model[holder].Union(s)
				}
			}
			var once, twice Set
			for name, s := range model {
				twice = twice.Union(once.Intersect(s))
				once = once.Union(s)
				if o.Held(name) != s {
					t.Fatalf("Held(%s) = %q, want %q", name, o.Held(name), s)
				}
			}
			if o.Used() != once || o.Disputed() != twice || o.Free() != g.All().Minus(once) {
				t.Fatalf("used %q, disputed %q, free %q; want %q and %q", o.Used(), o.Disputed(), o.Free(), once, twice)
			}
		}
	}
}
