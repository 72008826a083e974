package prometheus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// control is the control plane of this package's tests, and monitorBinary the
// monitor built from examples/monitor.
var (
	control       *cluster.Cluster
	monitorBinary string
)

// repository is the root module's folder, seen from this one.
const repository = "../.."

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "monitor-")
	if err == nil {
		defer os.RemoveAll(dir)
		monitorBinary = filepath.Join(dir, "k8s-vgpu-monitor")
		err = buildMonitor(monitorBinary)
	}
	if err == nil {
		control, err = cluster.Start(context.Background(), cluster.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		control.WriteLogs(os.Stderr)
	}
	if err := control.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func buildMonitor(path string) error {
	build := exec.Command("go", "build", "-o", path, "./examples/monitor")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build examples/monitor: %w\n%s", err, out)
	}
	return nil
}

// find is the path of a program of Debian's package prometheus.
func find(t *testing.T, program string) string {
	t.Helper()
	path, err := process.Find(program, "install Debian's prometheus")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
