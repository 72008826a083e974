package hook

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func containers(t *testing.T) (*Containers, string) {
	t.Helper()
	host := t.TempDir()
	c, err := OpenContainers(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, filepath.Join(host, "vgpu", "containers")
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestContainersCreate(t *testing.T) {
	// The processes of a container run as any user: the mode has to hold
	// whatever the umask of the plugin.
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	c, dir := containers(t)
	ok(t, c.Create(testUID, "train"))

	want, err := ContainerDir(filepath.Dir(filepath.Dir(dir)), testUID, "train")
	ok(t, err)
	fi, err := os.Stat(want)
	ok(t, err)
	if fi.Mode() != os.ModeDir|0o777 {
		t.Errorf("mode = %v, want 0777", fi.Mode())
	}
	// The mount that Inject describes has this directory as its source.
	in, err := Inject([]Device{{LimitMiB: 1}}, Options{HostPath: filepath.Dir(filepath.Dir(dir)), PodUID: testUID, Container: "train"})
	ok(t, err)
	if got := in.Mounts[1].HostPath; got != want {
		t.Errorf("mount source %q, want %q", got, want)
	}
	// Once more for a container that runs: what it has stays.
	ok(t, os.WriteFile(filepath.Join(want, CacheFile), []byte("x"), 0o600))
	ok(t, c.Create(testUID, "train"))
	if diff := cmp.Diff([]string{CacheFile}, names(t, want)); diff != "" {
		t.Error(diff)
	}
	// A second handle on the same directories is fine.
	again, err := OpenContainers(filepath.Dir(filepath.Dir(dir)))
	ok(t, err)
	ok(t, again.Close())
}

// An interrupted Create leaves a directory that only its maker may enter.
func TestContainersCreateRepairsTheMode(t *testing.T) {
	c, dir := containers(t)
	name := filepath.Join(dir, testUID+"_train")
	ok(t, os.Mkdir(name, 0o700))
	ok(t, c.Create(testUID, "train"))
	if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != 0o777 {
		t.Errorf("mode = %v, %v", fi.Mode(), err)
	}
}

func TestContainersRefuse(t *testing.T) {
	c, dir := containers(t)
	for _, tt := range []struct{ uid, container string }{
		{"", "train"}, {testUID, ""}, {"..", "x"}, {testUID, "../x"}, {testUID, "a/b"}, {"a_b", "c"}, {testUID, "a_b"},
	} {
		if err := c.Create(tt.uid, tt.container); err == nil {
			t.Errorf("Create(%q, %q): no error", tt.uid, tt.container)
		}
		if err := c.Reset(tt.uid, tt.container); err == nil {
			t.Errorf("Reset(%q, %q): no error", tt.uid, tt.container)
		}
	}
	for _, uid := range []string{"", "..", "a/b", "a_b"} {
		if err := c.Remove(uid); err == nil {
			t.Errorf("Remove(%q): no error", uid)
		}
	}
	if got := names(t, dir); got != nil {
		t.Errorf("left behind: %v", got)
	}
	ok(t, os.WriteFile(filepath.Join(dir, testUID+"_train"), nil, 0o600))
	if err := c.Create(testUID, "train"); err == nil {
		t.Error("a file of the directory's name was accepted")
	}
}

func TestContainersReset(t *testing.T) {
	c, dir := containers(t)
	ok(t, c.Reset(testUID, "train")) // not there
	ok(t, c.Create(testUID, "train"))
	mine := filepath.Join(dir, testUID+"_train")
	outside := filepath.Join(t.TempDir(), "outside")
	ok(t, os.MkdirAll(filepath.Join(outside, "keep"), 0o755))
	ok(t, os.MkdirAll(filepath.Join(mine, "a", "b"), 0o755))
	ok(t, os.WriteFile(filepath.Join(mine, CacheFile), []byte("x"), 0o600))
	ok(t, os.Symlink(outside, filepath.Join(mine, "link")))
	ok(t, syscall.Mkfifo(filepath.Join(mine, "fifo"), 0o600))
	ok(t, c.Reset(testUID, "train"))
	if got := names(t, mine); got != nil {
		t.Errorf("left: %v", got)
	}
	if diff := cmp.Diff([]string{"keep"}, names(t, outside)); diff != "" {
		t.Errorf("reset followed a link: %s", diff)
	}
}

func TestContainersRemove(t *testing.T) {
	c, dir := containers(t)
	for _, n := range []struct{ uid, container string }{{"a", "x"}, {"a", "y"}, {"ab", "x"}, {"b", "x"}} {
		ok(t, c.Create(n.uid, n.container))
	}
	outside := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600))
	ok(t, os.Symlink(outside, filepath.Join(dir, "a_x", "link")))
	ok(t, c.Remove("a"))
	if diff := cmp.Diff([]string{"ab_x", "b_x"}, names(t, dir)); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"keep"}, names(t, outside)); diff != "" {
		t.Errorf("removal followed a link: %s", diff)
	}
	ok(t, c.Remove("a"))
}

func TestContainersSweep(t *testing.T) {
	c, dir := containers(t)
	now := time.Now()
	for _, n := range []struct{ uid, container string }{{"gone", "x"}, {"gone", "y"}, {"live", "x"}, {"new", "x"}} {
		ok(t, c.Create(n.uid, n.container))
		if n.uid != "new" {
			ok(t, os.Chtimes(filepath.Join(dir, n.uid+"_"+n.container), now, now.Add(-time.Hour)))
		}
	}
	// What is not ours stays: other names, a file, a link.
	for _, name := range []string{"other", "a_b_c", "_x", "x_"} {
		ok(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		ok(t, os.Chtimes(filepath.Join(dir, name), now, now.Add(-time.Hour)))
	}
	ok(t, os.Symlink(t.TempDir(), filepath.Join(dir, "gone_link")))

	pods, err := c.Sweep(func(uid string) bool { return uid == "live" }, now.Add(-time.Minute))
	ok(t, err)
	if diff := cmp.Diff([]string{"gone"}, pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"_x", "a_b_c", "gone_link", "live_x", "new_x", "other", "x_"}, names(t, dir)); diff != "" {
		t.Errorf("directories (-want +got):\n%s", diff)
	}
}

func TestOpenContainersRefuses(t *testing.T) {
	if _, err := OpenContainers("relative"); err == nil {
		t.Error("a relative path was accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := OpenContainers(file); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}
