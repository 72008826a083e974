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
	"k8s.io/client-go/kubernetes"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// kubelet is as much of kubelet's device manager as it takes to see what a
// plugin registers and lists, and to have it serve pods one at a time.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir      string
	listener net.Listener
	client   kubernetes.Interface // nil: there is no API server

	mu        sync.Mutex
	out       io.Writer
	resources map[string]*resource

	streams context.Context // ends with serve
	wait    sync.WaitGroup  // for the streams
}

// resource is what a plugin has registered.
type resource struct {
	plugin  pluginapi.DevicePluginClient
	options *pluginapi.DevicePluginOptions
	devices []*pluginapi.Device // as listed last
}

// listen makes kubelet's socket in its directory of device plugins.
func listen(dir string, client kubernetes.Interface, out io.Writer) (*kubelet, error) {
	path := filepath.Join(dir, "kubelet.sock")
	// sockaddr_un has room for 108 bytes, the last of them zero.
	if len(path) > 107 {
		return nil, fmt.Errorf("%q: want a path of at most 107 bytes for a socket: choose a shorter directory", path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return &kubelet{dir: dir, listener: l, client: client, out: out, resources: make(map[string]*resource)}, nil
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
	options, err := plugin.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil {
		conn.Close()
		return nil, err
	}
	served := &resource{plugin: plugin, options: options}
	k.mu.Lock()
	k.resources[r.ResourceName] = served
	k.mu.Unlock()
	k.say("%s registered by %s", r.ResourceName, r.Endpoint)
	k.wait.Go(func() {
		defer conn.Close()
		k.follow(r.ResourceName, served)
	})
	return &pluginapi.Empty{}, nil
}

// follow takes over what the plugin lists until it ends. Its resource has no
// devices then, if it was not registered anew.
func (k *kubelet) follow(name string, r *resource) {
	stream, err := r.plugin.ListAndWatch(k.streams, &pluginapi.Empty{})
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
		k.mu.Lock()
		r.devices = list.Devices
		k.mu.Unlock()
		k.say("%s: %d devices, %d of them healthy", name, len(list.Devices), healthy)
		k.publish(name, len(list.Devices), healthy)
	}
	k.mu.Lock()
	if k.resources[name] == r {
		delete(k.resources, name)
	}
	k.mu.Unlock()
	if k.streams.Err() == nil && !errors.Is(err, context.Canceled) {
		k.say("%s is gone", name)
	}
}
