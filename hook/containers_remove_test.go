package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fewFiles lets the process have no more than so many files open.
func fewFiles(t *testing.T, most uint64) {
	t.Helper()
	var before syscall.Rlimit
	ok(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	ok(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: before.Max}))
	t.Cleanup(func() { ok(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
}

// trees are what a container may leave behind.
func trees() map[string]func(t *testing.T, dir string) {
	return map[string]func(t *testing.T, dir string){
		"deeper than files may be open": func(t *testing.T, dir string) {
			ok(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 300)), 0o755))
			ok(t, os.WriteFile(filepath.Join(dir, strings.Repeat("d/", 200), "file"), nil, 0o600))
		},
		"more names than are read at once": func(t *testing.T, dir string) {
			for i := range removeBatch + 10 {
				ok(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i), "a", "b"), 0o755))
			}
			for i := range removeBatch + 10 {
				ok(t, os.MkdirAll(filepath.Join(dir, "0", "a", fmt.Sprint(i), "c"), 0o755))
			}
		},
		"a pipe nobody may open": func(t *testing.T, dir string) {
			ok(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
			ok(t, syscall.Mkfifo(filepath.Join(dir, "a", "b", "fifo"), 0))
		},
	}
}

// Whatever a container has made, its end costs the plugin a few open files.
func TestTreesOfAContainerAreRemoved(t *testing.T) {
	for name, grow := range trees() {
		for verb, remove := range map[string]func(*Containers) error{
			"removed": func(c *Containers) error { return c.Remove(testUID) },
			"reset":   func(c *Containers) error { return c.Reset(testUID, "train") },
		} {
			t.Run(name+", "+verb, func(t *testing.T) {
				c, dir := containers(t)
				ok(t, c.Create(testUID, "train"))
				mine := filepath.Join(dir, testUID+"_train")
				outside := t.TempDir()
				ok(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600))
				grow(t, mine)
				ok(t, os.Symlink(outside, filepath.Join(mine, "link")))
				ok(t, os.MkdirAll(filepath.Join(mine, "x", "y"), 0o755))
				ok(t, os.Symlink(outside, filepath.Join(mine, "x", "y", "link")))
				fewFiles(t, 100)
				ok(t, remove(c))
				if got := names(t, dir); verb == "removed" && got != nil {
					t.Errorf("left: %v", got)
				}
				if verb == "reset" {
					if got := names(t, mine); got != nil {
						t.Errorf("left: %v", got)
					}
				}
				if got := names(t, outside); len(got) != 1 {
					t.Errorf("a link was followed: %v", got)
				}
			})
		}
	}
}

// A container that still runs may make files as fast as they are removed.
func TestRemovalEnds(t *testing.T) {
	c, dir := containers(t)
	ok(t, c.Create(testUID, "train"))
	ok(t, os.MkdirAll(filepath.Join(dir, testUID+"_train", "a", "b"), 0o755))
	err := removeTree(c.root, testUID+"_train", time.Now().Add(-time.Second))
	if err == nil || !strings.Contains(err.Error(), "no time left") {
		t.Errorf("removeTree = %v, want an error about the time", err)
	}
	ok(t, c.Remove(testUID))
	if got := names(t, dir); got != nil {
		t.Errorf("left: %v", got)
	}
}
