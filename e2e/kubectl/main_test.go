package kubectl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
)

var (
	control *cluster.Cluster
	// binaries is a folder with kubectl and kubectl-amd.
	binaries string
)

// repository is the root module's folder, seen from this one.
const repository = "../.."

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if binaries, err = os.MkdirTemp("", "kubectl-"); err == nil {
		defer os.RemoveAll(binaries)
		err = install(context.Background(), binaries)
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

// install puts kubectl and, under the name of its plugin, amdctl into dir.
func install(ctx context.Context, dir string) error {
	cache, err := cluster.DefaultCacheDir()
	if err != nil {
		return err
	}
	kubectl, err := cluster.Kubectl(ctx, cache, os.Stderr)
	if err != nil {
		return err
	}
	if err := os.Symlink(kubectl, filepath.Join(dir, "kubectl")); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "kubectl-amd"), "./examples/amdctl")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build examples/amdctl: %w\n%s", err, out)
	}
	return nil
}
