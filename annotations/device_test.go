package annotations

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/google/go-cmp/cmp"
)

// registerGolden are values of NodeRegisterKey and what they mean. The values are
// what EncodeDevices writes.
var registerGolden = map[string]struct {
	value   string
	devices []Device
}{
	"a shared MI300X": {
		`[{"id":"8eff74b5-0000-1000-801b-b56457addd1b","count":10,"devmem":196288,"devcore":304,"type":"AMD Instinct MI300X","health":true,"custominfo":{"numXCC":8,"pciBDF":"0000:83:00.0"}}]`,
		[]Device{{
			ID: "8eff74b5-0000-1000-801b-b56457addd1b", Count: 10, Devmem: 196288, Devcore: 304,
			Type: "AMD Instinct MI300X", Health: true, CustomInfo: CustomInfo{PCIBDF: "0000:83:00.0", NumXCC: 8},
		}},
	},
	"an unhealthy hard partition on another NUMA node": {
		`[{"id":"A-p3","index":3,"count":1,"devmem":24536,"devcore":38,"type":"AMD Instinct MI300X","numa":1,"mode":"cpx","health":false}]`,
		[]Device{{ID: "A-p3", Index: 3, Count: 1, Devmem: 24536, Devcore: 38, Type: "AMD Instinct MI300X", Numa: 1, Mode: "cpx"}},
	},
	"no NUMA node, as in a virtual machine": {
		`[{"id":"A","count":10,"devmem":16304,"devcore":32,"type":"AMD Radeon RX 9060 XT","numa":-1,"health":true,"custominfo":{"cuPerWGP":2}}]`,
		[]Device{{ID: "A", Count: 10, Devmem: 16304, Devcore: 32, Type: "AMD Radeon RX 9060 XT", Numa: -1, Health: true, CustomInfo: CustomInfo{CUsPerWGP: 2}}},
	},
	"two devices, and members nobody here knows": {
		`[{"id":"A","health":true,"devicevendor":"amd","future":{"a":[1,2.5e3,null]}},{"id":"B","health":true,"custominfo":{"xgmiPeers":[],"lanes":16}}]`,
		[]Device{
			{ID: "A", Health: true, Unknown: []Member{{"devicevendor", `"amd"`}, {"future", `{"a":[1,2.5e3,null]}`}}},
			{ID: "B", Health: true, CustomInfo: CustomInfo{XGMIPeers: []string{}, Unknown: []Member{{"lanes", "16"}}}},
		},
	},
	"text that JSON escapes": {
		`[{"id":"A","type":"AMD \"Radeon\" \u003c™\u003e \\ \n","health":true}]`,
		[]Device{{ID: "A", Type: "AMD \"Radeon\" <™> \\ \n", Health: true}},
	},
}

func TestEncodeDevicesGolden(t *testing.T) {
	for name, tt := range registerGolden {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeDevices(tt.devices)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.value, got); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeDevicesGolden(t *testing.T) {
	for name, tt := range registerGolden {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDevices(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.devices, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			checkAgainstJSON(t, tt.value)
		})
	}
}

// What other writers put in, such as spaces, another order, escapes and zeros
// that EncodeDevices would leave out.
func TestDecodeDevicesOfOtherWriters(t *testing.T) {
	want := []Device{{ID: "A", Type: "AMD X", Health: true, CustomInfo: CustomInfo{PCIBDF: "0000:83:00.0"}}}
	for name, value := range map[string]string{
		"spaces":              " [ { \"id\" : \"A\" ,\r\n\t\"type\":\"AMD X\",\"health\":true,\"custominfo\":{ \"pciBDF\" : \"0000:83:00.0\" } } ] ",
		"another order":       `[{"custominfo":{"pciBDF":"0000:83:00.0"},"health":true,"type":"AMD X","id":"A"}]`,
		"zeros":               `[{"id":"A","index":0,"count":0,"devmem":0,"devcore":0,"type":"AMD X","numa":0,"mode":"","health":true,"custominfo":{"pciBDF":"0000:83:00.0","numXCC":0}}]`,
		"escapes":             `[{"\u0069d":"\u0041","type":"AMD\u0020X","health":true,"custominfo":{"pciBDF":"0000:83:00.0"}}]`,
		"a member not in use": `[{"id":"A","type":"AMD X","health":true,"custominfo":{"pciBDF":"0000:83:00.0","cuPerWGP":0,"partitionProfile":""}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDevices(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
			checkAgainstJSON(t, value)
		})
	}
	t.Run("null custominfo", func(t *testing.T) {
		got, err := DecodeDevices(`[{"id":"A","custominfo":null}]`)
		if diff := cmp.Diff([]Device{{ID: "A"}}, got); diff != "" || err != nil {
			t.Errorf("error %v, devices (-want +got):\n%s", err, diff)
		}
	})
}

func TestDecodeDevicesBounds(t *testing.T) {
	nested := func(n int) string {
		return `[{"id":"A","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}]`
	}
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"m%d":0`, i)
		}
		return `[{"id":"A"` + b.String() + `}]`
	}
	list := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"id":"%d"}`, i)
		}
		return `[` + b.String()[1:] + `]`
	}
	long := func(n int) string {
		const frame = `[{"id":"A","mode":""}]`
		return frame[:len(frame)-3] + strings.Repeat("x", n-len(frame)) + frame[len(frame)-3:]
	}
	for name, tt := range map[string]struct {
		value string
		ok    bool
	}{
		"as deep as allowed":   {nested(maxDepth), true},
		"one deeper":           {nested(maxDepth + 1), false},
		"far too deep":         {`[{"id":"A","x":` + strings.Repeat("[", 100000), false},
		"unknown as allowed":   {members(maxUnknown), true},
		"one unknown more":     {members(maxUnknown + 1), false},
		"devices as allowed":   {list(maxDevices), true},
		"one device more":      {list(maxDevices + 1), false},
		"as long as allowed":   {long(MaxBytes), true},
		"one byte longer":      {long(MaxBytes + 1), false},
		"long and all nothing": {strings.Repeat(" ", MaxBytes+1), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDevices(tt.value)
			if (err == nil) != tt.ok {
				t.Fatalf("error = %v, want accepted: %v", err, tt.ok)
			}
			if err != nil {
				if len(err.Error()) > 500 {
					t.Errorf("the error has %d bytes: %.200s...", len(err.Error()), err)
				}
				return
			}
			s, err := EncodeDevices(got)
			if err != nil && len(tt.value) < MaxBytes {
				t.Fatalf("EncodeDevices: %v", err)
			}
			if err == nil && len(s) > MaxBytes {
				t.Errorf("EncodeDevices wrote %d bytes", len(s))
			}
		})
	}
}

func TestEncodeDevicesRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		devices []Device
		want    string
	}{
		"an empty id":                  {[]Device{{Type: "AMD X"}}, `device 0 (""): id is empty`},
		"an id twice":                  {[]Device{{ID: "A"}, {ID: "B"}, {ID: "A"}}, `device 2 ("A"): id is there twice`},
		"a colon in the id":            {[]Device{{ID: "0000:83:00.0"}}, "separators"},
		"a comma in the type":          {[]Device{{ID: "A", Type: "AMD X, Y"}}, "type"},
		"an id that is not UTF-8":      {[]Device{{ID: "A\xff"}}, `id "A\xff" is not valid UTF-8`},
		"a type that is not UTF-8":     {[]Device{{ID: "A", Type: "\xff"}}, "type"},
		"a mode that is not UTF-8":     {[]Device{{ID: "A", Mode: "\xff"}}, "mode"},
		"a negative count":             {[]Device{{ID: "A", Count: -1}}, "count is -1, want 0 to 2147483647"},
		"negative memory":              {[]Device{{ID: "A", Devmem: -1}}, "devmem"},
		"negative cores":               {[]Device{{ID: "A", Devcore: -1}}, "devcore"},
		"NUMA node -2":                 {[]Device{{ID: "A", Numa: -2}}, "numa is -2, want -1 to 2147483647"},
		"a NUMA node beyond int32":     {[]Device{{ID: "A", Numa: math.MaxInt32 + 1}}, "numa"},
		"an index beyond int32":        {[]Device{{ID: "A", Index: math.MaxInt32 + 1}}, "index"},
		"an index beyond int64":        {[]Device{{ID: "A", Index: math.MaxUint64}}, "index"},
		"a known member as unknown":    {[]Device{{ID: "A", Unknown: []Member{{"devmem", "1"}}}}, `member "devmem" is there twice`},
		"the same in capitals":         {[]Device{{ID: "A", Unknown: []Member{{"Health", "true"}}}}, "twice"},
		"an unknown member twice":      {[]Device{{ID: "A", Unknown: []Member{{"x", "1"}, {"x", "2"}}}}, "twice"},
		"an unknown value cut off":     {[]Device{{ID: "A", Unknown: []Member{{"x", "[1"}}}}, `member "x"`},
		"an unknown value that leaks":  {[]Device{{ID: "A", Unknown: []Member{{"x", `1,"devmem":1`}}}}, `member "x"`},
		"no unknown value":             {[]Device{{ID: "A", Unknown: []Member{{"x", ""}}}}, `member "x"`},
		"a member name not UTF-8":      {[]Device{{ID: "A", Unknown: []Member{{"\xff", "1"}}}}, "UTF-8"},
		"too many unknown members":     {[]Device{{ID: "A", Unknown: make([]Member, maxMembers)}}, "members"},
		"too many devices":             {make([]Device, maxDevices+1), "1025 devices"},
		"more bytes than can be kept":  {[]Device{{ID: "A", Mode: strings.Repeat("x", MaxBytes)}}, "bytes"},
		"a negative number of XCCs":    {[]Device{{ID: "A", CustomInfo: CustomInfo{NumXCC: -1}}}, "custominfo: numXCC is -1"},
		"a number of XCCs beyond 2^31": {[]Device{{ID: "A", CustomInfo: CustomInfo{NumXCC: math.MaxInt32 + 1}}}, "numXCC"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeDevices(tt.devices)
			if err == nil || got != "" {
				t.Fatalf("EncodeDevices = %.200q, %v, want an error alone", got, err)
			}
			if !strings.Contains(err.Error(), NodeRegisterKey) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not contain the key and %q", err, tt.want)
			}
		})
	}
}

