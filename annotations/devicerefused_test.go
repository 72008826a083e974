package annotations

import (
	"errors"
	"strings"
	"testing"
)

func TestC07NoDevicesIsNotAnError(t *testing.T) {
	for name, value := range map[string]string{
		"empty":                 "",
		"null":                  "null",
		"null with spaces":      " null\n",
		"empty list":            "[]",
		"empty list, spaces":    " [ ] ",
		"taken off by HAMi":     "Deleted_2026-05-01 10:00:00",
		"taken off, no time":    "Deleted_",
		"taken off, other time": "Deleted_2026.05.01 10:00:00",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDevices(value)
			if err != nil || got != nil {
				t.Errorf("DecodeDevices(%q) = %v, %v, want nil and no error", value, got, err)
			}
		})
	}
}

// decodeDevicesRefused are values that are no device list, and a part of the
// message that says where it fails.
var decodeDevicesRefused = map[string]struct{ value, want string }{
	"the older comma format":       {"A,10,196288,304,T,0,true,0,:", "byte 0: want a list"},
	"cut off":                      {`[{"id":"A"`, "found the end"},
	"text for memory":              {`[{"id":"A","devmem":"196288"}]`, `device 0: devmem: want a number, found the string "196288"`},
	"an object":                    {"{}", "want a list"},
	"a bare word":                  {"none", "want a value"},
	"spaces":                       {"  ", "want a list, found the end"},
	"deleted, misspelled":          {"deleted_2026-05-01 10:00:00", "want a list"},
	"a null device":                {"[null]", "device 0: byte 1: want an object"},
	"a number device":              {"[1]", "device 0: byte 1: want an object"},
	"something after it":           {`[{"id":"A"}]x`, `byte 12: want the end, found "x"`},
	"a second list":                {"[][]", "want the end"},
	"a comma after the last":       {`[{"id":"A"},]`, "device 1"},
	"a comma in the object":        {`[{"id":"A",}]`, "want a member name"},
	"no comma":                     {`[{"id":"A"}{"id":"B"}]`, `want "," or "]"`},
	"no colon":                     {`[{"id" "A"}]`, `want ":"`},
	"no id":                        {`[{"count":10,"health":true}]`, "device 0: id is empty"},
	"an empty id":                  {`[{"id":"","health":true}]`, "device 0: id is empty"},
	"an id twice":                  {`[{"id":"A"},{"id":"B"},{"id":"A"}]`, `device 2: id "A" is there twice`},
	"an id twice, escaped":         {`[{"id":"A"},{"id":"\u0041"}]`, `device 1: id "A" is there twice`},
	"a PCI address as id":          {`[{"id":"0000:83:00.0"}]`, `device 0: id "0000:83:00.0" contains one of the separators`},
	"a comma in the id":            {`[{"id":"A,B"}]`, "separators"},
	"a semicolon in the type":      {`[{"id":"A","type":"AMD; X"}]`, `type "AMD; X" contains one of the separators`},
	"a number id":                  {`[{"id":7}]`, `device 0: id: want a string, found "7"`},
	"a null id":                    {`[{"id":null}]`, `id: want a string, found "null"`},
	"null memory":                  {`[{"id":"A","devmem":null}]`, `devmem: want a number, found "null"`},
	"null health":                  {`[{"id":"A","health":null}]`, "health: want true or false"},
	"health as a number":           {`[{"id":"A","health":1}]`, "health: want true or false"},
	"health as text":               {`[{"id":"A","health":"true"}]`, `health: want true or false, found the string "true"`},
	"negative count":               {`[{"id":"A","count":-1}]`, `count: want a whole number from 0 to 2147483647, found "-1"`},
	"minus zero":                   {`[{"id":"A","count":-0}]`, "count: want a whole number"},
	"negative index":               {`[{"id":"A","index":-1}]`, "index: want a whole number"},
	"negative memory":              {`[{"id":"A","devmem":-5}]`, "devmem"},
	"negative cores":               {`[{"id":"A","devcore":-5}]`, "devcore"},
	"NUMA node -2":                 {`[{"id":"A","numa":-2}]`, "numa"},
	"NUMA node -10":                {`[{"id":"A","numa":-10}]`, "numa"},
	"NUMA node -1.0":               {`[{"id":"A","numa":-1.0}]`, "numa"},
	"memory beyond int32":          {`[{"id":"A","devmem":2147483648}]`, `found "2147483648"`},
	"memory that wraps to 0":       {`[{"id":"A","devmem":4294967296}]`, "devmem"},
	"memory that wraps in 64 bits": {`[{"id":"A","devmem":18446744073709551616}]`, "devmem"},
	"index beyond int32":           {`[{"id":"A","index":2147483648}]`, "index"},
	"a fraction":                   {`[{"id":"A","devmem":1.0}]`, "devmem"},
	"an exponent":                  {`[{"id":"A","devmem":1e3}]`, "devmem"},
	"a leading zero":               {`[{"id":"A","devmem":012}]`, "devmem"},
	"a plus sign":                  {`[{"id":"A","devmem":+1}]`, "devmem"},
	"hexadecimal":                  {`[{"id":"A","devmem":0x10}]`, "devmem"},
	"a list for mode":              {`[{"id":"A","mode":["cpx"]}]`, `mode: want a string, found "[\"cpx\"]"`},
	"a member twice":               {`[{"id":"A","devmem":1,"devmem":2}]`, `member "devmem" is there twice`},
	"a member twice, escaped":      {`[{"id":"A","devmem":1,"\u0064evmem":2}]`, `member "devmem" is there twice`},
	"an unknown member twice":      {`[{"id":"A","x":1,"x":1}]`, `member "x" is there twice`},
	"a member twice further down":  {`[{"id":"A","x":[{"y":1,"y":1}]}]`, `x: member "y" is there twice`},
	"a member in capitals":         {`[{"ID":"A"}]`, `device 0: ID: want it spelled "id"`},
	"capitals beside the real one": {`[{"id":"A","DevMem":1}]`, `DevMem: want it spelled "devmem"`},
	"a long s":                     {`[{"id":"A","cu` + "\u017f" + `tominfo":{}}]`, `want it spelled "custominfo"`},
	"custominfo as a list":         {`[{"id":"A","custominfo":[]}]`, "custominfo: byte 24: want an object"},
	"custominfo twice":             {`[{"id":"A","custominfo":{},"custominfo":{}}]`, "twice"},
	"a custominfo member twice":    {`[{"id":"A","custominfo":{"numXCC":8,"numXCC":8}}]`, `custominfo: member "numXCC" is there twice`},
	"half a surrogate pair":        {`[{"id":"\ud83d"}]`, "surrogate"},
	"a reversed surrogate pair":    {`[{"id":"\udca9\ud83d"}]`, "surrogate"},
	"not UTF-8":                    {"[{\"id\":\"A\xff\"}]", "UTF-8"},
	"a control character":          {"[{\"id\":\"A\nB\"}]", "control character"},
	"a strange escape":             {`[{"id":"\x41"}]`, "escape"},
	"an escape cut off":            {`[{"id":"\u004`, "escape"},
	"an escape and the end":        {`[{"id":"\`, "escape"},
	"open text":                    {`[{"id":"A`, "closing quote"},
	"a byte order mark":            {"\ufeff[]", "want a list"},
	"single quotes":                {`[{'id':'A'}]`, "want a member name"},
	"a comment":                    {`[/* none */]`, "want an object"},
	"NaN in an unknown member":     {`[{"id":"A","x":NaN}]`, "x: byte 15: want a value"},
	"no digits":                    {`[{"id":"A","x":-}]`, "want a number"},
	"no digits after the point":    {`[{"id":"A","x":1.}]`, "want a number"},
	"no digits in the exponent":    {`[{"id":"A","x":1e+}]`, "want a number"},
	"a number beyond float64":      {`[{"id":"A","x":1e999}]`, "want a number"},
}

func TestC07NotADeviceList(t *testing.T) {
	for name, tt := range decodeDevicesRefused {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeDevices(tt.value)
			if err == nil || got != nil {
				t.Fatalf("DecodeDevices(%q) = %v, %v, want nil and an error", tt.value, got, err)
			}
			if !errors.Is(err, ErrNotDeviceList) || !strings.Contains(err.Error(), "not a JSON device list") {
				t.Errorf("error %q does not say that it is not a JSON device list", err)
			}
			if !strings.Contains(err.Error(), NodeRegisterKey) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q\n does not contain the key and %q", err, tt.want)
			}
			if strings.ContainsRune(err.Error(), '\n') {
				t.Errorf("error %q has more than one line", err)
			}
			checkAgainstJSON(t, tt.value)
		})
	}
}
