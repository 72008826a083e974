package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(settings, []byte(`{"nodeconfig": [{"name": "node-1", "migstrategy": "none"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args   []string
		node   string
		code   int
		stdout string // the beginning of what is printed; "" is nothing
		stderr string
		lines  int // of stderr; 0 is any
	}{
		"help":                      {args: []string{"-h"}, code: 0, stdout: "k8s-device-plugin is the HAMi device plugin for AMD GPUs.\n"},
		"an unknown flag":           {args: []string{"-nope"}, node: "node-1", code: 2, stderr: "k8s-device-plugin: bad command line: flag provided but not defined: -nope\n\nk8s-device-plugin is the HAMi"},
		"the version":               {args: []string{"-version"}, code: 0, stdout: "k8s-device-plugin unknown version, go"},
		"a bad value":               {args: []string{"-split_count=-1"}, node: "node-1", code: 1, stderr: "k8s-device-plugin: split count -1: want 0 to 1024\n", lines: 1},
		"no node name":              {code: 1, stderr: "k8s-device-plugin: NODE_NAME is not set: want the Kubernetes name of this node\n", lines: 1},
		"no cluster":                {node: "node-1", code: 1, stderr: "k8s-device-plugin: client for the API server: this is no pod of a cluster: want -kubeconfig, or -standalone to work without an API server: ", lines: 1},
		"no API server":             {args: []string{"-kubeconfig=/nonexistent"}, node: "node-1", code: 1, stderr: "k8s-device-plugin: client for the API server: ", lines: 1},
		"an unsupported node key":   {args: []string{"-standalone", "-node_config_file=" + settings}, node: "node-1", code: 1, stderr: "k8s-device-plugin: node settings " + settings + `: settings of node "node-1": unsupported key "migstrategy"` + "\n", lines: 1},
		"a sysfs that is not there": {args: []string{"-standalone", "-sysfs_root=/nonexistent"}, code: 1, stderr: "k8s-device-plugin: discovering GPUs: ", lines: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			getenv := func(name string) string {
				if name == "NODE_NAME" {
					return test.node
				}
				return ""
			}
			code := run(context.Background(), "k8s-device-plugin", test.args, getenv, &stdout, &stderr)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for what, pair := range map[string][2]string{"stdout": {stdout.String(), test.stdout}, "stderr": {stderr.String(), test.stderr}} {
				if got, want := pair[0], pair[1]; !strings.HasPrefix(got, want) || want == "" && got != "" {
					t.Errorf("%s: %q, want it to begin with %q", what, got, want)
				}
			}
			if first, _, _ := strings.Cut(stderr.String(), "\n"); test.code == 2 && !strings.HasSuffix(stderr.String(), "\n\n"+first+"\n") {
				t.Errorf("the last line is not the first one: %s", stderr.String())
			}
			if n := strings.Count(stderr.String(), "\n"); test.lines > 0 && n != test.lines {
				t.Errorf("%d lines: %s", n, stderr.String())
			}
		})
	}
}
