package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	cadvisor "github.com/google/cadvisor/info/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// ErrOtherNode is returned for a pod that is not bound to this node.
var ErrOtherNode = errors.New("pod is not bound to this node")

// Folder is where plugins put their sockets and find kubelet's.
const Folder = pluginapi.DevicePluginPath

// checkpoint is where the device manager keeps what it handed out.
const checkpoint = Folder + "kubelet_internal_checkpoint"

// Options describe the node. NodeName is required.
type Options struct {
	NodeName string
	// TopologyPolicy is kubelet's --topology-manager-policy: none, best-effort,
	// restricted or single-numa-node. Empty: none.
	TopologyPolicy string
	// NUMANodes are the node's NUMA ids, for policies other than none.
	NUMANodes []int
}

// Kubelet is the running device manager of one node. Its methods may be called
// from several goroutines; like kubelet it admits one pod at a time.
type Kubelet struct {
	client kubernetes.Interface
	o      Options

	admission sync.Mutex // held while a pod is admitted

	mu       sync.Mutex // guards what follows
	manager  *devicemanager.ManagerImpl
	handlers lifecycle.PodAdmitHandlers
	sources  *sources
	node     *corev1.Node // as of the last SyncNode
	pods     map[types.UID]*podState
}

// podState is what kubelet knows of a pod bound to its node.
type podState struct {
	pod      *corev1.Pod
	ended    bool     // rejected, Succeeded or Failed: its devices are free
	running  []string // containers the runtime would report as running
	finished []string // init containers that have run
}

// sources tells the device manager whether the API server's pods are known yet.
// kubelet sets it after it has handled the first list of pods.
type sources struct{ ready atomic.Bool }

func (s *sources) AddSource(string) {}
func (s *sources) AllReady() bool   { return s.ready.Load() }

// Start registers the node with the API server and starts the device manager,
// which listens for plugins from then on. The caller must call Stop.
func Start(ctx context.Context, client kubernetes.Interface, o Options) (*Kubelet, error) {
	if o.NodeName == "" {
		return nil, errors.New("start kubelet: no node name")
	}
	if o.TopologyPolicy == "" {
		o.TopologyPolicy = topologymanager.PolicyNone
	}
	k := &Kubelet{client: client, o: o, pods: map[types.UID]*podState{}}
	if err := k.startManager(); err != nil {
		return nil, err
	}
	k.sources.ready.Store(true)
	if err := k.SyncNode(ctx); err != nil {
		return nil, errors.Join(err, k.Stop())
	}
	return k, nil
}

// startManager builds the managers as kubelet's container manager does.
func (k *Kubelet) startManager() error {
	var numa []cadvisor.Node
	for _, id := range k.o.NUMANodes {
		numa = append(numa, cadvisor.Node{Id: id})
	}
	topology, err := topologymanager.NewManager(numa, k.o.TopologyPolicy, topologymanager.ContainerTopologyScope, nil)
	if err != nil {
		return fmt.Errorf("start kubelet's topology manager: %w", err)
	}
	// The checkpoint manager wants the folder before the socket is made.
	if err := os.MkdirAll(Folder, 0o750); err != nil {
		return fmt.Errorf("make the device plugin folder: %w", err)
	}
	manager, err := devicemanager.NewManagerImpl(numa, topology)
	if err != nil {
		return fmt.Errorf("start kubelet's device manager: %w", err)
	}
	topology.AddHintProvider(klog.Background(), manager)

	k.mu.Lock()
	containers, running := k.containers()
	k.manager, k.sources = manager, &sources{}
	// The order of kubelet: devices are allocated first, then the node's
	// resources are checked.
	k.handlers = lifecycle.PodAdmitHandlers{
		topology,
		lifecycle.NewPredicateAdmitHandler(k.getNode, noPreemption{}, manager.UpdatePluginResources),
	}
	ready := k.sources
	k.mu.Unlock()
	if err := manager.Start(klog.Background(), k.activePods, ready, containers, running); err != nil {
		return fmt.Errorf("start kubelet's device manager: %w", err)
	}
	return nil
}

