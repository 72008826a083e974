package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
)

// standIn is the least device plugin that kubelet accepts. It stands where the
// real one will, so that the harness can be tested by itself.
type standIn struct {
	pluginapi.UnimplementedDevicePluginServer
	resource string
	server   *grpc.Server

	mu      sync.Mutex        // guards what follows
	devices map[string]string // health by ID
	numa    map[string]int64  // NUMA node by ID, where known
	streams int               // ListAndWatch calls so far
	changed chan struct{}     // closed when devices change
	served  [][]string        // the device IDs of each Allocate call
	refuse  error             // what Allocate answers, if not nil
}

const standInSocket = "standin.sock"

// startStandIn serves count healthy devices; it registers when told to.
func startStandIn(t *testing.T, resource string, count int) *standIn {
	t.Helper()
	s := &standIn{resource: resource, devices: map[string]string{}, changed: make(chan struct{})}
	for i := range count {
		s.devices[fmt.Sprintf("gpu%d", i)] = pluginapi.Healthy
	}
	s.listen(t)
	return s
}

func (s *standIn) listen(t *testing.T) {
	t.Helper()
	path := filepath.Join(kubelet.Folder, standInSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	// The end of an older server must not remove the socket of a newer one.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(s.server, s)
	go s.server.Serve(l)
	t.Cleanup(s.server.Stop)
}

// register announces the plugin to kubelet.
func (s *standIn) register(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+pluginapi.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     standInSocket,
		ResourceName: s.resource,
		Options:      &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	})
	return err
}

func (s *standIn) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (s *standIn) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	s.mu.Lock()
	s.streams++
	s.mu.Unlock()
	for {
		s.mu.Lock()
		changed := s.changed
		var resp pluginapi.ListAndWatchResponse
		for _, id := range slices.Sorted(maps.Keys(s.devices)) {
			device := &pluginapi.Device{ID: id, Health: s.devices[id]}
			if node, ok := s.numa[id]; ok {
				device.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
			}
			resp.Devices = append(resp.Devices, device)
		}
		s.mu.Unlock()
		if err := stream.Send(&resp); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *standIn) setHealth(id, health string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[id] = health
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *standIn) setRefusal(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// calls returns the device IDs Allocate was asked for so far.
func (s *standIn) calls() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.served)
}

// GetPreferredAllocation prefers the highest IDs, so that a test can tell that
// kubelet asked.
func (s *standIn) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, r := range req.ContainerRequests {
		ids := slices.Clone(r.AvailableDeviceIDs)
		slices.Sort(ids)
		slices.Reverse(ids)
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids[:r.AllocationSize]})
	}
	return resp, nil
}

func (s *standIn) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &pluginapi.AllocateResponse{}
	for _, r := range req.ContainerRequests {
		ids := slices.Clone(r.DevicesIds)
		slices.Sort(ids)
		s.served = append(s.served, ids)
		if s.refuse != nil {
			return nil, s.refuse
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerAllocateResponse{
			Envs:    map[string]string{"STANDIN_DEVICES": strings.Join(ids, ","), "STANDIN_LIMIT": "1"},
			Devices: []*pluginapi.DeviceSpec{{HostPath: "/dev/null", ContainerPath: "/dev/kfd", Permissions: "rw"}},
			Mounts:  []*pluginapi.Mount{{HostPath: "/tmp", ContainerPath: "/usr/local/vgpu", ReadOnly: true}},
		})
	}
	return resp, nil
}

var errRefused = errors.New("the stand-in refuses")

// testContext ends before the test's own deadline is near.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// cleanupContext is for cleanups, where the test's own context has ended.
func cleanupContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newNamespace makes a namespace of the test's own, so that names are free in
// it. There is nobody who could empty one that is deleted, so it stays.
func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
