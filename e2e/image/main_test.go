package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/e2e/process"
	hookimage "github.com/Project-HAMi/hami-amd/hook/image"
)

// daemon is the containerd that all tests of this package share.
var daemon *containerd

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// A short path: that of a socket may have 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "ctrd-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	daemon, err = startContainerd(dir)
	code := 1
	if err == nil {
		if code = m.Run(); code != 0 {
			fmt.Fprintf(os.Stderr, "containerd:\n%s", daemon.process.Tail(40))
		}
		daemon.process.Kill()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// containerd is a running containerd without its CRI plugin.
type containerd struct {
	socket  string
	process *process.Process
}

const namespace = "k8s.io"

func startContainerd(dir string) (*containerd, error) {
	program, err := process.Find("containerd", "install Debian's package containerd")
	if err != nil {
		return nil, err
	}
	if _, err := process.Find("ctr", "install Debian's package containerd"); err != nil {
		return nil, err
	}
	d := &containerd{socket: filepath.Join(dir, "c.sock")}
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), d.socket, d.socket+".ttrpc")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if d.process, err = process.Start(process.Options{
		Name: "containerd", Path: program, Args: []string{"--config", config}, Log: filepath.Join(dir, "log"),
	}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = d.process.WaitReady(ctx, func(ctx context.Context) error {
		_, err := d.ctr(ctx, "version")
		return err
	})
	if err != nil {
		d.process.Kill()
		return nil, err
	}
	return d, nil
}

// ctr runs containerd's own command line client.
func (d *containerd) ctr(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", d.socket, "--namespace", namespace}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// mustCtr is ctr in a test.
func mustCtr(t *testing.T, args ...string) string {
	t.Helper()
	out, err := daemon.ctr(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// store is the daemon's images as the plugin sees them.
func store(t *testing.T, snapshotter string) *hookimage.Containerd {
	t.Helper()
	s, err := hookimage.OpenContainerd(hookimage.ContainerdOptions{Socket: daemon.socket, Namespace: namespace, Snapshotter: snapshotter})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// wantNothingLeft checks that no look has left a view, a lease or a mount. The
// views of ctr may take containerd a moment to collect.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	var left string
	for range 100 {
		if left = whatIsLeft(t); left == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error(left)
}

func whatIsLeft(t *testing.T) string {
	t.Helper()
	for _, snapshotter := range []string{"overlayfs", "native"} {
		if out := mustCtr(t, "snapshots", "--snapshotter", snapshotter, "list"); strings.Contains(out, "View") {
			return "views are left in " + snapshotter + ":\n" + out
		}
	}
	if out := mustCtr(t, "leases", "list", "--quiet"); strings.TrimSpace(out) != "" {
		return "leases are left: " + out
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), "image-view-") {
		return "mounts are left:\n" + string(mounts)
	}
	return ""
}