// HAMi must understand of our value what we meant, and our bytes are those of its
// own encoder, but for health, which HAMi leaves out when false.
func TestHAMiReadsWhatWeWrite(t *testing.T) {
	devices := cpx64()
	devices[3].Health = false
	devices[5].Numa = -1
	value, err := EncodeDevices(devices)
	if err != nil {
		t.Fatal(err)
	}
	read, err := hamiDecode(value)
	if err != nil {
		t.Fatal(err)
	}
	compareFields(t, devices, read)
	for i, d := range read {
		info := devices[i].CustomInfo
		if d.CustomInfo["pciBDF"] != info.PCIBDF || d.CustomInfo["numXCC"] != float64(info.NumXCC) || len(d.CustomInfo["partitionProfiles"].([]any)) != 4 {
			t.Errorf("device %d: HAMi reads custominfo %v", i, d.CustomInfo)
		}
	}
	for i := range read {
		if !read[i].Health {
			continue
		}
		read[i].CustomInfo = peerCustomInfo(devices[i].CustomInfo)
		theirs, err := json.Marshal(read[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		ours, err := EncodeDevices(devices[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(theirs), ours); diff != "" {
			t.Fatalf("bytes (-HAMi +ours):\n%s", diff)
		}
	}
}

// peerCustomInfo is custominfo as Project-HAMi/amd-device-plugin builds it: a map
// with a list of structs without tags.
func peerCustomInfo(c CustomInfo) map[string]any {
	type profile struct {
		ProfileIndex    int
		Type            string
		MemoryCaps      string
		NumPartitions   int
		XCCPerPartition int
	}
	var profiles []profile
	for _, p := range c.PartitionProfiles {
		profiles = append(profiles, profile{p.ProfileIndex, p.Type, p.MemoryCaps, p.NumPartitions, p.XCCPerPartition})
	}
	return map[string]any{
		"computeQueues": c.ComputeQueues, "numXCC": c.NumXCC, "partitionProfile": c.PartitionProfile,
		"partitionProfiles": profiles, "pciBDF": c.PCIBDF, "xgmiPeers": c.XGMIPeers,
	}
}

// All annotations of a node together may have 256 KiB. Eight GPUs in CPX mode
// with all their custom info have to leave nearly all of that to others.
func TestEncodeDevicesOf64PartitionsIsSmall(t *testing.T) {
	value, err := EncodeDevices(cpx64())
	if err != nil {
		t.Fatal(err)
	}
	if len(value) > MaxBytes/4 {
		t.Errorf("64 partitions take %d bytes, want at most %d", len(value), MaxBytes/4)
	}
}

func TestEncodeDevicesOfNone(t *testing.T) {
	for _, devices := range [][]Device{nil, {}} {
		if got, err := EncodeDevices(devices); got != "[]" || err != nil {
			t.Errorf("EncodeDevices(%#v) = %q, %v, want []", devices, got, err)
		}
	}
}

func TestDeviceGeometry(t *testing.T) {
	for name, tt := range map[string]struct {
		device Device
		want   cumask.Geometry
	}{
		"nothing published": {Device{Devcore: 304}, cumask.Geometry{CUs: 304}},
		"eight XCCs":        {mi300x(0), cumask.Geometry{CUs: 304, XCCs: 8}},
		"pairs of CUs":      {Device{Devcore: 32, CustomInfo: CustomInfo{CUsPerWGP: 2}}, cumask.Geometry{CUs: 32, CUsPerWGP: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.device.Geometry(); got != tt.want {
				t.Errorf("Geometry() = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// json.Marshal and json.Unmarshal go through the same codec.
func TestDeviceJSON(t *testing.T) {
	want := mi300x(2)
	want.Unknown = []Member{{"future", "[1]"}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	value, err := EncodeDevices([]Device{want})
	if err != nil {
		t.Fatal(err)
	}
	if "["+string(data)+"]" != value {
		t.Errorf("json.Marshal writes\n%s\nand EncodeDevices\n%s", data, value)
	}
	var got Device
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("json.Unmarshal (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"id":"B","devmem":-1}`), &got); err == nil || got.ID != want.ID {
		t.Errorf("json.Unmarshal of a negative number = %v, device now %q", err, got.ID)
	}
	if _, err := json.Marshal(Device{}); err == nil {
		t.Error("json.Marshal writes a device without an id")
	}
}
