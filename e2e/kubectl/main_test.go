package kubectl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

var (
	lab     *node.Lab
	control *cluster.Cluster
	// binaries is a folder with kubectl and kubectl-amd.
	binaries string
)

// repository is the root module's folder, seen from this one.
const repository = "../.."

func TestMain(m *testing.M) {
	os.Exit(node.Run(func(l *node.Lab) int {
		lab, control = l, l.Cluster
		var err error
		if binaries, err = os.MkdirTemp("", "kubectl-"); err == nil {
			defer os.RemoveAll(binaries)
			err = install(context.Background(), binaries)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
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
