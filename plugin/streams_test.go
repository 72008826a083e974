package plugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// failingStream fails to send.
type failingStream struct {
	grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]
	ctx context.Context
	err error
}

func (s failingStream) Context() context.Context                   { return s.ctx }
func (s failingStream) Send(*pluginapi.ListAndWatchResponse) error { return s.err }

// A Send that fails ends ListAndWatch and makes the plugin register again.
func TestC45SendFails(t *testing.T) {
	d := newDevices(Config{}, "", quietLog(t))
	d.publish(machineSnapshot(t, "rx7900xtx", registerDefaults))
	s := newServer("amd.com/gpu", &Plugin{times: impatient()}, &socketFolder{}, d, &stubAllocator{})
	want := errors.New("transport is closing")
	if err := s.ListAndWatch(nil, failingStream{ctx: t.Context(), err: want}); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
	select {
	case <-s.ended:
	default:
		t.Error("the end was not announced")
	}
}

func TestEndStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("amd.com/gpu", &Plugin{times: impatient()}, &socketFolder{}, nil, nil)
		if !s.endStreams() {
			t.Error("no stream did not end")
		}
		for range 2 {
			cut := s.streamBegins()
			go func() {
				<-cut
				time.Sleep(time.Second)
				s.streamEnds()
			}()
		}
		if !s.endStreams() {
			t.Error("two streams did not end")
		}
		select {
		case <-s.ended:
			t.Error("streams that we ended ask for another registration")
		case <-s.streamBegins():
			t.Error("the next stream is cut from the start")
		default:
		}
		// Kubelet does not read, and Send hangs.
		if s.endStreams() {
			t.Error("a stream that hangs has ended")
		}
		s.streamEnds()
		if !s.endStreams() {
			t.Error("after it let go")
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff{times: defaultTimes()}
		var got []time.Duration
		for range 8 {
			got = append(got, b.next())
		}
		ms := time.Millisecond
		want := []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10000 * ms, 10000 * ms}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		b.registered()
		time.Sleep(time.Second)
		if got := b.next(); got != 10*time.Second {
			t.Errorf("%v after a registration that did not last", got)
		}
		b.registered()
		time.Sleep(time.Minute)
		if got := b.next(); got != 200*ms {
			t.Errorf("%v after one that lasted", got)
		}
	})
}
