package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// fakeStore is a node's images in memory.
type fakeStore struct {
	mu     sync.Mutex
	images map[string]fakeImage

	resolves, opens, pulls atomic.Int32
	resolve                func() error                    // called by Resolve
	open                   func(ctx context.Context) error // called by Open
	pull                   func(ctx context.Context, name string) error
}

type fakeImage struct {
	digest string
	config Config
	files  fstest.MapFS
}

func (s *fakeStore) set(name string, img fakeImage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.images == nil {
		s.images = make(map[string]fakeImage)
	}
	s.images[name] = img
}

func (s *fakeStore) get(name string) (fakeImage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, ok := s.images[name]
	return img, ok
}

func (s *fakeStore) Resolve(_ context.Context, name string) (Image, error) {
	s.resolves.Add(1)
	if s.resolve != nil {
		if err := s.resolve(); err != nil {
			return Image{}, err
		}
	}
	img, ok := s.get(name)
	if !ok {
		return Image{}, fmt.Errorf("%w: no image %q", ErrNotOnNode, name)
	}
	return Image{Name: name, Digest: img.digest}, nil
}

func (s *fakeStore) Open(ctx context.Context, img Image, fn func(Config, fs.ReadLinkFS) error) error {
	s.opens.Add(1)
	if s.open != nil {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	f, ok := s.get(img.Name)
	if !ok || f.digest != img.Digest {
		return ErrNotOnNode
	}
	return fn(f.config, f.files)
}

func (s *fakeStore) Pull(ctx context.Context, name string) error {
	s.pulls.Add(1)
	if s.pull == nil {
		return nil
	}
	return s.pull(ctx, name)
}

const (
	debianName = "docker.io/library/debian:12"
	alpineName = "docker.io/library/alpine:3.20"
)

func node() *fakeStore {
	s := &fakeStore{}
	s.set(debianName, fakeImage{"sha256:d", run("/bin/sh"), debian()})
	s.set(alpineName, fakeImage{"sha256:a", run("/bin/sh"), alpine()})
	return s
}

func checker(t testing.TB, s Store, o Options) *Checker {
	c := NewChecker(s, o)
	t.Cleanup(c.Close)
	return c
}

func TestCheck(t *testing.T) {
	s := node()
	c := checker(t, s, Options{})
	for ref, want := range map[string]Libc{"debian:12": GNU, "docker.io/library/debian:12": GNU, "alpine:3.20": Musl, "library/alpine:3.20": Musl} {
		r, err := c.Check(t.Context(), ref, Override{})
		if err != nil || r.Libc != want {
			t.Errorf("%s: %s, %v; want %s", ref, r.Libc, err, want)
		}
	}
	if got := s.opens.Load(); got != 2 {
		t.Errorf("%d looks, want one for each image", got)
	}
	// Another command is another question.
	r, err := c.Check(t.Context(), "debian:12", Override{Command: []string{"python3"}})
	if err != nil || r.Program != "/usr/bin/python3.11" || s.opens.Load() != 3 {
		t.Errorf("with a command: %+v, %v, %d looks", r, err, s.opens.Load())
	}
}

func TestCheckRefusesReferences(t *testing.T) {
	s := node()
	c := checker(t, s, Options{})
	for _, ref := range []string{"", "Debian", "a b", "-x", "debian:12 ", "x@sha256:1", "../x", "a//b", "http://x/y"} {
		if r, err := c.Check(t.Context(), ref, Override{}); err == nil {
			t.Errorf("%q: %+v, want an error", ref, r)
		}
	}
	if s.resolves.Load() != 0 {
		t.Error("a bad reference reached the store")
	}
}

// Fifty pods of one image start at once: one look, one answer.
func TestCheckSharesOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node()
		s.open = func(context.Context) error { time.Sleep(time.Second); return nil }
		c := NewChecker(s, Options{})
		defer c.Close()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if r, err := c.Check(t.Context(), "debian:12", Override{}); err != nil || r.Libc != GNU {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		if r, o := s.resolves.Load(), s.opens.Load(); r != 1 || o != 1 {
			t.Errorf("%d resolves and %d looks, want one of each", r, o)
		}
	})
}

// The one who asked first gives up; the others still get the answer.
func TestCheckOutlivesACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node()
		s.open = func(ctx context.Context) error {
			select {
			case <-time.After(2 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c := NewChecker(s, Options{})
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Check(ctx, "debian:12", Override{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the impatient one: %v", err)
			}
		})
		synctest.Wait()
		if r, err := c.Check(t.Context(), "debian:12", Override{}); err != nil || r.Libc != GNU {
			t.Errorf("the patient one: %+v, %v", r, err)
		}
		wg.Wait()
		if got := s.opens.Load(); got != 1 {
			t.Errorf("%d looks, want one", got)
		}
	})
}

func TestCheckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node()
		s.open = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c := NewChecker(s, Options{Timeout: time.Minute})
		defer c.Close()
		start := time.Now()
		if _, err := c.Check(t.Context(), "debian:12", Override{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("gave up after %v", got)
		}
		// A failure is not kept.
		s.open = nil
		if r, err := c.Check(t.Context(), "debian:12", Override{}); err != nil || r.Libc != GNU {
			t.Errorf("after it: %+v, %v", r, err)
		}
	})
}

