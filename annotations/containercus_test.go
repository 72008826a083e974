package annotations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/google/go-cmp/cmp"
)

func TestContainerCUsGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		value      string
		containers map[string]ContainerCUs
	}{
		"no containers": {`{}`, map[string]ContainerCUs{}},
		"one slice": {
			`{"train":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}`,
			map[string]ContainerCUs{"train": {IDs: []string{"0000:05:00.0#3"}, CUs: map[string]cumask.Set{"A": cumask.Range(0, 75)}}},
		},
		"memory alone": {
			`{"train":{"ids":["0000:05:00.0#3"],"cus":{}}}`,
			map[string]ContainerCUs{"train": {IDs: []string{"0000:05:00.0#3"}, CUs: map[string]cumask.Set{}}},
		},
		"two containers, three devices": {
			`{"eval":{"ids":["0000:05:00.0#9"],"cus":{"A":"76-113"}},"train":{"ids":["0000:15:00.0#0","0000:05:00.0#3"],"cus":{"A":"0-75","B":"0-303"}}}`,
			map[string]ContainerCUs{
				"train": {IDs: []string{"0000:15:00.0#0", "0000:05:00.0#3"}, CUs: map[string]cumask.Set{"A": cumask.Range(0, 75), "B": cumask.Range(0, 303)}},
				"eval":  {IDs: []string{"0000:05:00.0#9"}, CUs: map[string]cumask.Set{"A": cumask.Range(76, 113)}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := EncodeContainerCUs(tt.containers)
			if value != tt.value || err != nil {
				t.Errorf("EncodeContainerCUs = %s, %v, want %s", value, err, tt.value)
			}
			got, err := DecodeContainerCUs(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.containers, got, sets); diff != "" {
				t.Errorf("DecodeContainerCUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeContainerCUsOfANewerVersion(t *testing.T) {
	want := map[string]ContainerCUs{"train": {IDs: []string{"x#0"}, CUs: map[string]cumask.Set{}}}
	for name, value := range map[string]string{
		"members it does not know": `{"train":{"since":1,"ids":["x#0"],"vram":{"A":1024},"cus":{}}}`,
		"without cus":              `{"train":{"ids":["x#0"]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeContainerCUs(value)
			if diff := cmp.Diff(want, got, sets); diff != "" || err != nil {
				t.Errorf("error %v, containers (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDecodeContainerCUsRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ value, want string }{
		"nothing":               {"", "want an object, found the end"},
		"null":                  {"null", "want an object"},
		"a list":                {"[]", "want an object"},
		"a null container":      {`{"train":null}`, `container "train"`},
		"a container twice":     {`{"t":{"ids":["x"]},"t":{"ids":["y"]}}`, `member "t" is there twice`},
		"an unnamed container":  {`{"":{"ids":["x"]}}`, `container "": container name is empty`},
		"no ids":                {`{"t":{"cus":{"A":"0"}}}`, `container "t": ids: want at least one`},
		"empty ids":             {`{"t":{"ids":[],"cus":{}}}`, "ids: want at least one"},
		"null ids":              {`{"t":{"ids":null}}`, "want a list"},
		"an empty id":           {`{"t":{"ids":["x",""]}}`, "ids: element 1 is empty"},
		"an id twice":           {`{"t":{"ids":["x","y","x"]}}`, `ids: "x" is there twice`},
		"a number id":           {`{"t":{"ids":[1]}}`, "ids: element 0: want a string"},
		"ids twice":             {`{"t":{"ids":["x"],"ids":["y"]}}`, `member "ids" is there twice`},
		"null cus":              {`{"t":{"ids":["x"],"cus":null}}`, "cus: byte"},
		"a device twice":        {`{"t":{"ids":["x"],"cus":{"A":"0","A":"1"}}}`, `member "A" is there twice`},
		"an empty CU list":      {`{"t":{"ids":["x"],"cus":{"A":""}}}`, `container "t": cus: device "A"`},
		"a bad CU list":         {`{"t":{"ids":["x"],"cus":{"A":"7-4"}}}`, `container "t": cus: device "A": `},
		"an unknown member bad": {`{"t":{"ids":["x"],"later":{"a":1,"a":2}}}`, "twice"},
		"something after it":    {`{}{}`, "want the end"},
		"too many ids":          {`{"t":{"ids":["` + strings.Join(numbers(maxGrants+1), `","`) + `"]}}`, "more than 256 elements"},
		"too long":              {strings.Repeat(" ", MaxBytes) + "{}", "bytes long"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeContainerCUs(tt.value)
			if err == nil || got != nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), CUContainersKey) {
				t.Errorf("DecodeContainerCUs = %v, %v, want an error with the key and %q", got, err, tt.want)
			}
		})
	}
}

func TestEncodeContainerCUsRefuses(t *testing.T) {
	many := map[string]ContainerCUs{}
	for _, n := range numbers(maxMembers + 1) {
		many[n] = ContainerCUs{IDs: []string{"x"}}
	}
	for name, tt := range map[string]struct {
		containers map[string]ContainerCUs
		want       string
	}{
		"no name":             {map[string]ContainerCUs{"": {IDs: []string{"x"}}}, "container name is empty"},
		"a name not UTF-8":    {map[string]ContainerCUs{"\xff": {IDs: []string{"x"}}}, "UTF-8"},
		"no ids":              {map[string]ContainerCUs{"t": {}}, `container "t": ids: want at least one`},
		"an empty id":         {map[string]ContainerCUs{"t": {IDs: []string{""}}}, "ids: element 0 is empty"},
		"an id twice":         {map[string]ContainerCUs{"t": {IDs: []string{"x", "x"}}}, `ids: "x" is there twice`},
		"an id not UTF-8":     {map[string]ContainerCUs{"t": {IDs: []string{"\xff"}}}, "UTF-8"},
		"too many ids":        {map[string]ContainerCUs{"t": {IDs: numbers(maxGrants + 1)}}, "257 kubelet device IDs"},
		"an empty set":        {map[string]ContainerCUs{"t": {IDs: []string{"x"}, CUs: map[string]cumask.Set{"A": {}}}}, `container "t": device "A": no CUs`},
		"too many containers": {many, "257 containers"},
		"too many bytes":      {map[string]ContainerCUs{"t": {IDs: []string{strings.Repeat("x", MaxBytes)}}}, "bytes long"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeContainerCUs(tt.containers)
			if err == nil || got != "" || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), CUContainersKey) {
				t.Errorf("EncodeContainerCUs = %.100q, %v, want an error with the key and %q", got, err, tt.want)
			}
		})
	}
}

func numbers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}
