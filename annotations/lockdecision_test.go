package annotations

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestC49TakingTheNodeLock(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	fresh, old, ancient := ago(10*time.Second), ago(6*time.Minute), ago(30*24*time.Hour)
	apiDown := errors.New("apiserver: connection refused")
	for name, tt := range map[string]struct {
		query LockQuery // by ns1/q
		want  LockVerdict
		why   string // in the reason
	}{
		"no lock":                           {LockQuery{}, LockTake, "not locked"},
		"no lock, value left over":          {LockQuery{Value: fresh + ",ns1,p"}, LockTake, "not locked"},
		"our own, fresh":                    {LockQuery{Locked: true, Value: fresh + ",ns1,q"}, LockKeep, "has the lock"},
		"our own, ancient":                  {LockQuery{Locked: true, Value: ancient + ",ns1,q"}, LockKeep, "has the lock"},
		"our name in another namespace":     {LockQuery{Locked: true, Value: fresh + ",ns2,q", Owner: OwnerUnserved}, LockHeld, "ns2/q"},
		"owner gone, fresh":                 {LockQuery{Locked: true, Value: fresh + ",ns1,p", Owner: OwnerGone}, LockTake, "ns1/p is gone"},
		"owner gone, old":                   {LockQuery{Locked: true, Value: old + ",ns1,p", Owner: OwnerGone}, LockTake, "gone"},
		"owner finished, fresh":             {LockQuery{Locked: true, Value: fresh + ",ns1,p", Owner: OwnerFinished}, LockTake, "ns1/p has finished"},
		"owner unserved, fresh":             {LockQuery{Locked: true, Value: fresh + ",ns1,p", Owner: OwnerUnserved}, LockHeld, "waits for its devices"},
		"owner unserved, old":               {LockQuery{Locked: true, Value: old + ",ns1,p", Owner: OwnerUnserved}, LockHeld, "waits for its devices"},
		"owner unserved, ancient":           {LockQuery{Locked: true, Value: ancient + ",ns1,p", Owner: OwnerUnserved}, LockHeld, "waits for its devices"},
		"owner served, fresh":               {LockQuery{Locked: true, Value: fresh + ",ns1,p", Owner: OwnerServed}, LockHeld, "not older than 5m0s"},
		"owner served, old":                 {LockQuery{Locked: true, Value: old + ",ns1,p", Owner: OwnerServed}, LockTake, "older than 5m0s"},
		"legacy, fresh":                     {LockQuery{Locked: true, Value: fresh}, LockHeld, "names no owner"},
		"legacy, exactly the timeout":       {LockQuery{Locked: true, Value: ago(DefaultLockTimeout)}, LockHeld, "not older"},
		"legacy, a second more":             {LockQuery{Locked: true, Value: ago(DefaultLockTimeout + time.Second)}, LockTake, "older than 5m0s"},
		"legacy, from a clock ahead":        {LockQuery{Locked: true, Value: ago(-time.Minute)}, LockHeld, "not older"},
		"legacy, from the far future":       {LockQuery{Locked: true, Value: "9999-01-01T00:00:00Z"}, LockTake, "names no owner"},
		"legacy, from the far past":         {LockQuery{Locked: true, Value: "0001-01-01T00:00:00Z"}, LockTake, "names no owner"},
		"legacy, within another timeout":    {LockQuery{Locked: true, Value: old, Timeout: time.Hour}, LockHeld, "1h0m0s"},
		"owner served, beyond another":      {LockQuery{Locked: true, Value: fresh + ",ns1,p", Owner: OwnerServed, Timeout: time.Second}, LockTake, "1s"},
		"owner state does not matter to us": {LockQuery{Locked: true, Value: fresh + ",ns1,q", OwnerErr: apiDown}, LockKeep, "has the lock"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.query.Namespace, tt.query.Name, tt.query.Now = "ns1", "q", now
			got, err := DecideLock(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.want || !strings.Contains(got.Reason, tt.why) {
				t.Errorf("DecideLock = %v (%s), want %v (... %s ...)", got.Verdict, got.Reason, tt.want, tt.why)
			}
			if tt.query.Locked && got.Holder.String() != tt.query.Value {
				t.Errorf("holder = %s, want %s", got.Holder, tt.query.Value)
			}
		})
	}
	for name, tt := range map[string]struct {
		query LockQuery
		want  string
	}{
		"malformed":              {LockQuery{Locked: true, Value: fresh + ",ns1"}, NodeLockKey},
		"empty":                  {LockQuery{Locked: true}, NodeLockKey},
		"two commas":             {LockQuery{Locked: true, Value: ",,"}, NodeLockKey},
		"malformed, ends in us":  {LockQuery{Locked: true, Value: "x,y,ns1,q"}, NodeLockKey},
		"API error at the owner": {LockQuery{Locked: true, Value: ancient + ",ns1,p", OwnerErr: apiDown}, "ns1/p: apiserver: connection refused"},
		"nobody looked":          {LockQuery{Locked: true, Value: ancient + ",ns1,p"}, "nobody has looked"},
		"a state not known":      {LockQuery{Locked: true, Value: ancient + ",ns1,p", Owner: 99}, "nobody has looked"},
	} {
		t.Run("error: "+name, func(t *testing.T) {
			tt.query.Namespace, tt.query.Name, tt.query.Now = "ns1", "q", now
			got, err := DecideLock(tt.query)
			if err == nil || got != (LockDecision{}) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("DecideLock = %+v, %v, want an error with %q", got, err, tt.want)
			}
			if tt.query.OwnerErr != nil && !errors.Is(err, apiDown) {
				t.Errorf("error %q hides its cause", err)
			}
		})
	}
	for _, pod := range [][2]string{{"", ""}, {"ns1", ""}, {"", "q"}} {
		if got, err := DecideLock(LockQuery{Namespace: pod[0], Name: pod[1], Now: now}); err == nil || got.Verdict == LockTake {
			t.Errorf("DecideLock for the pod %q = %v, %v, want an error", pod, got, err)
		}
	}
}

