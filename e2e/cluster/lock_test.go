package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock: %v, want the context's error", err)
	}
	unlock()
	unlock, err = lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestMakeDataDirClearsUp(t *testing.T) {
	parent := t.TempDir()
	old := time.Now().Add(-time.Hour)
	leave := func(name string, lockAge time.Time) {
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(dir, "etcd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if lockAge.IsZero() {
			return
		}
		lock := filepath.Join(dir, "lock")
		if err := os.WriteFile(lock, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock, lockAge, lockAge); err != nil {
			t.Fatal(err)
		}
	}
	leave("hami-amd-e2e-killed", old)
	leave("hami-amd-e2e-running", old)
	leave("hami-amd-e2e-fresh", time.Now())
	leave("hami-amd-e2e-unmarked", time.Time{})
	leave("another-program", old)
	unlock, err := tryLock(filepath.Join(parent, "hami-amd-e2e-running", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	dir, remove, err := makeDataDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("own folder after remove: %v, want none", err)
	}
	var left []string
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{"another-program", "hami-amd-e2e-fresh", "hami-amd-e2e-running", "hami-amd-e2e-unmarked"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
}