// A burst of different images is looked at a few at a time.
func TestCheckLimitsLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		s := &fakeStore{open: func(context.Context) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}}
		c := NewChecker(s, Options{})
		defer c.Close()
		var wg sync.WaitGroup
		for i := range 20 {
			name := fmt.Sprintf("image%d", i)
			s.set("docker.io/library/"+name+":latest", fakeImage{"sha256:" + name, run("/bin/sh"), debian()})
			wg.Go(func() {
				if _, err := c.Check(t.Context(), name, Override{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := most.Load(); got != maxLooks {
			t.Errorf("%d looks at once, want %d", got, maxLooks)
		}
	})
}

// A tag that moves is noticed when the digest behind it is no longer believed;
// what was found by digest is kept.
func TestCheckFollowsAMovedTag(t *testing.T) {
	s := node()
	now := time.Unix(1000, 0)
	c := checker(t, s, Options{TagTTL: 10 * time.Second, Now: func() time.Time { return now }})
	check := func(want Libc) {
		t.Helper()
		if r, err := c.Check(t.Context(), "debian:12", Override{}); err != nil || r.Libc != want {
			t.Errorf("got %s, %v; want %s", r.Libc, err, want)
		}
	}
	check(GNU)
	s.set(debianName, fakeImage{"sha256:x", run("/bin/sh"), alpine()})
	check(GNU)
	now = now.Add(11 * time.Second)
	check(Musl)
	s.set(debianName, fakeImage{"sha256:d", run("/bin/sh"), debian()})
	now = now.Add(11 * time.Second)
	check(GNU)
	if o, r := s.opens.Load(), s.resolves.Load(); o != 2 || r != 3 {
		t.Errorf("%d looks and %d resolves, want 2 and 3", o, r)
	}
}

// A name with a digest never means another image, so the store is asked once;
// a tag beside it is dropped, as containerd does.
func TestCheckByDigest(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	s := &fakeStore{}
	s.set("docker.io/library/debian@"+digest, fakeImage{digest, run("/bin/sh"), debian()})
	now := time.Unix(1000, 0)
	c := checker(t, s, Options{Now: func() time.Time { return now }})
	for _, ref := range []string{"debian@" + digest, "debian:12@" + digest, "docker.io/library/debian@" + digest} {
		if r, err := c.Check(t.Context(), ref, Override{}); err != nil || r.Libc != GNU {
			t.Errorf("%s: %s, %v", ref, r.Libc, err)
		}
		now = now.Add(time.Hour)
	}
	if got := s.resolves.Load(); got != 1 {
		t.Errorf("%d resolves, want 1", got)
	}
}

func TestCheckStoreFails(t *testing.T) {
	down := errors.New("connection refused")
	s := node()
	s.resolve = func() error { return down }
	c := checker(t, s, Options{})
	_, err := c.Check(t.Context(), "debian:12", Override{})
	if !errors.Is(err, down) || errors.Is(err, ErrNotOnNode) ||
		err.Error() != `check image "docker.io/library/debian:12": connection refused` {
		t.Errorf("got %v", err)
	}
	c.Close()
	if s.pulls.Load() != 0 {
		t.Error("a store that fails started a pull")
	}
}

// Close ends pulls and looks, and waits for them.
func TestCheckerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := node()
		var ended atomic.Int32
		s.pull = func(ctx context.Context, _ string) error { <-ctx.Done(); ended.Add(1); return ctx.Err() }
		s.open = func(ctx context.Context) error { <-ctx.Done(); ended.Add(1); return ctx.Err() }
		c := NewChecker(s, Options{})
		_, _ = c.Check(t.Context(), "none", Override{})
		go func() { _, _ = c.Check(t.Context(), "debian:12", Override{}) }()
		synctest.Wait()
		c.Close()
		if got := ended.Load(); got != 2 {
			t.Errorf("%d of a look and a pull have ended", got)
		}
		if _, err := c.Check(t.Context(), "alpine:3.20", Override{}); err == nil {
			t.Error("a closed checker answered")
		}
	})
}

// Nothing is kept without end.
func TestCheckerForgets(t *testing.T) {
	s := node()
	now := time.Unix(1000, 0)
	c := checker(t, s, Options{Now: func() time.Time { return now }})
	for i := range maxKept {
		c.results[question{fmt.Sprint(i), ""}] = Result{}
		c.digests[fmt.Sprint(i)] = known{}
		c.names[fmt.Sprint(i)] = ""
		c.pulls[fmt.Sprint(i)] = &pullState{err: errDisk, ended: now}
	}
	now = now.Add(time.Hour)
	for _, ref := range []string{"debian:12", "none"} {
		_, _ = c.Check(t.Context(), ref, Override{})
	}
	c.Close()
	if r, d, n, p := len(c.results), len(c.digests), len(c.names), len(c.pulls); r != 1 || d != 1 || n != 2 || p > 1 {
		t.Errorf("%d results, %d digests, %d names and %d pulls are kept", r, d, n, p)
	}
}

func TestOverrideKey(t *testing.T) {
	list := []Override{
		{},
		{Command: []string{"a"}}, {Args: []string{"a"}}, {Mounts: []string{"a"}}, {WorkingDir: "a"}, {Path: "a"},
		{Command: []string{"a", "b"}}, {Command: []string{"a"}, Args: []string{"b"}}, {Args: []string{"a", "b"}},
		{Command: []string{""}}, {Args: []string{""}}, {Command: []string{"", ""}},
	}
	seen := make(map[string]int)
	for i, o := range list {
		if j, ok := seen[o.key()]; ok {
			t.Errorf("%+v and %+v have one key", list[j], o)
		}
		seen[o.key()] = i
	}
}

func BenchmarkCheckCached(b *testing.B) {
	for name, o := range map[string]Override{
		"image's command": {},
		"pod's command":   {Command: []string{"python3"}, Args: []string{"-u", "train.py", "--epochs", "10"}, Mounts: []string{"/data", "/var/run/secrets/kubernetes.io/serviceaccount"}},
	} {
		b.Run(name, func(b *testing.B) {
			c := checker(b, node(), Options{TagTTL: time.Hour})
			if _, err := c.Check(b.Context(), "debian:12", o); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Check(b.Context(), "debian:12", o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
