package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

func TestParseNodeSettings(t *testing.T) {
	tests := map[string]struct {
		file string
		want nodeSettings
	}{
		"an empty file":            {file: "", want: nodeSettings{}},
		"no entries":               {file: `{"nodeconfig": []}`},
		"another node's entry":     {file: `{"nodeconfig": [{"name": "node-2", "devicesplitcount": 3}]}`},
		"an entry without setting": {file: `{"nodeconfig": [{"name": "node-1"}]}`},
		"every setting, in JSON": {
			file: `{"nodeconfig": [
				{"name": "node-2", "migstrategy": "none"},
				{"name": "node-1", "operatingmode": "partition", "computepartition": "cpx", "devicesplitcount": 4,
				 "devicememoryscaling": 1.5, "filterdevices": {"uuid": ["08ff75a3-0000-1000-80da-82c12ef81b5d"], "index": [0, 7]}}]}`,
			want: nodeSettings{OperatingMode: ptr("partition"), ComputePartition: ptr("cpx"), SplitCount: ptr(4), MemoryScaling: ptr(1.5),
				ExcludeIDs: []string{"08ff75a3-0000-1000-80da-82c12ef81b5d"}, ExcludeIndexes: []uint{0, 7}},
		},
		"every setting, in YAML and other spelling": {
			file: `
nodeconfig:
- name: node-1
  operatingMode: cu
  computePartition: ""
  splitCount: 2
  memoryScaling: 2
  filterDevices:
    id: [a, b]
`,
			want: nodeSettings{OperatingMode: ptr("cu"), ComputePartition: ptr(""), SplitCount: ptr(2), MemoryScaling: ptr(2.0), ExcludeIDs: []string{"a", "b"}},
		},
		"null is not given": {file: `{"nodeconfig": [{"name": "node-1", "devicesplitcount": null, "filterdevices": null}]}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseNodeSettings([]byte(test.file), "node-1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseNodeSettingsRefuses(t *testing.T) {
	own := func(members string) string { return `{"nodeconfig": [{"name": "node-1", ` + members + `}]}` }
	tests := map[string]struct{ file, want string }{
		"a list":                  {`[]`, `want an object, found "[]"`},
		"broken YAML":             {"nodeconfig: [", `yaml: line 1: did not find expected node content`},
		"an unknown section":      {`{"nodeconfigs": []}`, `unsupported key "nodeconfigs"`},
		"entries as an object":    {`{"nodeconfig": {"node-1": {}}}`, `nodeconfig: want a list, found "{\"node-1\":{}}"`},
		"an entry that is a name": {`{"nodeconfig": ["node-1"]}`, `nodeconfig[0]: want an object, found "\"node-1\""`},
		"a name that is a number": {`{"nodeconfig": [{"name": 1}]}`, `nodeconfig[0]: name: want a string, found "1"`},
		"two entries of the node": {`{"nodeconfig": [{"name": "node-1"}, {"name": "node-2"}, {"name": "node-1"}]}`, `nodeconfig[2]: a second entry of node "node-1"`},
		"a key given twice":       {`{"nodeconfig": [{"name": "node-1", "name": "node-1"}]}`, `yaml: unmarshal errors: line 1: key "name" already set in map`},
		"an unsupported key":      {own(`"migstrategy": "none"`), `settings of node "node-1": unsupported key "migstrategy"`},
		"one setting by two names": {own(`"splitcount": 1, "devicesplitcount": 2`),
			`settings of node "node-1": both "devicesplitcount" and "splitcount" are given`},
		"one key in two cases":      {own(`"splitCount": 1, "splitcount": 1`), `settings of node "node-1": both "splitCount" and "splitcount" are given`},
		"a split count as text":     {own(`"devicesplitcount": "4"`), `settings of node "node-1": devicesplitcount: want a whole number, found "\"4\""`},
		"a fractional split count":  {own(`"devicesplitcount": 1.5`), `settings of node "node-1": devicesplitcount: want a whole number, found "1.5"`},
		"a memory scaling of 0":     {own(`"devicememoryscaling": 0`), `settings of node "node-1": memory scaling 0: want a number above 0`},
		"a negative index":          {own(`"filterdevices": {"index": [-1]}`), `settings of node "node-1": filterdevices: index: want a list of whole numbers from 0, found "[-1]"`},
		"an index without a list":   {own(`"filterdevices": {"index": 1}`), `settings of node "node-1": filterdevices: index: want a list of whole numbers from 0, found "1"`},
		"an unknown way to filter":  {own(`"filterdevices": {"name": []}`), `settings of node "node-1": filterdevices: unsupported key "name"`},
		"filters that are a list":   {own(`"filterdevices": []`), `settings of node "node-1": filterdevices: want an object, found "[]"`},
		"an operating mode as list": {own(`"operatingmode": ["cu"]`), `settings of node "node-1": operatingmode: want a string, found "[\"cu\"]"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseNodeSettings([]byte(test.file), "node-1")
			if err == nil {
				t.Fatalf("accepted: %+v", got)
			}
			if err.Error() != test.want {
				t.Errorf("error\n%v, want\n%s", err, test.want)
			}
		})
	}
}

func TestNodeSettingsOutrankTheFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	file := `{"nodeconfig": [{"name": "node-1", "operatingmode": "partition", "devicesplitcount": 4, "filterdevices": {"uuid": ["b"], "index": [2]}}]}`
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	deps, _ := testLogger(t)
	cfg := Config{NodeName: "node-1", Standalone: true, NodeConfigFile: path, OperatingMode: "cu", SplitCount: 3, MemoryScaling: 2,
		ExcludeIDs: []string{"a"}, ExcludeIndexes: []uint{1}}
	p, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	want := cfg
	want.OperatingMode, want.SplitCount, want.ExcludeIDs, want.ExcludeIndexes = "partition", 4, []string{"a", "b"}, []uint{1, 2}
	if diff := cmp.Diff(want, p.cfg); diff != "" {
		t.Error(diff)
	}
	if len(cfg.ExcludeIDs) != 1 {
		t.Error("the caller's configuration changed")
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := func(path string) Config { return Config{NodeName: "node-1", Standalone: true, NodeConfigFile: path} }
	bad := write("bad", `{"nodeconfig": [{"name": "node-1", "operatingmode": "hami-core"}]}`)
	unknown := write("unknown", `{"nodeconfig": [{"name": "node-1", "migstrategy": "none"}]}`)
	large := write("large", strings.Repeat(" ", maxNodeConfig+1))
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"a bad configuration":     {Config{}, "NodeName is not set: want the Kubernetes name of this node"},
		"no client":               {Config{NodeName: "node-1"}, "no client for the API server: want one, except in standalone mode"},
		"no such file":            {file(filepath.Join(dir, "none")), "node settings: open " + dir + "/none: no such file or directory"},
		"a folder for a file":     {file(dir), "node settings " + dir + ": read " + dir + ": is a directory"},
		"a file that is too long": {file(large), "node settings " + large + ": more than 1048576 bytes"},
		"an unsupported key":      {file(unknown), `node settings ` + unknown + `: settings of node "node-1": unsupported key "migstrategy"`},
		"a mode of another plugin": {file(bad),
			`node settings ` + bad + `: settings of node "node-1": operating mode "hami-core": want "cu" or "partition"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deps, _ := testLogger(t)
			_, err := New(test.cfg, deps)
			if err == nil || err.Error() != test.want {
				t.Errorf("error\n%v, want\n%s", err, test.want)
			}
		})
	}
}

func FuzzParseNodeSettings(f *testing.F) {
	f.Add(`{"nodeconfig": [{"name": "node-1", "operatingmode": "partition", "devicesplitcount": 4, "filterdevices": {"uuid": ["b"], "index": [2]}}]}`)
	f.Add("nodeconfig:\n- name: node-1\n  splitCount: 2\n")
	f.Add(`{"nodeconfig": [{"name": "node-1", "devicememoryscaling": 1e300}]}`)
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, file string) {
		got, err := parseNodeSettings([]byte(file), "node-1")
		if err != nil {
			if diff := cmp.Diff(nodeSettings{}, got); diff != "" {
				t.Errorf("settings came with the error %v:\n%s", err, diff)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		if got.MemoryScaling != nil && !(*got.MemoryScaling > 0) {
			t.Errorf("memory scaling %v", *got.MemoryScaling)
		}
	})
}
