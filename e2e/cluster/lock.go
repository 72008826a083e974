package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock on a file, waiting for it while ctx lasts.
// The kernel drops it when the process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err = tryLock(path)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for whoever has locked %q: %w", path, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	return func() { f.Close() }, nil
}

const dataDirPattern = "hami-amd-e2e-*"

// makeDataDir makes a folder under parent for one cluster and locks it. It
// also removes the folders of test runs that were killed, which nobody locks:
// they may lie in memory.
func makeDataDir(parent string) (dir string, remove func() error, err error) {
	old, err := filepath.Glob(filepath.Join(parent, dataDirPattern))
	if err != nil {
		return "", nil, err
	}
	for _, dir := range old {
		// One that is just being made has no lock file yet: too young to remove.
		info, err := os.Stat(filepath.Join(dir, "lock"))
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if unlock, err := tryLock(filepath.Join(dir, "lock")); err == nil {
			_ = os.RemoveAll(dir) // another run may be removing it too
			unlock()
		}
	}
	dir, err = os.MkdirTemp(parent, dataDirPattern)
	if err != nil {
		return "", nil, err
	}
	unlock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		defer unlock()
		return os.RemoveAll(dir)
	}, nil
}

// dataParent prefers memory: etcd and the API server then never wait for a disk.
func dataParent(dir string) string {
	if dir != "" {
		return dir
	}
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if unix.Statfs(shm, &st) == nil && st.Type == unix.TMPFS_MAGIC && unix.Access(shm, unix.W_OK) == nil {
		return shm
	}
	return os.TempDir()
}
