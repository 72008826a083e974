package plugin

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// underway counts kubelet's calls that wait for an answer, all but ListAndWatch.
// It is a stats.Handler because gRPC reports the end of a call there after it has
// sent the answer, and an interceptor would know only that there is one.
type underway struct {
	mu    sync.Mutex
	calls int
	idle  chan struct{} // closed when the last call has ended; nil if there is none
}

// counted marks the context of a call that counts.
type counted struct{}

// TagRPC implements stats.Handler.
func (u *underway) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName == pluginapi.DevicePlugin_ListAndWatch_FullMethodName {
		return ctx
	}
	return context.WithValue(ctx, counted{}, true)
}

// HandleRPC implements stats.Handler.
func (u *underway) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if ctx.Value(counted{}) == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch s.(type) {
	case *stats.Begin:
		if u.calls++; u.calls == 1 {
			u.idle = make(chan struct{})
		}
	case *stats.End:
		if u.calls--; u.calls == 0 {
			close(u.idle)
			u.idle = nil
		}
	}
}

// TagConn implements stats.Handler.
func (u *underway) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (u *underway) HandleConn(context.Context, stats.ConnStats) {}

// wait returns when no call is under way, at the latest after most.
func (u *underway) wait(most time.Duration) {
	u.mu.Lock()
	idle := u.idle
	u.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
