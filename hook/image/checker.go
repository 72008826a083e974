package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/distribution/reference"
)

// ErrNotOnNode is an image that is not on the node, or not unpacked yet. Its
// text is what the pod's owner sees, and the same as in hook.
var ErrNotOnNode = hook.ErrImageNotOnNode

// Image is an image in a node's store.
type Image struct {
	Name      string // normalised: docker.io/library/debian:12
	Digest    string // of the index or manifest, sha256:...
	MediaType string
	Size      int64 // bytes of the index or manifest; 0 is not known
}

// Store is where the images of a node are: [Containerd] or [Ctr].
type Store interface {
	// Resolve finds an image by its normalised name. Returns an ErrNotOnNode
	// if there is none.
	Resolve(ctx context.Context, name string) (Image, error)
	// Open calls fn with the image's configuration and its files for this
	// node's platform; both are valid during the call. Returns an ErrNotOnNode
	// if the image is not complete or not unpacked.
	Open(ctx context.Context, img Image, fn func(Config, fs.ReadLinkFS) error) error
	// Pull fetches and unpacks an image.
	Pull(ctx context.Context, name string) error
}

// Options of a [Checker]. The zero value is ready for use.
type Options struct {
	// Timeout bounds one look into an image, 30 s if 0.
	Timeout time.Duration
	// PullTimeout bounds one pull, 30 min if 0.
	PullTimeout time.Duration
	// PullRetry is how long a failed pull is left alone, 1 min if 0.
	PullRetry time.Duration
	// TagTTL is how long the digest behind a tag is believed, 10 s if 0; a tag
	// that moves is noticed after that. Names with a digest never change.
	TagTTL time.Duration
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&o.Timeout, 30 * time.Second},
		{&o.PullTimeout, 30 * time.Minute},
		{&o.PullRetry, time.Minute},
		{&o.TagTTL, 10 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// How much is kept and done at once. Past maxKept everything is forgotten and
// looked up again.
const (
	maxKept  = 4096
	maxLooks = 4
	maxPulls = 2
)

// Checker answers for the images of a node. Its methods may be called from
// several goroutines.
type Checker struct {
	store  Store
	o      Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	looks  chan struct{} // a slot for each look under way
	slots  chan struct{} // a slot for each pull under way

	mu      sync.Mutex // guards what follows
	closed  bool
	names   map[string]string     // normalised, by reference
	digests map[string]known      // by name
	results map[question]Result   // by digest
	flights map[question]*flight  // by name, under way
	pulls   map[string]*pullState // by name
}

// question is an image and what the pod makes of its command. The image is a
// name or a digest.
type question struct{ image, override string }

type known struct {
	digest string
	until  time.Time // zero is for ever
}

// flight is a look that all who ask the same question wait for.
type flight struct {
	done   chan struct{}
	result Result
	err    error
}

type pullState struct {
	running bool
	err     error // of the last one
	ended   time.Time
}

// NewChecker returns a checker for a store. Close ends it.
func NewChecker(store Store, o Options) *Checker {
	ctx, cancel := context.WithCancel(context.Background())
	return &Checker{
		store: store, o: o.withDefaults(), ctx: ctx, cancel: cancel,
		looks: make(chan struct{}, maxLooks), slots: make(chan struct{}, maxPulls),
		names: make(map[string]string), digests: make(map[string]known), results: make(map[question]Result),
		flights: make(map[question]*flight), pulls: make(map[string]*pullState),
	}
}

// Close cancels looks and pulls and waits for them. It does not close the
// store.
func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// Check tells what the image of a container would load its entry point with.
// ref is the image as the pod spec names it.
//
// An answer is kept by the image's digest. Callers that ask the same at the
// same time share one look into the image, which goes on when the context of
// one of them ends. For an image that is not on the node a pull is started in
// the background, one at a time for each image, and the error is an
// [ErrNotOnNode], with the failure of the last pull if there was one. Any
// other error is a failure to look, and may pass.
func (c *Checker) Check(ctx context.Context, ref string, o Override) (Result, error) {
	name, err := c.name(ref)
	if err != nil {
		return Result{}, err
	}
	q := question{name, o.key()}
	c.mu.Lock()
	if r, ok := c.kept(q); ok {
		c.mu.Unlock()
		return r, nil
	}
	if c.closed {
		c.mu.Unlock()
		return Result{}, fmt.Errorf("check image %q: checker is closed", name)
	}
	f := c.flights[q]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		c.flights[q] = f
		c.work.Go(func() { c.fly(f, q, o) })
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		return Result{}, fmt.Errorf("check image %q: %w", name, context.Cause(ctx))
	}
}

