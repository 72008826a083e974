package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Project-HAMi/hami-amd/hook"
)

func TestCheckNotOnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{}
		s.pull = func(_ context.Context, name string) error {
			time.Sleep(time.Minute)
			s.set(name, fakeImage{"sha256:d", run("/bin/sh"), debian()})
			return nil
		}
		c := NewChecker(s, Options{})
		defer c.Close()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_, err := c.Check(t.Context(), "debian:12", Override{})
				if !errors.Is(err, ErrNotOnNode) || err.Error() != "image is not on the node yet" {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		time.Sleep(30 * time.Second)
		if _, err := c.Check(t.Context(), "debian:12", Override{}); !errors.Is(err, hook.ErrImageNotOnNode) {
			t.Errorf("during the pull: %v", err)
		}
		if got := s.pulls.Load(); got != 1 {
			t.Errorf("%d pulls, want one", got)
		}
		time.Sleep(time.Minute)
		if r, err := c.Check(t.Context(), "debian:12", Override{}); err != nil || r.Libc != GNU {
			t.Errorf("after the pull: %+v, %v", r, err)
		}
	})
}

// An image whose record is there but not its files counts as not there.
func TestCheckNotUnpacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node()
		s.open = func(context.Context) error { return fmt.Errorf("%w: no snapshot", ErrNotOnNode) }
		c := NewChecker(s, Options{})
		defer c.Close()
		if _, err := c.Check(t.Context(), "debian:12", Override{}); !errors.Is(err, ErrNotOnNode) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if got := s.pulls.Load(); got != 1 {
			t.Errorf("%d pulls, want one", got)
		}
	})
}

// A pull that fails is reported, left alone for a while and tried again.
func TestCheckPullFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := errors.New("401 Unauthorized")
		s := &fakeStore{pull: func(context.Context, string) error { return denied }}
		c := NewChecker(s, Options{PullRetry: time.Minute})
		defer c.Close()
		check := func(pulls int32, text string) {
			t.Helper()
			_, err := c.Check(t.Context(), "debian:12", Override{})
			if !errors.Is(err, ErrNotOnNode) || err.Error() != text {
				t.Errorf("got %v, want %q", err, text)
			}
			synctest.Wait()
			if got := s.pulls.Load(); got != pulls {
				t.Errorf("%d pulls, want %d", got, pulls)
			}
		}
		const failed = `image is not on the node yet: last pull of "docker.io/library/debian:12": 401 Unauthorized`
		check(1, "image is not on the node yet")
		check(1, failed)
		time.Sleep(59 * time.Second)
		check(1, failed)
		time.Sleep(time.Second)
		check(2, failed)
		check(2, failed)
	})
}

func TestCheckLimitsPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := &fakeStore{pull: func(context.Context, string) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}}
		c := NewChecker(s, Options{})
		defer c.Close()
		for i := range 10 {
			_, _ = c.Check(t.Context(), fmt.Sprintf("image%d", i), Override{})
		}
		time.Sleep(time.Minute)
		if p, m := s.pulls.Load(), most.Load(); p != 10 || m != maxPulls {
			t.Errorf("%d pulls, %d at once; want 10 and %d", p, m, maxPulls)
		}
	})
}
