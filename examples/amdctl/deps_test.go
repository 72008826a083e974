package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The examples work on files: compiling a client for a live cluster would
// triple their size and time to build.
func TestNoClientGo(t *testing.T) {
	for _, main := range []string{".", "../quickstart"} {
		out, err := exec.Command("go", "list", "-deps", main).CombinedOutput()
		if err != nil {
			t.Fatalf("go list -deps %s: %v\n%s", main, err, out)
		}
		packages := strings.Fields(string(out))
		if len(packages) < 100 {
			t.Fatalf("go list -deps %s lists %d packages: %s", main, len(packages), out)
		}
		for _, p := range packages {
			for _, heavy := range []string{"k8s.io/client-go", "google.golang.org/grpc", "github.com/containerd", "github.com/prometheus"} {
				if strings.HasPrefix(p, heavy) {
					t.Errorf("%s compiles %s", main, p)
				}
			}
		}
	}
}
