package plugin

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

var registerDefaults = partition.RegisterOptions{NodeName: "node-1"}

func quietLog(tb testing.TB) klog.Logger {
	deps, _ := testLogger(tb)
	return deps.Log
}

// failingStream fails to send.
type failingStream struct {
	grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]
	ctx context.Context
	err error
}

func (s failingStream) Context() context.Context                   { return s.ctx }
func (s failingStream) Send(*pluginapi.ListAndWatchResponse) error { return s.err }
