package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	nodesFile = "testdata/nodes.yaml"
	podsFile  = "testdata/pods.yaml"
	podFiles  = "../pods/"
)

func fitArgs(pod string, more ...string) []string {
	return append([]string{"fit", "--nodes", nodesFile, "--pods", podsFile, "--pod", pod}, more...)
}

func TestFit(t *testing.T) {
	golden(t, "fit-placed", ok(t, "", fitArgs(podFiles+"04-two-services.yaml")...))
	golden(t, "fit-placed-json", ok(t, "", fitArgs(podFiles+"04-two-services.yaml", "-o", "json")...))
	golden(t, "fit-pending", ok(t, "", fitArgs(podFiles+"12-too-large.yaml")...))
	golden(t, "fit-pending-json", ok(t, "", fitArgs(podFiles+"12-too-large.yaml", "-o", "json")...))
}

func fitAnswer(t *testing.T, stdin string, args ...string) fitted {
	t.Helper()
	var f fitted
	if err := json.Unmarshal([]byte(ok(t, stdin, append(args, "-o", "json")...).stdout), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// The same cluster gives the same answer however it is written down.
func TestFitReadsEveryWayKubectlPrints(t *testing.T) {
	want := fitAnswer(t, "", fitArgs(podFiles+"01-notebook.yaml")...)
	if want.Node != "mi300x-1" {
		t.Fatalf("placed on %q: %+v", want.Node, want)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(read(nodesFile), &list); err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, item := range list.Items {
		document, err := yaml.JSONToYAML(item)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(document))
	}
	jsonNodes, err := yaml.YAMLToJSON(read(nodesFile))
	if err != nil {
		t.Fatal(err)
	}
	both := append(append(read(nodesFile), "---\n"...), read(podsFile)...)

	for name, args := range map[string][]string{
		"several documents": {"--nodes", write("documents.yaml", []byte(strings.Join(documents, "---\n"))), "--pods", podsFile},
		"JSON":              {"--nodes", write("nodes.json", jsonNodes), "--pods", podsFile},
		"nodes and pods in one file": {
			"--nodes", write("both.yaml", both), "--pods", filepath.Join(dir, "both.yaml"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := fitAnswer(t, "", append([]string{"fit", "--pod", podFiles + "01-notebook.yaml"}, args...)...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-list +other):\n%s", diff)
			}
		})
	}
	t.Run("standard input", func(t *testing.T) {
		got := fitAnswer(t, string(read(podFiles+"01-notebook.yaml")), fitArgs("-")...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answer (-file +input):\n%s", diff)
		}
	})
}

func TestFitAnswersWhatCannotRun(t *testing.T) {
	pod := func(limits string) string {
		return "kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: {limits: {" + limits + "}}}]}\n"
	}
	for name, tc := range map[string]struct{ pod, reason string }{
		"more than all cores":   {pod(`amd.com/gpu: 1, amd.com/gpucores: 101`), "admission refuses"},
		"memory beyond int32":   {pod(`amd.com/gpu: 1, amd.com/gpumem: 16Gi`), "admission refuses"},
		"more GPUs than exist":  {pod(`amd.com/gpu: 9`), "NodeInsufficientDevice"},
		"more memory than free": {pod(`amd.com/gpu: 8, amd.com/gpumem: 190000`), "CardInsufficientMemory"},
	} {
		t.Run(name, func(t *testing.T) {
			f := fitAnswer(t, tc.pod, fitArgs("-")...)
			if f.Node != "" || !strings.Contains(f.Reason, tc.reason) || len(f.Annotations) > 0 {
				t.Errorf("answer %+v, want no node and a reason with %q", f, tc.reason)
			}
		})
	}
	f := fitAnswer(t, pod(`cpu: 1`), fitArgs("-")...)
	if f.Asks || f.Node != "" || f.Reason != "" {
		t.Errorf("a pod without GPUs: %+v, want nothing asked", f)
	}
	golden(t, "fit-refused", ok(t, pod(`amd.com/gpu: 1, amd.com/gpucores: 101`), fitArgs("-")...))
	golden(t, "fit-no-gpu", ok(t, pod(`cpu: 1`), fitArgs("-")...))
}

func TestFitOneBrokenNodeStopsNobody(t *testing.T) {
	data, err := os.ReadFile(nodesFile)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(data), "hami.io/node-amd-register: '[{", "hami.io/node-amd-register: '[null,{", 1)
	r := ok(t, broken, "fit", "--nodes", "-", "--pod", podFiles+"01-notebook.yaml", "-o", "json")
	var f fitted
	if err := json.Unmarshal([]byte(r.stdout), &f); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.stderr, `"mi300x-1"`) {
		t.Errorf("standard error %q does not name the node that cannot be read", r.stderr)
	}
	for _, refusal := range f.Refusals {
		if refusal.Node == "radeon-1" && strings.Contains(refusal.Reason, "CardInsufficientMemory") {
			return
		}
	}
	t.Errorf("refusals %+v, want the other node to be judged", f.Refusals)
}

func TestNothingUnprintableReachesTheTerminal(t *testing.T) {
	hostile := "kind: Pod\nmetadata: {name: \"p\\e[31m\\u009b2J\"}\nspec: {containers: [{name: \"c\\a\", image: i, resources: {limits: {amd.com/gpu: 9}}}]}\n"
	for _, args := range [][]string{fitArgs("-"), fitArgs("-", "--nodes", "testdata/absent\x1b[2J.yaml")} {
		r := amdctl(t, hostile, args...)
		for _, c := range r.stdout + r.stderr {
			if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0) {
				t.Errorf("amdctl %q printed %q", args, r.stdout+r.stderr)
				break
			}
		}
	}
}

func TestFitRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		stdin string
		words []string
	}{
		"no such file":       {args: fitArgs("testdata/absent.yaml"), words: []string{"--pod", "absent.yaml"}},
		"broken YAML":        {args: fitArgs("-"), stdin: "kind: [Pod\n", words: []string{"--pod", "YAML"}},
		"no pod in the file": {args: fitArgs(nodesFile), words: []string{"--pod", "want one pod, have 0"}},
		"bound already":      {args: fitArgs("-"), stdin: "kind: Pod\nmetadata: {name: p}\nspec: {nodeName: n1, containers: [{name: c, image: i, resources: {limits: {amd.com/gpu: 1}}}]}\n", words: []string{"default/p", `"n1"`}},
		"no nodes flag":      {args: []string{"fit", "--pod", podFiles + "01-notebook.yaml"}, words: []string{"nodes"}},
		"config of no sense": {args: fitArgs(podFiles+"01-notebook.yaml", "--config", nodesFile), words: []string{"--config", "unknown keys"}},
		"pod of no sense":    {args: fitArgs("-"), stdin: "kind: Pod\nmetadata: {name: p}\nspec: {containers: 7}\n", words: []string{"--pod", `"p"`}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tc.stdin, tc.args, tc.words...) })
	}
}
