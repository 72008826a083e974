package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, want string }{
		"register": {
			"hami.io/node-amd-register", `[{"id":"A","count":10,"devmem":196592,"devcore":304,"type":"AMD Instinct MI300X","health":true,"custominfo":{"numXCC":8},"new":{"a":1}}]`,
			`[{"id":"A","count":10,"devmem":196592,"devcore":304,"type":"AMD Instinct MI300X","health":true,"custominfo":{"numXCC":8},"new":{"a":1}}]`,
		},
		"register of no devices": {"hami.io/node-amd-register", "null", `[]`},
		"register taken off":     {"hami.io/node-amd-register", "Deleted_2026-05-01 10:00:00", `[]`},
		"grants": {
			"hami.io/amd-devices-allocated", ";A,AMD Instinct MI300X,16384,76:B,AMD Instinct MI300X,16384,76:;",
			`[[],[{"uuid":"A","type":"AMD Instinct MI300X","memoryMiB":16384,"cus":76},{"uuid":"B","type":"AMD Instinct MI300X","memoryMiB":16384,"cus":76}]]`,
		},
		"served":       {"hami.io/amd-devices-to-allocate", ";;", `[[],[]]`},
		"CUs":          {"hami.io/amd-cu-allocated", `{"B":"4,1","A":"0-3,8,9"}`, `{"A":"0-3,8-9","B":"1,4"}`},
		"no CUs":       {"hami.io/amd-cu-allocated", `{}`, `{}`},
		"containers":   {"hami.io/amd-cu-containers", `{"train":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}`, `{"train":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}`},
		"lock":         {"hami.io/mutex.lock", "2026-08-21T08:20:39+02:00,default,train-0", `{"time":"2026-08-21T08:20:39+02:00","namespace":"default","name":"train-0"}`},
		"legacy lock":  {"hami.io/mutex.lock", "2026-08-21T08:20:39Z", `{"time":"2026-08-21T08:20:39Z"}`},
		"cordon":       {"hami.io/device-cordon", " B,A,,B", `["A","B"]`},
		"no cordon":    {"hami.io/device-cordon", "", `[]`},
		"time":         {"hami.io/vgpu-time", "1787300000", `"2026-08-21T08:13:20Z"`},
		"phase":        {"hami.io/bind-phase", "allocating", `"allocating"`},
		"node":         {"hami.io/vgpu-node", "mi300x-1", `"mi300x-1"`},
		"weights":      {"hami.io/device-scoring-weights", "slot=1,core=1,memory=3", `{"slot":1,"core":1,"memory":3}`},
		"policy":       {"hami.io/gpu-scheduler-policy", "numa, binpack", `["numa","binpack"]`},
		"mode":         {"hami.io/amd-operating-mode", "partition", `"partition"`},
		"partition":    {"hami.io/amd-compute-partition", "qpx", `"qpx"`},
		"NUMA binding": {"amd.com/numa-bind", "true", `true`},
		"masks":        {"HSA_CU_MASK", "0:0-75;2:8,4-5", `[{"device":0,"cus":"0-75","count":76},{"device":2,"cus":"4-5,8","count":3}]`},
		"product list": {"amd.com/use-gputype", "MI300X,MI325X", `["MI300X","MI325X"]`},
	} {
		t.Run(name, func(t *testing.T) {
			for input, r := range map[string]result{
				"argument":       ok(t, "", "decode", tc.key, tc.value),
				"standard input": ok(t, tc.value+"\n", "decode", tc.key, "-", "-o", "json"),
			} {
				var got bytes.Buffer
				if err := json.Compact(&got, []byte(r.stdout)); err != nil {
					t.Fatalf("%s: %v in %q", input, err, r.stdout)
				}
				if diff := cmp.Diff(tc.want, got.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", input, diff)
				}
			}
		})
	}
}

// What the documents call a key of the protocol is one that decode reads.
func TestDecodeReadsEveryKeyOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile("`((?:hami\\.io|amd\\.com)/[a-z.-]+)`").FindAllStringSubmatch(string(text), -1)
	if len(keys) < 20 {
		t.Errorf("%d keys in the document", len(keys))
	}
	known := decoders()
	for _, key := range keys {
		resource := strings.HasPrefix(key[1], "amd.com/gpu") && key[1] != "amd.com/gpu-index" || key[1] == "amd.com/priority"
		if known[key[1]] == nil && !resource && key[1] != "hami.io/webhook" { // a label
			t.Errorf("decode does not read %s", key[1])
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value string
		words      []string
	}{
		"key of another vendor":   {"hami.io/node-nvidia-register", "[]", []string{"hami.io/node-nvidia-register", "hami.io/node-amd-register"}},
		"comma format":            {"hami.io/node-amd-register", "A,10,196288,304,T,0,true,0,:", []string{"not a JSON device list"}},
		"device null":             {"hami.io/node-amd-register", "[null]", []string{"device 0"}},
		"memory is text":          {"hami.io/node-amd-register", `[{"id":"A","devmem":"196288"}]`, []string{"devmem"}},
		"memory with unit":        {"hami.io/amd-devices-allocated", "A,T,16g,76:;", []string{"hami.io/amd-devices-allocated", "memory", "16g"}},
		"short record":            {"hami.io/amd-devices-to-allocate", "A,T:;", []string{"hami.io/amd-devices-to-allocate"}},
		"CU twice":                {"hami.io/amd-cu-allocated", `{"A":"0-3,3-5"}`, []string{`"A"`, "3-5"}},
		"empty list":              {"hami.io/amd-cu-allocated", `{"A":""}`, []string{`"A"`}},
		"device twice":            {"hami.io/amd-cu-allocated", `{"A":"1","A":"2"}`, []string{`"A"`}},
		"container without ids":   {"hami.io/amd-cu-containers", `{"c":{"ids":[],"cus":{}}}`, []string{`"c"`}},
		"lock with two parts":     {"hami.io/mutex.lock", "2026-08-21T08:20:39Z,ns", []string{"hami.io/mutex.lock"}},
		"empty lock":              {"hami.io/mutex.lock", "", []string{"hami.io/mutex.lock"}},
		"phase of no meaning":     {"hami.io/bind-phase", "done", []string{"success", "done"}},
		"time with a fraction":    {"hami.io/bind-time", "1.5", []string{"hami.io/bind-time", "1.5"}},
		"weights without memory":  {"hami.io/device-scoring-weights", "slot=1,core=1", []string{"memory"}},
		"node name of a path":     {"hami.io/vgpu-node", "../etc", []string{"hami.io/vgpu-node"}},
		"partition of no GPU":     {"hami.io/amd-compute-partition", "spq", []string{"spq"}},
		"mode of no meaning":      {"hami.io/amd-operating-mode", "mig", []string{"mig"}},
		"more than an annotation": {"hami.io/amd-cu-allocated", strings.Repeat(" ", 300<<10), []string{"262144"}},
		"list without end":        {"amd.com/use-gputype", strings.Repeat("A,", 200<<10), []string{"262144"}},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, "", []string{"decode", tc.key, tc.value}, tc.words...)
			refused(t, tc.value, []string{"decode", tc.key, "-"}, tc.words...)
		})
	}
}
