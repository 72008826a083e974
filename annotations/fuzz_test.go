package annotations

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/google/go-cmp/cmp"
)

func FuzzDecodePod(f *testing.F) {
	for _, tt := range podGolden {
		f.Add(tt.value)
	}
	for _, seed := range []string{"garbage:;", "A,T,1,2", "A,T,1,2:A,T,1,2:;", "A,T,-1,2:;", ";;;A,T,2147483648,1", "::;", ",,,:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pod, err := DecodePod(s)
		if err != nil {
			if pod != nil {
				t.Fatalf("DecodePod(%q) = both %v and the error %v", s, pod, err)
			}
			return
		}
		again, err := EncodePod(pod)
		if err != nil {
			t.Fatalf("EncodePod of what DecodePod(%q) gave: %v", s, err)
		}
		// What it accepts is what HAMi writes, but for the separators at the ends.
		if canonical := strings.NewReplacer(":;", ";").Replace(again); canonical != strings.NewReplacer(":;", ";").Replace(ended(s)) {
			t.Fatalf("%q became %q", s, again)
		}
		back, err := DecodePod(again)
		if err != nil {
			t.Fatalf("DecodePod(%q): %v", again, err)
		}
		if diff := cmp.Diff(pod, back); diff != "" {
			t.Fatalf("%q (-first +second):\n%s", s, diff)
		}
		for i := range pod {
			if served := pod.Serve(i); len(served) != len(pod) || len(served[i]) != 0 {
				t.Fatalf("Serve(%d) of %q = %v", i, s, served)
			}
		}
	})
}

// ended adds the last semicolon if it is missing.
func ended(s string) string {
	if s == "" || strings.HasSuffix(s, ";") {
		return s
	}
	return s + ";"
}

func FuzzEncodePod(f *testing.F) {
	f.Add("A", "AMD Instinct MI300X", int32(16384), int32(76), "B", uint8(2))
	f.Add("0000:83:00.0", "", int32(-1), int32(0), "B", uint8(0))
	f.Fuzz(func(t *testing.T, uuid, typ string, memory, cus int32, second string, containers uint8) {
		want := PodGrants{}
		for range containers {
			want = append(want, []Grant{})
		}
		want = append(want, []Grant{{uuid, typ, memory, cus}, {second, typ, cus, memory}})
		value, err := EncodePod(want)
		if err != nil {
			if value != "" {
				t.Fatalf("both %q and the error %v", value, err)
			}
			return
		}
		got, err := DecodePod(value)
		if err != nil {
			t.Fatalf("DecodePod(%q): %v", value, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-written +read):\n%s", value, diff)
		}
	})
}

func FuzzDecodeDevices(f *testing.F) {
	for _, tt := range registerGolden {
		f.Add(tt.value)
	}
	for _, tt := range decodeDevicesRefused {
		f.Add(tt.value)
	}
	full, err := EncodeDevices([]Device{mi300x(1)})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		full, "", "null", "[]", "Deleted_2026-05-01 10:00:00",
		`[{"id":"A","custominfo":{"numXCC":"8","xgmiPeers":[1],"partitionProfiles":[{"Type":"SPX"},[]]}}]`,
		`[{"id":"A","x":{"y":[1.5e-3,-0,true,false,null,"\u00e9\ud83d\ude00"]}}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(checkAgainstJSON)
}

func FuzzEncodeDevices(f *testing.F) {
	f.Add("A", "AMD Instinct MI300X", "cpx", "0000:83:00.0", "spx_nps1", "lanes", "16", int64(8), int32(196288), true)
	f.Add("A\xff", "AMD <&>\u2028", "", "", "", "numXCC", `"8"`, int64(-1), int32(-1), false)
	f.Fuzz(func(t *testing.T, id, typ, mode, bdf, profile, name, value string, number int64, small int32, flag bool) {
		want := []Device{{
			ID: id, Index: uint(uint32(small)), Count: small, Devmem: small, Devcore: small, Type: typ, Numa: int(small), Mode: mode, Health: flag,
			CustomInfo: CustomInfo{
				PCIBDF: bdf, NumXCC: int(number), CUsPerWGP: int(small), ComputeQueues: int(number), PartitionProfile: profile,
				XGMIPeers: []string{bdf, profile}, Unknown: []Member{{name, value}},
				PartitionProfiles: []PartitionProfile{{int(number), typ, mode, int(small), int(number), []Member{{name, value}}}},
			},
			Unknown: []Member{{name, value}},
		}}
		s, err := EncodeDevices(want)
		if err != nil {
			if s != "" {
				t.Fatalf("both %q and the error %v", s, err)
			}
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("EncodeDevices wrote %q", s)
		}
		got, err := DecodeDevices(s)
		if err != nil {
			t.Fatalf("DecodeDevices(%q): %v", s, err)
		}
		if again, err := EncodeDevices(got); again != s || err != nil {
			// A kept member may turn out to be a known one, or have spaces around it.
			if strings.TrimSpace(value) == value && !new(CustomInfo).knows(name) {
				t.Fatalf("%q was written as %q, %v", s, again, err)
			}
		}
		if got[0].ID != id || got[0].Type != typ || got[0].Devmem != small || got[0].Health != flag || got[0].CustomInfo.PCIBDF != bdf {
			t.Fatalf("%q was read as %+v", s, got[0])
		}
		checkAgainstJSON(t, s)
	})
}

// knows reports whether a custominfo member has a field of its own.
func (c *CustomInfo) knows(name string) bool {
	return slices.Contains([]string{"computeQueues", "cuPerWGP", "numXCC", "partitionProfile", "partitionProfiles", "pciBDF", "xgmiPeers"}, name)
}

func FuzzDecodeCUs(f *testing.F) {
	for _, tt := range cuMapsRefused {
		f.Add(tt.value)
	}
	for _, seed := range []string{`{}`, `{"A":"0-75"}`, `{"A":"0-3,8,10-12","B":"4,1"}`, ` { "A" : "1023" } `, `{"A":"0-3,3-5"}`, `{"\u0041":"0"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cus, err := DecodeCUs(s)
		if err != nil {
			if cus != nil {
				t.Fatalf("DecodeCUs(%q) = both %v and the error %v", s, cus, err)
			}
			return
		}
		var oracle map[string]string
		if err := json.Unmarshal([]byte(s), &oracle); err != nil {
			t.Fatalf("DecodeCUs accepts %q, encoding/json does not: %v", s, err)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(oracle)), slices.Sorted(maps.Keys(cus))); diff != "" {
			t.Fatalf("%q: devices (-encoding/json +got):\n%s", s, diff)
		}
		for device, set := range cus {
			if want, err := cumask.ParseSet(oracle[device]); err != nil || want != set || set.Empty() {
				t.Fatalf("%q: device %q holds %v, want %v, %v", s, device, set, want, err)
			}
		}
		again, err := EncodeCUs(cus)
		if err != nil {
			t.Fatalf("EncodeCUs of what DecodeCUs(%q) gave: %v", s, err)
		}
		back, err := DecodeCUs(again)
		if diff := cmp.Diff(cus, back, sets); diff != "" || err != nil {
			t.Fatalf("%q (-first +second): %v\n%s", s, err, diff)
		}
	})
}

