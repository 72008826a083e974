package plugin

import (
	"testing"
	"time"

	"google.golang.org/grpc/stats"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestUnderwayWaitsForTheLastCall(t *testing.T) {
	u := new(underway)
	call := func(method string) (end func()) {
		ctx := u.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: method})
		u.HandleRPC(ctx, &stats.Begin{})
		return func() { u.HandleRPC(ctx, &stats.End{}) }
	}
	endOfStream := call(pluginapi.DevicePlugin_ListAndWatch_FullMethodName)
	u.wait(time.Hour) // not for streams

	first, second := call(pluginapi.DevicePlugin_Allocate_FullMethodName), call(pluginapi.DevicePlugin_GetPreferredAllocation_FullMethodName)
	first()
	u.wait(time.Millisecond) // and not for ever
	if u.idle == nil {
		t.Error("idle with a call under way")
	}
	waited := make(chan struct{})
	go func() { u.wait(time.Hour); close(waited) }()
	second()
	<-waited
	endOfStream()
	u.wait(time.Hour)
	if u.calls != 0 || u.idle != nil {
		t.Errorf("%d calls are under way, want none", u.calls)
	}
}
