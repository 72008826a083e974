package annotations

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// hamiDevice has the members and tags of HAMi's device.DeviceInfo that concern
// AMD: encoding/json with this type is how HAMi reads and writes NodeRegisterKey.
type hamiDevice struct {
	ID         string         `json:"id,omitempty"`
	Index      uint           `json:"index,omitempty"`
	Count      int32          `json:"count,omitempty"`
	Devmem     int32          `json:"devmem,omitempty"`
	Devcore    int32          `json:"devcore,omitempty"`
	Type       string         `json:"type,omitempty"`
	Numa       int            `json:"numa,omitempty"`
	Mode       string         `json:"mode,omitempty"`
	Health     bool           `json:"health,omitempty"`
	CustomInfo map[string]any `json:"custominfo,omitempty"`
}

func hamiDecode(s string) ([]hamiDevice, error) {
	var devices []*hamiDevice
	if err := json.Unmarshal([]byte(s), &devices); err != nil {
		return nil, err
	}
	var out []hamiDevice
	for _, d := range devices {
		if d == nil {
			return nil, fmt.Errorf("null device")
		}
		out = append(out, *d)
	}
	return out, nil
}

// A jsonValue keeps what encoding/json throws away: repeated members and the
// text of numbers.
type jsonValue struct {
	token   any // string, json.Number, bool, nil or json.Delim
	names   []string
	members []jsonValue // of an object, as names; or the elements of an array
}

func readValue(d *json.Decoder) (jsonValue, error) {
	token, err := d.Token()
	if err != nil {
		return jsonValue{}, err
	}
	v := jsonValue{token: token}
	if token != json.Delim('{') && token != json.Delim('[') {
		return v, nil
	}
	for d.More() {
		if token == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return v, err
			}
			v.names = append(v.names, name.(string))
		}
		m, err := readValue(d)
		if err != nil {
			return v, err
		}
		v.members = append(v.members, m)
	}
	_, err = d.Token()
	return v, err
}

func readWhole(s string) (jsonValue, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	v, err := readValue(d)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return v, nil
		}
		err = fmt.Errorf("more after the value")
	}
	return v, err
}

// walk visits a value and all below it, with their depth from 0.
func (v jsonValue) walk(depth int, visit func(v jsonValue, depth int)) {
	visit(v, depth)
	for _, m := range v.members {
		m.walk(depth+1, visit)
	}
}

// refusal is the list of what DecodeDevices refuses although encoding/json takes
// it, written a second time and without regard to speed: the reason, or "".
func refusal(s string) string {
	if len(s) > MaxBytes {
		return "too long"
	}
	if !utf8.ValidString(s) {
		return "not UTF-8"
	}
	root, err := readWhole(s)
	if err != nil {
		return ""
	}
	reason := ""
	root.walk(0, func(v jsonValue, depth int) {
		if depth > maxDepth {
			reason = "deep" // how deep exactly: see TestDecodeDevicesBounds
		}
		if len(v.names) > maxMembers || len(v.members) > maxMembers {
			reason = "many"
		}
		for i, name := range v.names {
			if slices.Contains(v.names[:i], name) {
				reason = "repeated member"
			}
			if strings.ContainsRune(name, utf8.RuneError) {
				reason = "surrogate"
			}
		}
		if text, ok := v.token.(string); ok && strings.ContainsRune(text, utf8.RuneError) {
			reason = "surrogate" // or the real character: not told apart here
		}
		if number, ok := v.token.(json.Number); ok {
			if _, err := strconv.ParseFloat(string(number), 64); err != nil {
				reason = "number beyond float64"
			}
		}
	})
	if reason != "" {
		return reason
	}
	ids := map[string]bool{}
	for _, device := range root.members {
		if device.token != json.Delim('{') {
			return "no object"
		}
		fields := map[string]jsonValue{}
		for i, name := range device.names {
			fields[name] = device.members[i]
			if deviceField(name) != "" && deviceField(name) != name {
				return "other case"
			}
		}
		if reason := refusedFields(fields); reason != "" {
			return reason
		}
		id, _ := fields["id"].token.(string)
		if id == "" || ids[id] || strings.ContainsAny(id, ",:;") {
			return "id"
		}
		ids[id] = true
		if typ, _ := fields["type"].token.(string); strings.ContainsAny(typ, ",:;") {
			return "type"
		}
	}
	return ""
}

func refusedFields(fields map[string]jsonValue) string {
	for _, name := range []string{"id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "health"} {
		v, there := fields[name]
		if there && v.token == nil {
			return "null"
		}
		if number, ok := v.token.(json.Number); ok && !whole(number) && (name != "numa" || number != "-1") {
			return "number"
		}
	}
	info := fields["custominfo"]
	for i, name := range info.names {
		v := info.members[i]
		switch name {
		case "cuPerWGP", "numXCC", "computeQueues":
			if number, ok := v.token.(json.Number); ok && !whole(number) {
				return "number"
			}
		case "partitionProfiles":
			if v.token == json.Delim('[') && badProfile(v) {
				return "number"
			}
		}
	}
	return ""
}

