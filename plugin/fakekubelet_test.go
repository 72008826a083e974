package plugin

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// patience is how long tests wait for what has to happen; they fail after it.
const patience = 30 * time.Second

// fakeKubelet does what kubelet's device manager does with a plugin: it takes
// registrations, dials back during them, and reads ListAndWatch.
type fakeKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	tb  testing.TB
	dir string // the device-plugins folder

	rpc *grpc.Server

	mu       sync.Mutex
	refuse   error // what Register answers instead
	requests []*pluginapi.RegisterRequest
	clients  map[string]*fakeClient // the current one by resource
	all      []*fakeClient
	event    chan struct{} // closed at every change
	running  sync.WaitGroup
}

// fakeClient is one connection to a plugin.
type fakeClient struct {
	resource string
	conn     *grpc.ClientConn
	api      pluginapi.DevicePluginClient
	cancel   context.CancelFunc
	lists    [][]*pluginapi.Device
	size     int // bytes of the first message
	ended    bool
}

// newFakeKubelet makes a kubelet folder, with a short name because of the limit
// of socket paths, and starts no kubelet yet.
func newFakeKubelet(tb testing.TB) *fakeKubelet {
	tb.Helper()
	root, err := os.MkdirTemp("", "kl")
	if err != nil {
		tb.Fatal(err)
	}
	k := &fakeKubelet{tb: tb, dir: filepath.Join(root, "device-plugins"), event: make(chan struct{})}
	if err := os.Mkdir(k.dir, 0o750); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		k.stop()
		os.RemoveAll(root)
	})
	return k
}

func (k *fakeKubelet) root() string { return filepath.Dir(k.dir) }

// start removes all sockets, as kubelet does, and listens on its own.
func (k *fakeKubelet) start() {
	k.tb.Helper()
	names, err := filepath.Glob(filepath.Join(k.dir, "*"))
	if err != nil {
		k.tb.Fatal(err)
	}
	for _, name := range names {
		os.Remove(name)
	}
	listener, err := net.Listen("unix", filepath.Join(k.dir, "kubelet.sock"))
	if err != nil {
		k.tb.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // a kubelet that is killed leaves it
	k.mu.Lock()
	k.clients = make(map[string]*fakeClient)
	k.mu.Unlock()
	k.rpc = grpc.NewServer(grpc.WaitForHandlers(true))
	pluginapi.RegisterRegistrationServer(k.rpc, k)
	rpc := k.rpc
	k.running.Go(func() { rpc.Serve(listener) })
}

// stop is the end of kubelet's process: every connection breaks.
func (k *fakeKubelet) stop() {
	if k.rpc == nil {
		return
	}
	k.rpc.Stop()
	k.rpc = nil
	k.mu.Lock()
	for _, c := range k.all {
		c.cancel()
		c.conn.Close()
	}
	k.all = nil
	k.mu.Unlock()
	k.running.Wait()
}

func (k *fakeKubelet) changed() { close(k.event); k.event = make(chan struct{}) }

// Register dials back before it answers.
func (k *fakeKubelet) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	k.mu.Lock()
	k.requests = append(k.requests, r)
	refuse := k.refuse
	k.changed()
	k.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	path := filepath.Join(k.dir, r.Endpoint)
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	c := &fakeClient{resource: r.ResourceName, conn: conn, api: pluginapi.NewDevicePluginClient(conn)}
	opts, err := c.api.GetDevicePluginOptions(ctx, &pluginapi.Empty{})
	if err != nil || !opts.GetPreferredAllocationAvailable {
		conn.Close()
		return nil, errors.Join(errors.New("no useful options"), err)
	}
	run, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	k.mu.Lock()
	k.clients[r.ResourceName] = c
	k.all = append(k.all, c)
	k.mu.Unlock()
	k.running.Go(func() { k.watch(run, c) })
	return &pluginapi.Empty{}, nil
}

// watch reads one stream to its end. As kubelet does, it then drops whatever
// client the resource has by now.
func (k *fakeKubelet) watch(ctx context.Context, c *fakeClient) {
	stream, err := c.api.ListAndWatch(ctx, &pluginapi.Empty{})
	for err == nil {
		var resp *pluginapi.ListAndWatchResponse
		if resp, err = stream.Recv(); err == nil {
			k.mu.Lock()
			if len(c.lists) == 0 {
				c.size = proto.Size(resp)
			}
			c.lists = append(c.lists, resp.Devices)
			k.changed()
			k.mu.Unlock()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c.ended = true
	if now := k.clients[c.resource]; now != nil {
		now.cancel()
		now.conn.Close()
		delete(k.clients, c.resource)
	}
	k.changed()
}

// until waits for a condition over the kubelet's state.
func (k *fakeKubelet) until(what string, condition func() bool) {
	k.tb.Helper()
	deadline := time.After(patience)
	for {
		k.mu.Lock()
		ok, event := condition(), k.event
		k.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-event:
		case <-deadline:
			k.tb.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// devices waits until the resource has n devices, and returns them.
func (k *fakeKubelet) devices(resource string, n int) []*pluginapi.Device {
	k.tb.Helper()
	var out []*pluginapi.Device
	k.until(resource+" has its devices", func() bool {
		c := k.clients[resource]
		if c == nil || len(c.lists) == 0 {
			return false
		}
		out = c.lists[len(c.lists)-1]
		return len(out) == n
	})
	return out
}

// client is the current client of a resource.
func (k *fakeKubelet) client(resource string) *fakeClient {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clients[resource]
}

// registered is how often each resource was registered, in order.
func (k *fakeKubelet) registered() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, r := range k.requests {
		out = append(out, r.ResourceName)
	}
	slices.Sort(out)
	return out
}