func FuzzDecodeContainerCUs(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"train":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}`, `{"t":{"ids":["x"]}}`, `{"t":{"ids":["x","x"]}}`,
		`{"t":{"ids":["x"],"cus":{"A":"7-4"}}}`, `{"t":{"ids":["x"],"later":[1]}}`, `{"t":null}`, `null`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		containers, err := DecodeContainerCUs(s)
		if err != nil {
			if containers != nil {
				t.Fatalf("both %v and the error %v", containers, err)
			}
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("accepts %q, which is no JSON", s)
		}
		again, err := EncodeContainerCUs(containers)
		if err != nil {
			t.Fatalf("EncodeContainerCUs of what DecodeContainerCUs(%q) gave: %v", s, err)
		}
		back, err := DecodeContainerCUs(again)
		if diff := cmp.Diff(containers, back, sets); diff != "" || err != nil {
			t.Fatalf("%q (-first +second): %v\n%s", s, err, diff)
		}
	})
}

func FuzzParseNodeLock(f *testing.F) {
	for _, seed := range []string{
		"2026-08-21T08:20:39+02:00,default,train-0", "2026-08-21T06:20:39Z", "2026-08-21T06:20:39.5Z,a,b", ",,", "", "2026-08-21T06:20:39Z,a",
		"2026-08-21T06:20:39Z,a,b,c", "9999-12-31T23:59:59-23:59,a,b", "0000-01-01T00:00:00+23:59",
	} {
		f.Add(seed)
	}
	now := time.Date(2026, 8, 21, 6, 25, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		lock, err := ParseNodeLock(s)
		if err != nil {
			if lock != (NodeLock{}) {
				t.Fatalf("both %+v and the error %v", lock, err)
			}
			return
		}
		back, err := ParseNodeLock(lock.String())
		if err != nil || !back.Time.Equal(lock.Time.Truncate(time.Second)) || back.Namespace != lock.Namespace || back.Name != lock.Name {
			t.Fatalf("%q is %+v, written as %q and read as %+v, %v", s, lock, lock, back, err)
		}
		decision, err := DecideLock(LockQuery{Locked: true, Value: s, Namespace: "ns", Name: "pod", Now: now, Owner: OwnerUnserved})
		if err != nil || (decision.Verdict == LockTake) != (lock.Legacy() && now.Sub(lock.Time).Abs() > DefaultLockTimeout) {
			t.Fatalf("DecideLock for the lock %q = %+v, %v", s, decision, err)
		}
	})
}

func FuzzSanitizeType(f *testing.F) {
	for _, seed := range []string{"Radeon RX 9060 XT", "AMD Instinct MI300X", "amd foo", "", "\x00,:;\uff21", strings.Repeat("x ", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) { checkType(t, SanitizeType(s)) })
}

func FuzzSteering(f *testing.F) {
	for _, seed := range []string{"slot=1,core=1,memory=3", "numa,binpack", "A,B", "1787300439", "success", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if w, err := ParseWeights(s); (err == nil) == (w == ScoringWeights{}) || min(w.Slot, w.Core, w.Memory) < 0 {
			t.Fatalf("ParseWeights(%q) = %+v, %v", s, w, err)
		}
		if at, err := ParseTime(s); err == nil && FormatTime(at) != s {
			t.Fatalf("ParseTime(%q) = %v", s, at)
		}
		if p, err := ParseBindPhase(s); (err == nil) != (string(p) == s && s != "") {
			t.Fatalf("ParseBindPhase(%q) = %q, %v", s, p, err)
		}
		for word := range Policies(s) {
			if word == "" || strings.Contains(word, ",") {
				t.Fatalf("Policies(%q) yields %q", s, word)
			}
		}
		cordon, err := ParseCordon(s)
		if (err == nil) != (cordon != nil) || cordon.Has("") {
			t.Fatalf("ParseCordon(%q) = %v, %v", s, cordon, err)
		}
	})
}