// badProfile reports whether a bad number comes before anything that makes the
// list one of another shape.
func badProfile(list jsonValue) bool {
	for _, profile := range list.members {
		if profile.token != json.Delim('{') {
			return false
		}
		for i, name := range profile.names {
			token := profile.members[i].token
			_, text := token.(string)
			number, num := token.(json.Number)
			switch name {
			case "ProfileIndex", "NumPartitions", "XCCPerPartition":
				if !num {
					return false
				}
				if !whole(number) {
					return true
				}
			case "Type", "MemoryCaps":
				if !text {
					return false
				}
			}
		}
	}
	return false
}

// whole reports whether a number is 0 to the largest int32, written plainly.
func whole(n json.Number) bool {
	v, err := strconv.ParseInt(string(n), 10, 32)
	return err == nil && v >= 0 && strconv.FormatInt(v, 10) == string(n)
}

// checkAgainstJSON compares DecodeDevices with encoding/json for one value.
func checkAgainstJSON(t *testing.T, s string) {
	t.Helper()
	got, err := DecodeDevices(s)
	if err != nil && got != nil {
		t.Fatalf("DecodeDevices(%q) = both a value and the error %v", s, err)
	}
	if s == "" || strings.HasPrefix(s, deletedPrefix) {
		if err != nil || got != nil {
			t.Fatalf("DecodeDevices(%q) = %v, %v, want no devices", s, got, err)
		}
		return
	}
	want, wantErr := hamiDecode(s)
	reason := refusal(s)
	if reason == "deep" || reason == "surrogate" {
		if err == nil && wantErr != nil {
			t.Fatalf("DecodeDevices(%q) accepts what encoding/json refuses: %v", s, wantErr)
		}
		return
	}
	if accept := wantErr == nil && reason == ""; accept != (err == nil) {
		t.Fatalf("DecodeDevices(%q) = error %v, want accepted: %v (encoding/json: %v, refused on purpose: %q)", s, err, accept, wantErr, reason)
	}
	if err != nil {
		return
	}
	// HAMi sees the same in our own writing of it.
	again, err := EncodeDevices(got)
	if err != nil {
		t.Fatalf("EncodeDevices of what DecodeDevices(%q) gave: %v", s, err)
	}
	rewritten, err := hamiDecode(again)
	if err != nil {
		t.Fatalf("encoding/json refuses %q: %v", again, err)
	}
	if diff := cmp.Diff(normal(want), normal(rewritten)); diff != "" {
		t.Fatalf("%q became %q for HAMi (-before +after):\n%s", s, again, diff)
	}
	back, err := DecodeDevices(again)
	if err != nil {
		t.Fatalf("DecodeDevices(%q): %v", again, err)
	}
	if diff := cmp.Diff(got, back, zeroIsAbsent); diff != "" {
		t.Fatalf("%q decoded, encoded and decoded (-first +second):\n%s", s, diff)
	}
	if third, err := EncodeDevices(back); err != nil || third != again {
		t.Fatalf("encoded twice: %q, then %q, %v", again, third, err)
	}
	compareFields(t, got, want)
}

func compareFields(t *testing.T, got []Device, want []hamiDevice) {
	t.Helper()
	var fields []hamiDevice
	for i, d := range got {
		fields = append(fields, hamiDevice{ID: d.ID, Index: d.Index, Count: d.Count, Devmem: d.Devmem, Devcore: d.Devcore,
			Type: d.Type, Numa: d.Numa, Mode: d.Mode, Health: d.Health, CustomInfo: want[i].CustomInfo})
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Fatalf("fields differ from encoding/json (-want +got):\n%s", diff)
	}
}

// zeroIsAbsent compares devices by what EncodeDevices writes of them.
var zeroIsAbsent = cmp.Comparer(func(a, b Device) bool {
	x, errX := a.append(nil)
	y, errY := b.append(nil)
	return errX == nil && errY == nil && bytes.Equal(x, y)
})

// normal takes out what may differ after a rewrite: members that are zero, and
// members of a partition profile that were missing.
func normal(devices []hamiDevice) []hamiDevice {
	for i := range devices {
		info := devices[i].CustomInfo
		for name, value := range info {
			switch name {
			case "pciBDF", "partitionProfile", "cuPerWGP", "numXCC", "computeQueues":
				if value == "" || value == 0.0 {
					delete(info, name)
				}
			case "partitionProfiles":
				list, _ := value.([]any)
				for _, p := range list {
					if profile, ok := p.(map[string]any); ok {
						complete(profile)
					}
				}
			}
		}
		if len(info) == 0 {
			devices[i].CustomInfo = nil
		}
	}
	if len(devices) == 0 {
		return nil
	}
	return devices
}

func complete(profile map[string]any) {
	for name, zero := range map[string]any{"ProfileIndex": 0.0, "Type": "", "MemoryCaps": "", "NumPartitions": 0.0, "XCCPerPartition": 0.0} {
		if _, there := profile[name]; !there {
			profile[name] = zero
		}
	}
}
