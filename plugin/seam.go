package plugin

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook/image"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Deps are the living things a plugin works with; Config is what it is told.
type Deps struct {
	// Client talks to the API server, in group version v1: what NewClient
	// returns, or CoreV1().RESTClient() of a clientset. Required, except in
	// standalone mode, which does not use it.
	Client rest.Interface
	// Log gets what the plugin has to say; the zero value discards it.
	Log klog.Logger
	// Now is the clock of everything that is written down, time.Now if nil.
	Now func() time.Time
	// Images is where the images of the node are looked at when
	// Config.MuslFailClosed is set; nil is the containerd at
	// Config.ContainerdSocket, or ctr at Config.CtrPath.
	Images image.Store
}

// snapshot is what the node offers at one moment. It is never changed once it
// is published, so that it may be kept and read without a lock.
type snapshot struct {
	// Devices is what is registered, in ascending order of PCI address,
	// partitions of one GPU in ascending order of their index. Those of other
	// resources than amd.com/gpu are kubelet's alone: see Entries.
	Devices []partition.Registered
	// Inventory is where Devices come from; it has the excluded GPUs too.
	Inventory *partition.Inventory
	// Mode is the operating mode the node started in.
	Mode partition.OperatingMode
	// Notes are what discovery and registration noticed, one line each.
	Notes []string

	byID      map[string]int // register ID -> index into Devices
	byKubelet map[string]int // kubelet device ID -> index into Devices
	gpuOf     []int          // index into Devices -> number of its GPU
	distance  distances      // between the GPUs by these numbers
}

// newSnapshot builds the indexes over a registration. The devices must have
// distinct IDs, as those of a partition.Registration do.
func newSnapshot(devices []partition.Registered, inv *partition.Inventory, mode partition.OperatingMode, notes []string) *snapshot {
	s := &snapshot{Devices: devices, Inventory: inv, Mode: mode, Notes: notes,
		byID: make(map[string]int, len(devices)), byKubelet: make(map[string]int, len(devices))}
	for i := range devices {
		s.byID[devices[i].ID] = i
		for _, id := range devices[i].KubeletIDs {
			s.byKubelet[id] = i
		}
	}
	var gpus []*partition.GPU
	s.gpuOf, gpus = gpuIndexes(devices)
	s.distance = measure(gpus)
	return s
}

// Entries are the devices HAMi schedules, as the register annotation lists
// them.
func (s *snapshot) Entries() []annotations.Device {
	return (&partition.Registration{Devices: s.Devices}).Entries()
}

// Device finds a device by the ID it is registered under.
func (s *snapshot) Device(id string) (*partition.Registered, bool) {
	i, ok := s.byID[id]
	if !ok {
		return nil, false
	}
	return &s.Devices[i], true
}

// ByKubeletID finds the device behind a device ID of kubelet's, a share of it
// or all of it.
func (s *snapshot) ByKubeletID(id string) (*partition.Registered, bool) {
	i, ok := s.byKubelet[id]
	if !ok {
		return nil, false
	}
	return &s.Devices[i], true
}

// snapshotSource has the node's devices as they are now.
type snapshotSource interface {
	// Snapshot is never nil.
	Snapshot() *snapshot
	// PrepareCDI returns once a container runtime can resolve the CDI names of
	// every device of the snapshot, and does nothing where CDI is off. After
	// an error no CDI name may be handed out.
	PrepareCDI(*snapshot) error
}

// pending is what the API server's side knows when kubelet asks which devices to
// take.
type pending struct {
	// granted are the devices that the scheduler granted to the containers of
	// the node lock's owner: one list of register IDs per container request, in
	// the order of the grants. nil is no owner that waits, a nil list a request
	// the grants do not fit.
	granted [][]string
	// served are the containers of live pods that have their devices, those of
	// one pod in the order of its spec.
	served []servedContainer
	// others tells that live pods ask for devices and have none.
	others bool
}

// servedContainer is a container with the device IDs it was given.
type servedContainer struct {
	pod types.UID
	ids []string
}

// allocator answers kubelet's Allocate calls and keeps the API server's view
// of the node.
type allocator interface {
	// Allocate answers for one call of one resource: one list of kubelet
	// device IDs per container request, one response for each.
	Allocate(ctx context.Context, resource string, containers [][]string) (*pluginapi.AllocateResponse, error)
	// Pending is what is known of the containers that kubelet asks for next.
	// sizes are how many devices each request wants. What was read for it is
	// kept for the Allocate that follows.
	Pending(ctx context.Context, resource string, sizes []int) pending
	// Starts is told before a container with these kubelet device IDs starts,
	// for the first time or again. An error keeps it from starting.
	Starts(resource string, ids []string) error
	// Run does the work in the background: publication, events, caps, garbage
	// collection. It returns when ctx ends.
	Run(ctx context.Context) error
	// DevicesChanged tells about each new snapshot after the first. It must
	// not block.
	DevicesChanged(prev, next *snapshot)
}