// NodeName returns the name of the node.
func (k *Kubelet) NodeName() string { return k.o.NodeName }

// Stop ends the device manager: its socket goes away and plugins lose their
// streams. What it handed out stays in the checkpoint file.
func (k *Kubelet) Stop() error {
	if err := k.devices().Stop(klog.Background()); err != nil {
		return fmt.Errorf("stop kubelet's device manager: %w", err)
	}
	return nil
}

// RestartOptions say what else happened while kubelet was down.
type RestartOptions struct {
	// Reboot: no container runs any more.
	Reboot bool
	// Forget: the checkpoint file is gone, so kubelet must ask plugins again.
	Forget bool
	// BeforePods, when not nil, is called between the start of the device
	// manager and the admission of the pods. Use it to let the plugin register
	// first; by itself kubelet does not wait.
	BeforePods func() error
}

// Restart stops kubelet and starts it again on the same folder, where it
// removes every socket, the plugins' too. Then it admits the pods it knew, as
// kubelet does with the first list it gets. It returns those it rejected.
func (k *Kubelet) Restart(ctx context.Context, o RestartOptions) ([]*Rejection, error) {
	if err := k.Stop(); err != nil {
		return nil, err
	}
	if o.Forget {
		if err := os.Remove(checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove kubelet's checkpoint: %w", err)
		}
	}
	if o.Reboot {
		k.mu.Lock()
		for _, state := range k.pods {
			state.running, state.finished = nil, nil
		}
		k.mu.Unlock()
	}
	if err := k.startManager(); err != nil {
		return nil, err
	}
	if o.BeforePods != nil {
		if err := o.BeforePods(); err != nil {
			return nil, err
		}
	}
	pods := k.activePods()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	var rejections []*Rejection
	for _, pod := range pods {
		err := k.Admit(ctx, pod)
		var rejection *Rejection
		if errors.As(err, &rejection) {
			rejections = append(rejections, rejection)
		} else if err != nil {
			return rejections, err
		}
	}
	k.mu.Lock()
	ready := k.sources
	k.mu.Unlock()
	ready.ready.Store(true)
	return rejections, nil
}

// Capacity returns how many devices of a resource the plugins have announced,
// healthy or not, and how many of them are healthy.
func (k *Kubelet) Capacity(resource corev1.ResourceName) (total, healthy int64) {
	capacity, allocatable, _ := k.devices().GetCapacity()
	all, good := capacity[resource], allocatable[resource]
	return all.Value(), good.Value()
}

// DeviceIDs returns the device IDs kubelet holds for a container, per resource,
// sorted.
func (k *Kubelet) DeviceIDs(uid types.UID, container string) map[string][]string {
	ids := map[string][]string{}
	for resource, devices := range k.devices().GetDevices(string(uid), container) {
		for id := range devices {
			ids[resource] = append(ids[resource], id)
		}
		slices.Sort(ids[resource])
	}
	return ids
}

func (k *Kubelet) devices() *devicemanager.ManagerImpl {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.manager
}

// activePods are the pods whose devices are in use.
func (k *Kubelet) activePods() []*corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var pods []*corev1.Pod
	for _, state := range k.pods {
		if !state.ended {
			pods = append(pods, state.pod)
		}
	}
	return pods
}

// containers is what kubelet asks the container runtime when it starts: all
// containers there are, and which of them run. k.mu is held.
func (k *Kubelet) containers() (containermap.ContainerMap, sets.Set[string]) {
	all, running := containermap.NewContainerMap(), sets.New[string]()
	for uid, state := range k.pods {
		for _, name := range slices.Concat(state.running, state.finished) {
			all.Add(string(uid), name, string(uid)+"/"+name)
		}
		for _, name := range state.running {
			running.Insert(string(uid) + "/" + name)
		}
	}
	return all, running
}
