package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/inspect"
)

func verifyArgs(more ...string) []string {
	return append([]string{"verify", "--nodes", nodesFile, "--pods", podsFile}, more...)
}

// found runs verify on a cluster in which it finds errors.
func found(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	r := amdctl(t, stdin, args...)
	if r.code != 1 || !strings.HasSuffix(r.stderr, "found\n") {
		t.Fatalf("amdctl %s: exit code %d: %s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

func TestVerify(t *testing.T) {
	golden(t, "verify", found(t, "", verifyArgs()...))
	golden(t, "verify-json", found(t, "", verifyArgs("-o", "json")...))
	golden(t, "verify-list", ok(t, "", "verify", "--list"))
}

// clean is the cluster without the pod whose annotation was edited.
func clean(t *testing.T) string {
	t.Helper()
	nodes, err := os.ReadFile(nodesFile)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := os.ReadFile(podsFile)
	if err != nil {
		t.Fatal(err)
	}
	whole := `{"c8ff74a1-0000-1000-801e-70b95fd3a426":"0-303"}`
	i := strings.LastIndex(string(pods), whole)
	if i < 0 {
		t.Fatal("no edited annotation")
	}
	edited := string(pods[:i]) + `{"c8ff74a1-0000-1000-801e-70b95fd3a426":"76-105"}` + string(pods[i+len(whole):])
	return string(nodes) + "---\n" + edited
}

func TestVerifyCleanCluster(t *testing.T) {
	cluster := clean(t)
	want := "nothing is wrong: 3 nodes, 9 GPUs, 4 pods\n"
	path := file(t, "cluster.yaml", cluster)
	for name, args := range map[string][]string{
		"one file":            {"--cluster", path},
		"one file as --nodes": {"--nodes", path},
		"one file as both":    {"--nodes", path, "--pods", path},
		"standard input":      {"--cluster", "-"},
		"another time":        {"--cluster", path, "--at", "2026-08-21T12:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := ok(t, cluster, append([]string{"verify"}, args...)...); r.stdout != want || r.stderr != "" {
				t.Errorf("output %q, notes %q, want %q", r.stdout, r.stderr, want)
			}
		})
	}
	r := ok(t, "", "verify", "--nodes", nodesFile)
	if !strings.Contains(r.stderr, "no pods were given") {
		t.Errorf("notes %q do not say that there are no pods", r.stderr)
	}
	var answer verified
	if err := json.Unmarshal([]byte(ok(t, cluster, "verify", "--cluster", "-", "-o", "json").stdout), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Nodes != 3 || answer.GPUs != 9 || answer.Pods != 4 || answer.Errors+answer.Warnings != 0 || answer.Problems == nil {
		t.Errorf("answer %+v", answer)
	}
}

// Warnings alone are no failure.
func TestVerifyWarns(t *testing.T) {
	cluster := strings.Replace(clean(t), "hami.io/node-amd-register:", "hami.io/device-cordon: nobody\n      hami.io/node-amd-register:", 1)
	r := ok(t, cluster, "verify", "--cluster", "-")
	if !strings.HasPrefix(r.stdout, "0 errors, 1 warning: ") || !strings.Contains(r.stdout, string(inspect.CordonUnknownDevice)) {
		t.Errorf("output %s", r.stdout)
	}
}

// The configuration says which resource names count.
func TestVerifyReadsTheConfiguration(t *testing.T) {
	config := file(t, "config.yaml", "resourceCountName: example.com/gpu\n")
	r := found(t, clean(t), "verify", "--cluster", "-", "--config", config, "-o", "json")
	if !strings.Contains(r.stdout, string(inspect.AnnotationsForged)) {
		t.Errorf("output %s", r.stdout)
	}
}

func TestVerifyRefuses(t *testing.T) {
	broken := file(t, "broken.yaml", "items: [\n")
	empty := file(t, "empty.yaml", "")
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"no cluster":           {nil, []string{"--cluster", "--nodes", "--kubeconfig", "--context"}},
		"pods alone":           {[]string{"--pods", podsFile}, []string{"--nodes"}},
		"a file twice":         {[]string{"--cluster", podsFile, "--pods", podsFile}, []string{"--cluster", "both"}},
		"one input twice":      {[]string{"--nodes", "-", "--pods", "-"}, []string{"standard input", "--cluster"}},
		"files and a context":  {[]string{"--nodes", nodesFile, "--context", "c"}, []string{"files", "live"}},
		"broken YAML":          {[]string{"--cluster", broken}, []string{"--cluster", "broken.yaml", "document 1"}},
		"broken YAML as nodes": {[]string{"--nodes", broken}, []string{"--nodes", "broken.yaml"}},
		"nothing in it":        {[]string{"--cluster", empty}, []string{"--cluster", "empty.yaml", "0 nodes and 0 pods"}},
		"no nodes":             {[]string{"--nodes", podsFile}, []string{"--nodes", podsFile, "0 nodes and 4 pods"}},
		"no such file":         {[]string{"--cluster", "none.yaml"}, []string{"none.yaml"}},
		"no time":              {[]string{"--cluster", podsFile, "--at", "noon"}, []string{"--at", "noon", "2026"}},
		"a negative timeout":   {[]string{"--cluster", podsFile, "--lock-timeout", "-1s"}, []string{"--lock-timeout", "-1s"}},
		"broken configuration": {[]string{"--cluster", podsFile, "--config", broken}, []string{"--config"}},
		"an argument":          {[]string{"team/pod"}, []string{"team/pod"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", append([]string{"verify"}, tc.args...), tc.words...) })
	}
}
