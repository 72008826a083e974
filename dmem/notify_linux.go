package dmem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// notifier is an inotify instance. It needs no goroutine: its descriptor is
// pollable and its reads have a deadline.
type notifier struct {
	fd   int // of file, which owns it
	file *os.File
	buf  [4096]byte
}

func newNotifier() (*notifier, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	return &notifier{fd: fd, file: os.NewFile(uintptr(fd), "inotify")}, nil
}

// add watches for entries that appear in dir.
func (n *notifier) add(dir string) error {
	const mask = syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_ONLYDIR | syscall.IN_DONT_FOLLOW
	_, err := syscall.InotifyAddWatch(n.fd, dir, mask)
	return err
}

// wait returns at the first event, after d, or with the context. What the
// events say does not matter: the caller looks again. An error means that it
// did not wait.
func (n *notifier) wait(ctx context.Context, d time.Duration) error {
	if err := n.file.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = n.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := n.file.Read(n.buf[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func (n *notifier) close() { n.file.Close() }