// A zero verdict must not be one that writes.
func TestLockVerdictZeroIsHeld(t *testing.T) {
	var d LockDecision
	if d.Verdict != LockHeld {
		t.Errorf("zero verdict = %v", d.Verdict)
	}
	for v, want := range map[LockVerdict]string{LockHeld: "held", LockTake: "take", LockKeep: "keep", 7: "LockVerdict(7)"} {
		if v.String() != want {
			t.Errorf("String() = %q, want %q", v, want)
		}
	}
}

func TestC48UnservedOwnerKeepsAnOldLock(t *testing.T) {
	locked := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	p := map[string]string{
		ToAllocateKey: "A,AMD Instinct MI300X,1000,76:;",
		AllocatedKey:  "A,AMD Instinct MI300X,1000,76:;",
		BindPhaseKey:  string(BindAllocating),
	}
	query := LockQuery{
		Locked: true, Value: NodeLock{Time: locked, Namespace: "default", Name: "p"}.String(),
		Namespace: "default", Name: "q", Now: locked.Add(DefaultLockTimeout + time.Minute),
		Owner: OwnerStateOf("Pending", p),
	}
	if got, err := DecideLock(query); err != nil || got.Verdict != LockHeld {
		t.Errorf("P pending and unserved: %v, %v, want held", got, err)
	}
	query.Namespace, query.Name = "default", "p"
	if got, err := DecideLock(query); err != nil || got.Verdict != LockKeep {
		t.Errorf("P itself: %v, %v, want keep", got, err)
	}
	query.Name = "q"
	p[ToAllocateKey] = ";"
	query.Owner = OwnerStateOf("Pending", p)
	if got, err := DecideLock(query); err != nil || got.Verdict != LockTake {
		t.Errorf("P served and the lock old: %v, %v, want take", got, err)
	}
}

func TestOwnerStateOf(t *testing.T) {
	grants := map[string]string{ToAllocateKey: "A,T,1,2:;"}
	for name, tt := range map[string]struct {
		phase       string
		annotations map[string]string
		want        OwnerState
	}{
		"pending, unserved":            {"Pending", grants, OwnerUnserved},
		"no phase yet, unserved":       {"", grants, OwnerUnserved},
		"pending, half served":         {"Pending", map[string]string{ToAllocateKey: ";B,T,1,2:;"}, OwnerUnserved},
		"pending, served":              {"Pending", map[string]string{ToAllocateKey: ";;", AllocatedKey: "A,T,1,2:;"}, OwnerServed},
		"pending, nothing to serve":    {"Pending", map[string]string{ToAllocateKey: ""}, OwnerServed},
		"pending, not ours":            {"Pending", nil, OwnerServed},
		"pending, broken grants":       {"Pending", map[string]string{ToAllocateKey: "garbage"}, OwnerUnserved},
		"pending, of another vendor":   {"Pending", map[string]string{"hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,1,2:;"}, OwnerUnserved},
		"pending, both, one served":    {"Pending", map[string]string{ToAllocateKey: ";", "hami.io/vgpu-devices-to-allocate": "GPU-0,NVIDIA,1,2:;"}, OwnerUnserved},
		"pending, another's own key":   {"Pending", map[string]string{"example.com/devices-to-allocate": "A,T,1,2:;"}, OwnerServed},
		"running, grants put back":     {"Running", grants, OwnerServed},
		"running":                      {"Running", nil, OwnerServed},
		"succeeded":                    {"Succeeded", map[string]string{ToAllocateKey: ";"}, OwnerFinished},
		"failed before it was served":  {"Failed", grants, OwnerFinished},
		"a phase Kubernetes gave up":   {"Unknown", grants, OwnerServed},
		"a phase nobody has heard of ": {"Paused", nil, OwnerServed},
	} {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tt.annotations)
			if got := OwnerStateOf(tt.phase, tt.annotations); got != tt.want {
				t.Errorf("OwnerStateOf = %d, want %d", got, tt.want)
			}
			if !maps.Equal(before, tt.annotations) {
				t.Error("the annotations were changed")
			}
		})
	}
}

func TestC49ReleasingTheNodeLock(t *testing.T) {
	const stamp = "2026-08-21T08:20:39Z"
	for name, tt := range map[string]struct {
		locked  bool
		value   string
		release bool
		ok      bool
	}{
		"no lock":                       {false, "", false, true},
		"our own":                       {true, stamp + ",ns1,p", true, true},
		"another pod's":                 {true, stamp + ",ns1,q", false, true},
		"our name elsewhere":            {true, stamp + ",ns2,p", false, true},
		"a name that ends like ours":    {true, stamp + ",xns1,p", false, true},
		"legacy":                        {true, stamp, true, true},
		"malformed":                     {true, stamp + ",ns1", false, false},
		"empty":                         {true, "", false, false},
		"malformed, though it ends so ": {true, "x,y,ns1,p", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			release, err := DecideRelease(tt.locked, tt.value, "ns1", "p")
			if release != tt.release || (err == nil) != tt.ok {
				t.Errorf("DecideRelease = %v, %v, want %v, error free: %v", release, err, tt.release, tt.ok)
			}
		})
	}
}
