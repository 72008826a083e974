package hook

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/hook/elftest"
)

// library is a hook of some size whose content says which one it is.
func library(fill byte, size int) []byte {
	return elftest.Build(elftest.Options{
		Needed:  []string{"libc.so.6"},
		Needs:   []elftest.Need{{Library: "libc.so.6", Versions: []string{"GLIBC_2.34"}}},
		Payload: bytes.Repeat([]byte{fill}, size),
	})
}

// host is a host path with what a test needs around it.
type host struct {
	t    *testing.T
	path string
}

func newHost(t *testing.T) host { return host{t, filepath.Join(t.TempDir(), "host")} }

func (h host) source(data []byte) string {
	h.t.Helper()
	name := filepath.Join(h.t.TempDir(), "source.so")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return name
}

func (h host) target() string { return filepath.Join(h.path, "vgpu", Library) }

func (h host) install(data []byte) (bool, error) { return Install(h.source(data), h.path) }

// want checks the installed file and that nothing else is left beside it.
func (h host) want(data []byte) {
	h.t.Helper()
	got, err := os.ReadFile(h.target())
	if err != nil {
		h.t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		h.t.Errorf("installed %d bytes, want the %d of the source", len(got), len(data))
	}
	if fi, err := os.Stat(h.target()); err != nil || fi.Mode() != 0o644 {
		h.t.Errorf("mode %v, %v; want 0644", fi.Mode(), err)
	}
	h.wantAlone()
}

