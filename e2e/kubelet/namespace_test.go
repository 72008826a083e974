package kubelet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// helperEnv makes the test binary run in a namespace and look around.
const helperEnv = "KUBELET_TEST_PRIVATE"

func TestMain(m *testing.M) {
	private := os.Getenv(helperEnv)
	if private == "" {
		os.Exit(m.Run())
	}
	os.Exit(InNamespace(func() int {
		for _, dir := range []string{rootDir, private} {
			var st unix.Statfs_t
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) > 0 || unix.Statfs(dir, &st) != nil || st.Type != unix.TMPFS_MAGIC {
				return 1
			}
			if err := os.WriteFile(filepath.Join(dir, "inside"), nil, 0o644); err != nil {
				return 2
			}
		}
		if os.Getenv(namespaceEnv) != "" || !slices.Equal(os.Args[1:], []string{"-an", "argument"}) {
			return 3
		}
		return 42
	}, private))
}

func TestInNamespace(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(t.TempDir(), "made", "for this")
	cmd := exec.Command(self, "-an", "argument")
	cmd.Env = append(os.Environ(), helperEnv+"="+private)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Fatalf("exit code is %v, want 42; output:\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(rootDir, "inside")); err == nil {
		t.Error("a file written in the namespace is seen outside")
	}
	if _, err := os.Stat(filepath.Dir(private)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("mount point after the run: %v, want it removed", err)
	}
}

func TestMakeDirs(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	made, err := makeDirs(deep)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{deep, filepath.Dir(deep)}, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if made, err := makeDirs(deep); err != nil || len(made) > 0 {
		t.Errorf("again made %v, %v", made, err)
	}
	if err := os.WriteFile(filepath.Join(root, "a", "kept"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	removeDirs(made)
	var left []string
	err = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		left = append(left, strings.TrimPrefix(path, root))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "/a", "/a/kept"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
