package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubeletSocket is the file name of kubelet's registration socket.
const kubeletSocket = "kubelet.sock"

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
	waiting := false // for kubelet, and said so
	standby := false // for another plugin, and said so
	for {
		if !isAt(r.path, r.own) {
			if !answers(ctx, r.path) {
				s.log.Info("The plugin's socket was removed or replaced, making it anew")
				return nil
			}
			if !standby {
				s.log.Info("Another plugin has taken the socket, standing by until it has gone", "socket", r.path)
			}
			standby = true
			select {
			case <-ctx.Done():
				return nil
			case err := <-served:
				return fmt.Errorf("serving %s: %w", r.path, err)
			case <-s.ended: // kubelet has registered the other one
			case <-wake:
			}
			continue
		}
		kubelet, err := os.Stat(filepath.Join(s.dir, kubeletSocket))
		if err != nil && !waiting {
			s.log.Info("Waiting for kubelet: " + err.Error())
		}
		waiting = err != nil
		switch {
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

// answers reports whether somebody listens at path. Two plugins that took the
// socket from each other would leave kubelet without devices; the newer keeps it.
func answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	conn.Close()
	return true
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
		Version: pluginapi.Version, Endpoint: endpoint(s.resource), ResourceName: s.resource, Options: s.options(),
	})
	return err
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