func (h host) wantAlone() {
	h.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(h.target()))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != Library {
			h.t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestInstall(t *testing.T) {
	a, b := library('a', 100_000), library('b', 100_000)
	h := newHost(t)
	steps := []struct {
		name    string
		prepare func() error
		data    []byte
		changed bool
	}{
		{"nothing there", func() error { return nil }, a, true},
		{"the same again", func() error { return nil }, a, false},
		{"another of the same size", func() error { return nil }, b, true},
		{"a shorter one", func() error { return nil }, b[:len(b)-10], true},
		{"another mode", func() error { return os.Chmod(h.target(), 0o600) }, b[:len(b)-10], true},
		{"a cut copy", func() error { return os.Truncate(h.target(), 10) }, a, true},
		{"a zero file", func() error { return os.Truncate(h.target(), 0) }, a, true},
		{"an empty directory that a runtime made", func() error {
			return errors.Join(os.Remove(h.target()), os.Mkdir(h.target(), 0o755))
		}, a, true},
		{"a link", func() error {
			return errors.Join(os.Remove(h.target()), os.Symlink("/etc/hostname", h.target()))
		}, a, true},
	}
	for _, s := range steps {
		if err := s.prepare(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		changed, err := h.install(s.data)
		if err != nil || changed != s.changed {
			t.Fatalf("%s: changed %v, %v; want %v", s.name, changed, err, s.changed)
		}
		h.want(s.data)
	}
}

// Whoever has the old library mapped or open keeps it whole.
func TestInstallKeepsTheOldFileAlive(t *testing.T) {
	a, b := library('a', 50_000), library('b', 60_000)
	h := newHost(t)
	if _, err := h.install(a); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(h.target())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := h.install(b); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, a) {
		t.Errorf("the open file has %d bytes, %v; want the old %d", len(got), err, len(a))
	}
	h.want(b)
}

func TestInstallRefuses(t *testing.T) {
	old := library('o', 1000)
	dir := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		source func(h host) string
		want   string
	}{
		"no source":        {func(host) string { return filepath.Join(dir, "none") }, "no such file"},
		"a directory":      {func(host) string { return dir }, "want a regular file, have a directory"},
		"a link":           {func(host) string { return filepath.Join(dir, "link") }, "want a regular file, have a symbolic link"},
		"an empty file":    {func(h host) string { return h.source(nil) }, "have an empty file"},
		"a text":           {func(h host) string { return h.source([]byte("hook")) }, "not an ELF file"},
		"half a library":   {func(h host) string { return h.source(old[:150]) }, "inspect hook"},
		"a sparse monster": {func(h host) string { return h.sparse(old, maxLibrary+1) }, "want at most 268435456 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if _, err := h.install(old); err != nil {
				t.Fatal(err)
			}
			changed, err := Install(tt.source(h), h.path)
			if changed || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("changed %v, %v; want %q", changed, err, tt.want)
			}
			h.want(old)
		})
	}
	t.Run("a relative host path", func(t *testing.T) {
		if _, err := Install(newHost(t).source(old), "usr/local"); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("a directory with something in it", func(t *testing.T) {
		h := newHost(t)
		if err := os.MkdirAll(filepath.Join(h.target(), "keep"), 0o755); err != nil {
			t.Fatal(err)
		}
		if changed, err := h.install(old); changed || err == nil {
			t.Errorf("changed %v, %v; want an error", changed, err)
		}
		h.wantAlone()
		if _, err := os.Stat(filepath.Join(h.target(), "keep")); err != nil {
			t.Error(err)
		}
	})
}

func (h host) sparse(data []byte, size int64) string {
	name := h.source(data)
	if err := os.Truncate(name, size); err != nil {
		h.t.Fatal(err)
	}
	return name
}

// What a killed installer left is removed once it is old; a copy that another
// installer is writing is not.
func TestInstallRemovesStaleCopies(t *testing.T) {
	h := newHost(t)
	dir := filepath.Dir(h.target())
	stale, fresh := filepath.Join(dir, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stale, fresh} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(stale, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := h.install(library('a', 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stale copy: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh copy: %v", err)
	}
}

// killEnv makes the test binary install two libraries in turn until it is
// killed: host path, then the two sources.
const killEnv = "HOOK_INSTALL_UNTIL_KILLED"

// An installer that is killed at any moment leaves the old file or the new
// one.
func TestC42KilledInstallLeavesAWholeFile(t *testing.T) {
	if arg := os.Getenv(killEnv); arg != "" {
		installUntilKilled(strings.Split(arg, string(os.PathListSeparator)))
	}
	a, b := library('a', 400_000), library('b', 300_000)
	h := newHost(t)
	arg := strings.Join([]string{h.path, h.source(a), h.source(b)}, string(os.PathListSeparator))
	if _, err := h.install(a); err != nil {
		t.Fatal(err)
	}
	var seen [2]int
	for range 100 {
		killOne(t, arg)
		got, err := os.ReadFile(h.target())
		switch {
		case err != nil:
			t.Fatal(err)
		case bytes.Equal(got, a):
			seen[0]++
		case bytes.Equal(got, b):
			seen[1]++
		default:
			t.Fatalf("%d bytes that are neither the old file nor the new one", len(got))
		}
	}
	t.Logf("found the one %d times, the other %d times", seen[0], seen[1])
	if seen[0] == 0 || seen[1] == 0 {
		t.Error("all kills fell on the same side: the test shows nothing")
	}
	if _, err := h.install(b); err != nil {
		t.Errorf("an install after the kills: %v", err)
	}
}

// killOne starts an installer, waits for its first word and kills it a random
// while later.
func killOne(t *testing.T, arg string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestC42KilledInstallLeavesAWholeFile$")
	cmd.Env = append(os.Environ(), killEnv+"="+arg)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Errorf("the installer did not start: %v", err)
	}
	time.Sleep(time.Duration(rand.IntN(int(6 * time.Millisecond))))
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func installUntilKilled(args []string) {
	for i := 0; ; i++ {
		if _, err := Install(args[1+i%2], args[0]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		if i == 0 {
			os.Stdout.Write([]byte{'x'})
		}
	}
}

// C42: a reader that opens the library while it is replaced again and again
// gets a whole one each time.
func TestC42ReplacedDuringAllocate(t *testing.T) {
	a, b := library('a', 200_000), library('b', 100_000)
	h := newHost(t)
	sa, sb := h.source(a), h.source(b)
	if _, err := Install(sa, h.path); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := Install([]string{sb, sa}[i%2], h.path); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 200 {
		if err := Check(h.target()); err != nil {
			t.Error(err)
		}
		got, err := os.ReadFile(h.target())
		if err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
