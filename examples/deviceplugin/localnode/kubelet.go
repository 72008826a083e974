package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is as much of kubelet's device manager as it takes to see what a
// plugin registers and lists.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir      string
	listener net.Listener

	mu  sync.Mutex // of out
	out io.Writer

	streams context.Context // ends with serve
	wait    sync.WaitGroup  // for the streams
}

// listen makes kubelet's socket in its directory of device plugins.
func listen(dir string, out io.Writer) (*kubelet, error) {
	path := filepath.Join(dir, "kubelet.sock")
	// sockaddr_un has room for 108 bytes, the last of them zero.
	if len(path) > 107 {
		return nil, fmt.Errorf("%q: want a path of at most 107 bytes for a socket: choose a shorter directory", path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return &kubelet{dir: dir, listener: l, out: out}, nil
}

// serve answers until ctx ends.
func (k *kubelet) serve(ctx context.Context) error {
	k.streams = ctx
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	pluginapi.RegisterRegistrationServer(server, k)
	stopped := context.AfterFunc(ctx, server.Stop)
	defer stopped()
	err := server.Serve(k.listener)
	k.wait.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (k *kubelet) say(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fmt.Fprintf(k.out, format+"\n", args...)
}

// Register dials back, as kubelet does before it answers, and follows the
// plugin's list of devices from then on.
func (k *kubelet) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if r.Version != pluginapi.Version || filepath.Base(r.Endpoint) != r.Endpoint {
		return nil, fmt.Errorf("register %q: want version %s and the name of a socket, found %q and %q",
			r.ResourceName, pluginapi.Version, r.Version, r.Endpoint)
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.dir, r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	plugin := pluginapi.NewDevicePluginClient(conn)
	if _, err := plugin.GetDevicePluginOptions(ctx, &pluginapi.Empty{}); err != nil {
		conn.Close()
		return nil, err
	}
	k.say("%s registered by %s", r.ResourceName, r.Endpoint)
	k.wait.Go(func() {
		defer conn.Close()
		k.follow(r.ResourceName, plugin)
	})
	return &pluginapi.Empty{}, nil
}

func (k *kubelet) follow(resource string, plugin pluginapi.DevicePluginClient) {
	stream, err := plugin.ListAndWatch(k.streams, &pluginapi.Empty{})
	for err == nil {
		var list *pluginapi.ListAndWatchResponse
		if list, err = stream.Recv(); err != nil {
			break
		}
		healthy := 0
		for _, d := range list.Devices {
			if d.Health == pluginapi.Healthy {
				healthy++
			}
		}
		k.say("%s: %d devices, %d of them healthy", resource, len(list.Devices), healthy)
	}
	if k.streams.Err() == nil && !errors.Is(err, context.Canceled) {
		k.say("%s is gone", resource)
	}
}
