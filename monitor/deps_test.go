package monitor

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that collects compiles no device plugin, container runtime or
// memory hook.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list -deps: %v\n%s", err, out)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("go list -deps lists %d packages: %s", len(packages), out)
	}
	const module = "github.com/Project-HAMi/hami-amd/"
	allowed := map[string]bool{"annotations": true, "cumask": true, "dmem": true, "partition": true, "monitor": true}
	for _, p := range packages {
		if rest, ok := strings.CutPrefix(p, module); ok && !allowed[rest] {
			t.Errorf("compiles %s", p)
		}
		for _, heavy := range []string{"google.golang.org/grpc", "github.com/containerd", "k8s.io/kubelet"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("compiles %s", p)
			}
		}
	}
}
