package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

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
	preStart bool // kubelet tells before it starts a container
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
		policy: p.cfg.AllocatorPolicy, preStart: resource == partition.ResourceGPU && !p.cfg.Standalone,
		times: p.times, log: p.log.WithValues("resource", resource),
		ended: make(chan struct{}, 1), cut: make(chan struct{}),
	}
}

// endpoint is the file name of a resource's socket.
func endpoint(resource string) string { return strings.ReplaceAll(resource, "/", "_") + ".sock" }

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
	path := filepath.Join(s.dir, endpoint(s.resource))
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
	calls := new(underway)
	rpc := grpc.NewServer(grpc.WaitForHandlers(true), grpc.StatsHandler(calls))
	pluginapi.RegisterDevicePluginServer(rpc, s)
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(listener) }()
	defer func() {
		s.shutdown(ctx, rpc, calls)
		if isAt(path, own) {
			os.Remove(path)
		}
	}()
	return s.keepRegistered(ctx, wake, served, registration{path: path, own: own, retry: retry})
}

// shutdown stops a gRPC server. When the plugin ends, calls under way are
// finished, before the streams: kubelet closes its connection with a stream that
// ends, and would never read their answers. When kubelet is gone nobody waits
// for them.
func (s *server) shutdown(ctx context.Context, rpc *grpc.Server, calls *underway) {
	last := time.Now().Add(s.times.drain)
	if ctx.Err() != nil {
		calls.wait(s.times.drain)
	}
	s.mu.Lock()
	close(s.cut)
	s.mu.Unlock()
	if ctx.Err() == nil {
		rpc.Stop()
	} else {
		timer := time.AfterFunc(time.Until(last), rpc.Stop)
		rpc.GracefulStop()
		timer.Stop()
	}
	s.mu.Lock()
	s.cut = make(chan struct{})
	s.mu.Unlock()
	s.forgetEnded()
}

// listen makes the socket, in place of one a dead plugin left. It is made under
// another name, so that there is never none at path: another plugin would take
// that for a restart of kubelet and put its own there. The file is not removed
// when the listener closes: by then it may be another server's.
func listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket path %q: want at most %d bytes, found %d", path, maxSocketPath, len(path))
	}
	made := filepath.Join(filepath.Dir(path), "."+rand.Text()[:8]) // no longer than path
	listener, err := net.Listen("unix", made)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Rename(made, path); err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(made))
	}
	return listener, nil
}

// isAt reports whether a file is still the one at path.
func isAt(path string, file os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && sameFile(now, file)
}