// name is normalise, which takes longer than all else that a kept answer takes,
// done once for each reference.
func (c *Checker) name(ref string) (string, error) {
	c.mu.Lock()
	name, ok := c.names[ref]
	c.mu.Unlock()
	if ok {
		return name, nil
	}
	name, err := normalise(ref)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.names) >= maxKept {
		clear(c.names)
	}
	c.names[ref] = name
	return name, nil
}

// kept is an answer that needs no look. c.mu is held.
func (c *Checker) kept(q question) (Result, bool) {
	k, ok := c.digests[q.image]
	if !ok || !k.until.IsZero() && c.o.Now().After(k.until) {
		return Result{}, false
	}
	r, ok := c.results[question{k.digest, q.override}]
	return r, ok
}

// fly answers a question for all who wait for it.
func (c *Checker) fly(f *flight, q question, o Override) {
	ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout)
	defer cancel()
	f.result, f.err = c.look(ctx, q, o)
	if errors.Is(f.err, ErrNotOnNode) {
		f.err = c.pull(q.image)
	} else if f.err != nil {
		f.err = fmt.Errorf("check image %q: %w", q.image, f.err)
	}
	c.mu.Lock()
	delete(c.flights, q)
	c.mu.Unlock()
	close(f.done)
}

func (c *Checker) look(ctx context.Context, q question, o Override) (Result, error) {
	select {
	case c.looks <- struct{}{}:
		defer func() { <-c.looks }()
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	img, err := c.store.Resolve(ctx, q.image)
	if err != nil {
		return Result{}, err
	}
	byDigest := question{img.Digest, q.override}
	c.mu.Lock()
	c.remember(img)
	r, ok := c.results[byDigest]
	c.mu.Unlock()
	if ok {
		return r, nil
	}
	err = c.store.Open(ctx, img, func(config Config, files fs.ReadLinkFS) error {
		var err error
		r, err = Analyze(files, config, o)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.results) >= maxKept {
		clear(c.results)
	}
	c.results[byDigest] = r
	return r, nil
}

// remember keeps the digest behind a name. c.mu is held.
func (c *Checker) remember(img Image) {
	if len(c.digests) >= maxKept {
		clear(c.digests)
	}
	k := known{digest: img.Digest}
	if !strings.Contains(img.Name, "@") {
		k.until = c.o.Now().Add(c.o.TagTTL)
	}
	c.digests[img.Name] = k
}

// pull starts a pull unless one is under way or has just failed, and returns
// the ErrNotOnNode that the caller answers with.
func (c *Checker) pull(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pulls[name]
	if p == nil {
		c.forgetPulls()
		p = &pullState{}
		c.pulls[name] = p
	}
	recent := p.err != nil && c.o.Now().Sub(p.ended) < c.o.PullRetry
	if !p.running && !recent && !c.closed {
		p.running = true
		c.work.Go(func() { c.pullNow(name, p) })
	}
	if p.err != nil {
		return fmt.Errorf("%w: last pull of %q: %w", ErrNotOnNode, name, p.err)
	}
	return ErrNotOnNode
}

func (c *Checker) pullNow(name string, p *pullState) {
	var err error
	select {
	case c.slots <- struct{}{}:
		ctx, cancel := context.WithTimeout(c.ctx, c.o.PullTimeout)
		err = c.store.Pull(ctx, name)
		cancel()
		<-c.slots
	case <-c.ctx.Done():
		err = c.ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.pulls, name)
		return
	}
	p.running, p.err, p.ended = false, err, c.o.Now()
}

// forgetPulls drops failures that hold nothing back any more. c.mu is held.
func (c *Checker) forgetPulls() {
	for name, p := range c.pulls {
		if !p.running && c.o.Now().Sub(p.ended) >= c.o.PullRetry {
			delete(c.pulls, name)
		}
	}
}

// normalise completes a reference as container runtimes do: docker.io,
// library/ and :latest are implied, and a tag beside a digest is dropped.
func normalise(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("image reference %q: %w", ref, err)
	}
	return named.String(), nil
}

// key tells overrides apart: each text is preceded by its length, each list by
// its own.
func (o Override) key() string {
	if len(o.Command)+len(o.Args)+len(o.Mounts) == 0 && o.WorkingDir == "" && o.Path == "" {
		return ""
	}
	var b []byte
	for _, list := range [][]string{{o.WorkingDir, o.Path}, o.Command, o.Args, o.Mounts} {
		b = append(strconv.AppendInt(b, int64(len(list)), 10), '#')
		for _, s := range list {
			b = append(strconv.AppendInt(b, int64(len(s)), 10), ':')
			b = append(b, s...)
		}
	}
	return string(b)
}
