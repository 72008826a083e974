package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// sameRecords compares what is written of records.
var sameRecords = cmp.Options{
	cmp.Comparer(func(a, b cumask.Set) bool { return a == b }),
	cmp.Transformer("fields", func(r *record) []any {
		if r == nil {
			return nil
		}
		return []any{r.namespace, r.name, r.grants, r.cus, r.containers}
	}),
}

func testRecords() map[types.UID]*record {
	return map[types.UID]*record{
		"u1": {
			namespace: "ns", name: "train", grants: "A,AMD X,1024,76:;;",
			cus: map[string]cumask.Set{"A": cumask.Range(0, 75)},
			containers: map[string]annotations.ContainerCUs{
				"main": {IDs: []string{"0000:05:00.0#3"}, CUs: map[string]cumask.Set{"A": cumask.Range(0, 75)}},
			},
		},
		"u2": {namespace: "ns", name: "memory-only", grants: "A,AMD X,1024,0:;", cus: map[string]cumask.Set{}},
	}
}

const testState = `{"version":1,"pods":{` +
	`"u1":{"namespace":"ns","name":"train","grants":"A,AMD X,1024,76:;;","cus":{"A":"0-75"},` +
	`"containers":{"main":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}},` +
	`"u2":{"namespace":"ns","name":"memory-only","grants":"A,AMD X,1024,0:;","cus":{}}}}`

func TestStateText(t *testing.T) {
	got, err := encodeState(testRecords())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testState, string(got)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	back, err := decodeState(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testRecords(), back, sameRecords); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestStateRefused(t *testing.T) {
	pod := `{"namespace":"ns","name":"p","grants":"A,AMD X,1,8:;","cus":{"A":"0-7"}}`
	if _, err := decodeState([]byte(`{"version":1,"pods":{"u":` + pod + `}}`)); err != nil {
		t.Fatalf("the pod that the others vary: %v", err)
	}
	for name, content := range map[string]string{
		"empty":            "",
		"cut short":        testState[:len(testState)/2],
		"a list":           `[]`,
		"pods a list":      `{"version":1,"pods":[]}`,
		"no pods":          `{"version":1}`,
		"another version":  `{"version":2,"pods":{}}`,
		"no version":       `{"pods":{}}`,
		"unknown member":   `{"version":1,"pods":{},"more":1}`,
		"something after":  `{"version":1,"pods":{}} {}`,
		"pod twice":        `{"version":1,"pods":{"u":` + pod + `,"u":` + pod + `}}`,
		"pod without uid":  `{"version":1,"pods":{"":` + pod + `}}`,
		"pod with more":    `{"version":1,"pods":{"u":` + strings.Replace(pod, "{", `{"x":1,`, 1) + `}}`,
		"no name":          `{"version":1,"pods":{"u":` + strings.Replace(pod, `"p"`, `""`, 1) + `}}`,
		"bad grants":       `{"version":1,"pods":{"u":` + strings.Replace(pod, "AMD X,1", "AMD X,x", 1) + `}}`,
		"bad CUs":          `{"version":1,"pods":{"u":` + strings.Replace(pod, "0-7", "7-0", 1) + `}}`,
		"device twice":     `{"version":1,"pods":{"u":` + strings.Replace(pod, `{"A":"0-7"}`, `{"A":"0-7","A":"8"}`, 1) + `}}`,
		"no CUs":           `{"version":1,"pods":{"u":` + strings.Replace(pod, `,"cus":{"A":"0-7"}`, ``, 1) + `}}`,
		"bad container":    `{"version":1,"pods":{"u":` + strings.Replace(pod, `"cus":`, `"containers":{"c":{}},"cus":`, 1) + `}}`,
		"null instead pod": `{"version":1,"pods":{"u":null}}`,
	} {
		if got, err := decodeState([]byte(content)); err == nil {
			t.Errorf("%s: %v, want an error", name, got)
		}
	}
}

func TestBrokenStateIsSetAside(t *testing.T) {
	for name, content := range map[string]string{
		"garbage": "garbage", "empty": "", "too long": strings.Repeat(" ", stateMaxBytes+1),
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "vgpu", stateName)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		l, broken, err := openLedger(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if broken == nil || !strings.Contains(broken.Error(), stateBrokenName) {
			t.Errorf("%s: reported %v, want a word about %s", name, broken, stateBrokenName)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, "vgpu", stateBrokenName)); err != nil || string(kept) != content {
			t.Errorf("%s: set aside are %d bytes, %v, want all %d", name, len(kept), err, len(content))
		}
		if err := l.put("u", testRecords()["u1"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		l.close()
		l, broken, err = openLedger(dir)
		if err != nil || broken != nil || l.get("u") == nil {
			t.Errorf("%s: afterwards %v, %v, %v", name, l.get("u"), broken, err)
		}
		l.close()
	}
}

// What stands in the place of the plugin's files is neither waited for nor
// written to.
func TestStateIsInRegularFiles(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a link":      func(path string) error { return os.Symlink("libamvgpu.so", path) },
		"a link out":  func(path string) error { return os.Symlink("/dev/null", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, file := range []string{stateName, stateNextName} {
			if name == "a directory" && file == stateNextName {
				continue // stays, and is a disk that cannot be written
			}
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				library := filepath.Join(dir, "vgpu", "libamvgpu.so")
				if err := os.Mkdir(filepath.Dir(library), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(library, []byte("hook"), 0o644); err != nil {
					t.Fatal(err)
				}
				if err := place(filepath.Join(dir, "vgpu", file)); err != nil {
					t.Fatal(err)
				}
				l, broken, err := openLedger(dir)
				if err != nil || (broken != nil) != (file == stateName) {
					t.Fatalf("openLedger: broken %v, error %v", broken, err)
				}
				if err := l.put("u", testRecords()["u1"]); err != nil {
					t.Error(err)
				}
				l.close()
				if l, broken, err = openLedger(dir); err != nil || broken != nil || l.get("u") == nil {
					t.Fatalf("afterwards: broken %v, error %v", broken, err)
				}
				l.close()
				if content, err := os.ReadFile(library); err != nil || string(content) != "hook" {
					t.Errorf("the hook's library is %q, %v", content, err)
				}
			})
		}
	}
}

func TestStateFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"relative": "vgpu", "below a file": file} {
		if l, _, err := openLedger(path); err == nil {
			l.close()
			t.Errorf("%s: no error", name)
		}
	}
	// What was half written when the power went is not read.
	dir := t.TempDir()
	l, _, err := openLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.update(testRecords()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vgpu", stateNextName), []byte(`{"vers`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.close()
	l, broken, err := openLedger(dir)
	if err != nil || broken != nil {
		t.Fatal(broken, err)
	}
	defer l.close()
	if diff := cmp.Diff(testRecords(), l.all(), sameRecords); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(testState))
	f.Add([]byte(`{"version":1,"pods":{}}`))
	f.Add([]byte(`{"version":1,"pods":{"u":{"namespace":"n","name":"p","grants":"","cus":{}}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		pods, err := decodeState(content)
		if err != nil {
			return
		}
		text, err := encodeState(pods)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := decodeState(text)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if diff := cmp.Diff(pods, back, sameRecords); diff != "" {
			t.Fatalf("another meaning (-first +second):\n%s", diff)
		}
	})
}
