package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubeletSocket is the file name of kubelet's registration socket.
const kubeletSocket = "kubelet.sock"

// maxSocketPath is what fits into a unix socket's address (sun_path, less the
// final 0).
const maxSocketPath = 107

// server is the device plugin of one extended resource: a gRPC server on a
// socket in kubelet's folder, which run makes, registers and makes again.
type server struct {
	pluginapi.UnimplementedDevicePluginServer

	resource string
	dir      string // kubelet's device-plugins folder
	folder   *socketFolder
	devices  *devices
	alloc    allocator
	policy   AllocatorPolicy
	times    times
	log      klog.Logger

	// ended gets a value whenever a ListAndWatch stream ends.
	ended chan struct{}

	mu      sync.Mutex
	streams int           // ListAndWatch calls being served
	cut     chan struct{} // closed to end them
	idle    chan struct{} // closed when the last of them has ended; nil if none
}

// times are how long things wait. Tests have less patience.
type times struct {
	poll     time.Duration // between two looks at kubelet's folder without a sign
	retryMin time.Duration // before the first new attempt to listen or to register
	retryMax time.Duration
	settled  time.Duration // a registration that lives so long was good
	register time.Duration // one Register call
	drain    time.Duration // for calls under way at shutdown
}

// defaultTimes suit a node. A Register call contains kubelet's dial of our
// socket, to which it gives 10 s; an Allocate call may take 20 s.
func defaultTimes() times {
	return times{
		poll: 10 * time.Second, retryMin: 200 * time.Millisecond, retryMax: 10 * time.Second,
		settled: 10 * time.Second, register: 15 * time.Second, drain: 25 * time.Second,
	}
}

func newServer(resource string, p *Plugin, folder *socketFolder, devices *devices, alloc allocator) *server {
	return &server{
		resource: resource, dir: p.cfg.pluginDir(), folder: folder, devices: devices, alloc: alloc,
		policy: p.cfg.AllocatorPolicy, times: p.times, log: p.log.WithValues("resource", resource),
		ended: make(chan struct{}, 1), cut: make(chan struct{}),
	}
}

// endpoint is the file name of the server's socket.
func (s *server) endpoint() string { return strings.ReplaceAll(s.resource, "/", "_") + ".sock" }

// run serves and keeps the resource registered until ctx ends. Calls under way
// then are finished first. Whatever fails is logged and tried again: kubelet
// and its folder may come later than the plugin.
func (s *server) run(ctx context.Context) {
	wake, stop := s.folder.wake()
	defer stop()
	retry := backoff{times: s.times}
	for ctx.Err() == nil {
		err := s.session(ctx, wake, &retry)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Error(err, "Serving kubelet failed, trying again")
		}
		retry.wait(ctx, wake)
	}
}

// session is the life of one socket. It ends with ctx, or when the socket has
// to be made anew: somebody removed or replaced it, or kubelet was restarted.
func (s *server) session(ctx context.Context, wake <-chan struct{}, retry *backoff) error {
	path := filepath.Join(s.dir, s.endpoint())
	listener, err := listen(path)
	if err != nil {
		return err
	}
	own, err := os.Stat(path)
	if err != nil {
		listener.Close()
		return err
	}
	// Stopping must not return before the handlers have: they use what is shut
	// down next.
	rpc := grpc.NewServer(grpc.WaitForHandlers(true))
	pluginapi.RegisterDevicePluginServer(rpc, s)
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(listener) }()
	defer func() {
		s.shutdown(ctx, rpc)
		if isAt(path, own) {
			os.Remove(path)
		}
	}()
	return s.keepRegistered(ctx, wake, served, registration{path: path, own: own, retry: retry})
}

// registration is what keepRegistered knows of the two sockets.
type registration struct {
	path  string
	own   os.FileInfo // our socket, at path
	with  os.FileInfo // kubelet's socket we are registered with; nil if we are not
	tried os.FileInfo // kubelet's socket at the last attempt
	after time.Time   // not before is the next one
	retry *backoff
}

