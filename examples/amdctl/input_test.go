package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneGPU is a node with one GPU, whose mode is a word that makes no partition of
// it: HAMi's own default for GPUs of another vendor.
const oneGPU = `{"kind":"Node","metadata":{"name":"n1","annotations":{"hami.io/node-amd-register":"[{\"id\":\"A\",\"count\":10,\"devmem\":1000,\"devcore\":304,\"type\":\"AMD\",\"mode\":\"hami-core\",\"health\":true,\"custominfo\":{\"numXCC\":8}}]"}}}`

// file writes a file for one test.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A pod that is written without its namespace, as users write them, is the one
// that the API server lists in default: it does not stand in its own way.
func TestPodWithoutNamespaceIsItself(t *testing.T) {
	placed := `{"kind":"Pod","metadata":{"name":"p","annotations":{"hami.io/amd-devices-allocated":"A,AMD,1000,304:;","hami.io/amd-cu-allocated":"{\"A\":\"0-303\"}"}},
		"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1}}}]}}`
	wanted := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1}}}]}}`
	node, pods := file(t, "node.json", oneGPU), file(t, "pods.json", placed)
	for name, pod := range map[string]string{
		"without a namespace": wanted,
		"in the default one":  strings.Replace(wanted, `"name":"p"`, `"name":"p","namespace":"default"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			f := fitAnswer(t, pod, "fit", "--nodes", node, "--pods", pods, "--pod", "-")
			if f.Node != "n1" {
				t.Errorf("fit answers %+v, want n1", f)
			}
			ok(t, pod, "allocate", "--node", node, "--pods", pods, "--pod", "-")
		})
	}
	other := strings.Replace(wanted, `"name":"p"`, `"name":"p","namespace":"team"`, 1)
	if f := fitAnswer(t, other, "fit", "--nodes", node, "--pods", pods, "--pod", "-"); f.Node != "" {
		t.Errorf("fit answers %+v for a pod of another namespace, want no node", f)
	}
}

// The pod that can be read is answered for, and the one that cannot is not kept
// quiet about.
func TestWhatIsSkippedBesideThePodIsNamed(t *testing.T) {
	pods := `{"kind":"List","items":[
		{"kind":"Pod","metadata":{"name":"broken"},"spec":{"containers":"none"}},
		{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1}}}]}}]}`
	r := ok(t, pods, "fit", "--nodes", file(t, "node.json", oneGPU), "--pod", "-", "-o", "json")
	if !strings.Contains(r.stderr, `skipped Pod "broken": spec.containers`) {
		t.Errorf("standard error %q does not name the pod that was skipped", r.stderr)
	}
}

// The scheduler shares a device whose mode is no partition type, so the answer
// has a mask and limits.
func TestAllocateKnowsHardDevicesAsTheSchedulerDoes(t *testing.T) {
	pod := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1,"amd.com/gpumem":100,"amd.com/gpucores":25}}}]}}`
	r := ok(t, pod, "allocate", "--node", file(t, "node.json", oneGPU), "--pod", "-", "-o", "json")
	var a allocated
	if err := json.Unmarshal([]byte(r.stdout), &a); err != nil {
		t.Fatal(err)
	}
	if env := a.Containers[0].Env; env["HSA_CU_MASK"] != "0:0-75" || env["HIP_DEVICE_MEMORY_LIMIT_0"] != "100m" {
		t.Errorf("environment %v, want a mask of 76 CUs and a limit of 100 MiB", env)
	}
}

func TestConfigIsBounded(t *testing.T) {
	for name, tc := range map[string]struct{ content, word string }{
		"endless":        {strings.Repeat("# comment\n", 200_000), "at most 1048576 bytes"},
		"full of copies": {"a: &a \"" + strings.Repeat("x", 100_000) + "\"\nb: [" + strings.Repeat("*a,", 1000) + "]\n", "aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, "", fitArgs(podFiles+"01-notebook.yaml", "--config", file(t, "config.yaml", tc.content)), "--config", tc.word)
		})
	}
}

// JSON too goes to a terminal. What encoding/json leaves as it is comes out as
// an escape, and means the same.
func TestJSONIsPrintable(t *testing.T) {
	const id = "a\u009b2J\u202e\U000e0041\u00e9"
	r := ok(t, "", "decode", "hami.io/device-cordon", id)
	for _, c := range r.stdout {
		if c != '\n' && printable(c) != c {
			t.Errorf("printed %q", r.stdout)
			break
		}
	}
	var got []string
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got) != 1 || got[0] != id {
		t.Errorf("%q reads as %q, %v, want %q", r.stdout, got, err, id)
	}
	if !strings.Contains(r.stdout, "\u00e9") {
		t.Errorf("printed %q, want the letter in it as it is", r.stdout)
	}
}

// A flag that cannot be is a mistake whether or not it makes a difference.
func TestAllocateRefusesFlagsItWouldNotUse(t *testing.T) {
	for flag, value := range map[string]string{
		"--mode": "mig", "--naming": "both", "--memory-scaling": "NaN", "--exclude": "gpu0", "--split-count": "-1",
	} {
		refused(t, "", allocateArgs(podFiles+"01-notebook.yaml", flag, value), value)
	}
}

// Device ids and types are what the node's annotation says. A line break in them
// makes no line of its own, and a tab no column.
func TestNamesStayOnTheirLine(t *testing.T) {
	node := strings.ReplaceAll(oneGPU, `\"type\":\"AMD\"`, `\"type\":\"AMD\\npod d/q goes to\\tn2\"`)
	node = strings.ReplaceAll(node, `\"id\":\"A\"`, `\"id\":\"A\\npod d/r is fine\"`)
	pod := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1}}}]}}`
	nodes := file(t, "node.json", node)
	for _, r := range []result{
		ok(t, pod, "fit", "--nodes", nodes, "--pod", "-"),
		ok(t, pod, "allocate", "--node", nodes, "--pod", "-"),
	} {
		if !strings.Contains(r.stdout, "?") {
			t.Errorf("found no trace of the names in\n%s", r.stdout)
		}
		for line := range strings.Lines(r.stdout) {
			if strings.HasPrefix(line, "pod d/q") || strings.HasPrefix(line, "pod d/r") {
				t.Errorf("a device's name made the line %q", line)
			}
		}
	}
}