// keepRegistered registers as often as it takes. It looks at the state of the
// two sockets rather than at events, which come late, twice or not at all.
func (s *server) keepRegistered(ctx context.Context, wake <-chan struct{}, served <-chan error, r registration) error {
	for {
		kubelet, err := os.Stat(filepath.Join(s.dir, kubeletSocket))
		switch {
		case !isAt(r.path, r.own):
			s.log.Info("The plugin's socket was removed or replaced, making it anew")
			return nil
		case err != nil:
			kubelet = nil // down
		case r.with != nil && !sameFile(kubelet, r.with):
			s.log.Info("Kubelet was restarted, registering anew")
			return nil
		case r.tried != nil && !sameFile(kubelet, r.tried):
			r.after = time.Time{} // another one: no reason to wait
		}
		var timer <-chan time.Time
		if r.with == nil && kubelet != nil {
			wait := time.Until(r.after)
			if wait <= 0 {
				if err := s.tryRegister(ctx, kubelet, &r); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return nil
				}
				continue
			}
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("serving %s: %w", r.path, err)
		case <-s.ended:
			// The device manager forgets a plugin with its stream, and when an
			// old stream ends after a newer registration it drops that one.
			s.log.Info("Kubelet's ListAndWatch stream ended, registering again")
			r.with, r.after = nil, time.Now().Add(r.retry.next())
		case <-wake:
		case <-timer:
		}
	}
}

// tryRegister registers once. An error is one of our own server; that kubelet
// is not there, or refuses, is for the next attempt.
func (s *server) tryRegister(ctx context.Context, kubelet os.FileInfo, r *registration) error {
	if !s.endStreams() {
		return errors.New("a ListAndWatch stream did not end")
	}
	r.tried = kubelet
	if err := s.register(ctx); err != nil {
		if ctx.Err() == nil {
			s.log.Info("Registering with kubelet failed, trying again: " + err.Error())
		}
		r.after = time.Now().Add(r.retry.next())
		return nil
	}
	s.log.Info("Registered with kubelet")
	r.with = kubelet
	r.retry.registered()
	return nil
}

// register calls kubelet's Register, which returns when kubelet has dialled
// back and asked for the options: the server must be serving.
func (s *server) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.times.register)
	defer cancel()
	path := filepath.Join(s.dir, kubeletSocket)
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: s.endpoint(), ResourceName: s.resource, Options: options(),
	})
	return err
}

// shutdown stops a gRPC server. When the plugin ends, calls under way are
// finished; when kubelet is gone nobody waits for their answers.
func (s *server) shutdown(ctx context.Context, rpc *grpc.Server) {
	s.mu.Lock()
	close(s.cut)
	s.mu.Unlock()
	if ctx.Err() == nil {
		rpc.Stop()
	} else {
		timer := time.AfterFunc(s.times.drain, rpc.Stop)
		rpc.GracefulStop()
		timer.Stop()
	}
	s.mu.Lock()
	s.cut = make(chan struct{})
	s.mu.Unlock()
	s.forgetEnded()
}

// endStreams ends the ListAndWatch streams that are left from an earlier
// registration, so that the next one has a stream of its own. It reports false
// if one does not end because kubelet does not read.
func (s *server) endStreams() bool {
	s.mu.Lock()
	idle := s.idle
	close(s.cut)
	s.mu.Unlock()
	ended := true
	if idle != nil {
		timer := time.NewTimer(s.times.register)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
			ended = false
		}
	}
	s.mu.Lock()
	s.cut = make(chan struct{})
	s.mu.Unlock()
	s.forgetEnded()
	return ended
}

// forgetEnded drops a sign of streams that ended on our own account.
func (s *server) forgetEnded() {
	select {
	case <-s.ended:
	default:
	}
}

// streamBegins counts a ListAndWatch stream in. The channel is closed when it
// has to end.
func (s *server) streamBegins() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams++; s.streams == 1 {
		s.idle = make(chan struct{})
	}
	return s.cut
}

func (s *server) streamEnds() {
	notify(s.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams--; s.streams == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// listen makes the socket, in place of one a dead plugin left. The file is not
// removed when the listener closes: by then it may be another server's.
func listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %q: want at most %d bytes, found %d", path, maxSocketPath, len(path))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing a stale socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	return listener, nil
}

// backoff is the time between attempts, doubled with each that did not last.
type backoff struct {
	times times
	delay time.Duration
	since time.Time // of the last good registration
}

// registered notes that a registration succeeded. Only one that lasts resets
// the delay: kubelet may end the stream at once, each time.
func (b *backoff) registered() { b.since = time.Now() }

func (b *backoff) next() time.Duration {
	if !b.since.IsZero() && time.Since(b.since) > b.times.settled {
		b.delay, b.since = 0, time.Time{}
	}
	b.delay = min(max(2*b.delay, b.times.retryMin), b.times.retryMax)
	return b.delay
}

// wait waits, less long if something in kubelet's folder changes.
func (b *backoff) wait(ctx context.Context, wake <-chan struct{}) {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
	}
}

// isAt reports whether a file is still the one at path.
func isAt(path string, file os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && sameFile(now, file)
}
