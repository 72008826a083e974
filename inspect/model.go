package inspect

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Options say how a cluster is read. The zero value works.
type Options struct {
	// Devices is the scheduler's configuration: the resource names above all.
	// nil is HAMi's defaults.
	Devices *amd.Devices
	// Now is when the objects were read. Default is the time of the call.
	Now time.Time
	// Grace is how long a pod may be on its way between scheduler, kubelet and
	// device plugin. 0 means [DefaultGrace].
	Grace time.Duration
	// LockTimeout is the scheduler's --node-lock-timeout. 0 means
	// annotations.DefaultLockTimeout.
	LockTimeout time.Duration
}

// DefaultGrace is well above what kubelet and plugin need for a pod, a few
// seconds, and below what makes people ask.
const DefaultGrace = time.Minute

// Cluster is what nodes and pods say about a cluster's AMD GPUs.
type Cluster struct {
	// Nodes are those that register AMD GPUs, carry an annotation of the AMD
	// protocol or offer an amd.com/* resource, by name.
	Nodes []*Node
	// Pods are those that ask for AMD GPUs or carry an annotation of the AMD
	// protocol, by namespace and name.
	Pods []*Pod
	// Problems are those that belong to no node and no pod. See All for the rest.
	Problems []Problem

	nodes map[string]*Node
	pods  map[types.UID]bool
	read  reader
	// all are the nodes and pods as they were given, for Explain.
	allNodes []*corev1.Node
	allPods  []*corev1.Pod
	offered  map[corev1.ResourceName]bool // by any node
}

// Node is one node.
type Node struct {
	Name string
	// Mode is "partition" where a device is registered as a compute partition or
	// a hard whole GPU, "cu" where all are shared by compute units, "" without
	// devices.
	Mode string
	// Lock is the node lock, nil for none or one that cannot be read.
	Lock *annotations.NodeLock
	// GPUs are the registered devices in the order in which the node lists them.
	GPUs []*GPU
	// Problems are those of the node as a whole.
	Problems []Problem

	object  *corev1.Node
	gpus    map[string]*GPU
	fault   error // why the register annotation cannot be read
	lockErr error
	pods    []*Pod // that hold something
}

// GPU finds a registered device by its id, nil if there is none.
func (n *Node) GPU(id string) *GPU {
	if n == nil {
		return nil
	}
	return n.gpus[id]
}

// GPU is one registered device: a whole GPU, or one compute partition of it.
type GPU struct {
	Device   annotations.Device
	Geometry cumask.Geometry
	// Node is the name of the node.
	Node string
	// Physical is the PCI address of the GPU the device is or is a part of:
	// partitions of one GPU share it. Where none is registered it is the id.
	Physical string
	// Hard devices are granted whole, to one container: compute partitions.
	Hard bool
	// Cordoned devices get no new pods (hami.io/device-cordon).
	Cordoned bool

	// Tenants are the containers that hold a part of it, in the order of
	// Cluster.Pods and of the containers. An ordinary init container is among
	// them for as long as its pod lives, since kubelet may run it again.
	Tenants []*Tenant
	// Used are the CUs that the masks of the tenants name, as far as they can be
	// true: a mask that is larger than its grant takes nothing from others.
	Used cumask.Set
	// Shares, GrantedMiB and GrantedCUs add up what the pods may hold at once:
	// an init container and the app containers after it count once (amd.Peak).
	Shares, GrantedCUs int
	GrantedMiB         int64
	// Problems are those of the device, not of one tenant.
	Problems []Problem
}

// Pod is one pod.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Node is where it runs or, before it is bound, which node was chosen; ""
	// when none is.
	Node  string
	Phase corev1.PodPhase
	// Bound: kubelet knows of it. Terminating: it is being deleted and holds its
	// devices until it is gone. Finished: succeeded or failed, holds nothing.
	Bound, Terminating, Finished bool
	// Served: the device plugin has handed out all it was granted.
	Served bool
	// Tenants are what its containers hold, one for each container and device.
	Tenants []*Tenant
	// Problems are those of the pod, not of one tenant.
	Problems []Problem

	object *corev1.Pod
	asks   []bool
	grants annotations.PodGrants // aligned with the containers
	masks  masks
	// waiting is hami.io/amd-devices-to-allocate.
	waiting annotations.PodGrants

	grantsErr, alignErr, waitingErr error
}

// Tenant is what one container holds of one device.
type Tenant struct {
	Namespace, Pod, Container string
	UID                       types.UID
	// Node and Device name the GPU. The node may not have it.
	Node, Device string
	// Init: an ordinary init container, which runs before the others and does
	// not share the device with them. Sidecar: one that keeps running.
	Init, Sidecar bool
	Phase         corev1.PodPhase
	Terminating   bool
	// Type is the product type in the grant.
	Type string
	// MemoryMiB and CUs are what was granted; 0 CUs is a slice of memory alone.
	MemoryMiB, CUs int32
	// Whole: the container has the device to itself, without mask or limit.
	Whole bool
	// Mask are the CUs the device plugin handed out. Empty: none yet, or none of
	// its own.
	Mask cumask.Set
	// Effective are the effective CUs of the mask (cumask.Geometry.Effective), of
	// a whole device all of them; 0 without a mask.
	Effective int
	// Problems are those of this holding.
	Problems []Problem

	tooLarge   bool       // the device could not take the grant even when idle
	maskBroken bool       // the mask cannot be what was handed out
	podMask    cumask.Set // of the pod, where its containers' own are not known
}

// New reads a cluster. It never fails: what cannot be read is a problem of the
// object that has it.
func New(nodes []*corev1.Node, pods []*corev1.Pod, o Options) *Cluster {
	if o.Devices == nil {
		// The defaults are always a valid configuration.
		o.Devices, _ = amd.New(amd.Config{})
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.LockTimeout = cmp.Or(o.LockTimeout, annotations.DefaultLockTimeout)
	c := &Cluster{read: reader{Options: o}, nodes: map[string]*Node{}, pods: map[types.UID]bool{}, allNodes: nodes, allPods: pods, offered: offers(nodes)}
	for _, node := range nodes {
		if node != nil {
			c.addNode(node)
		}
	}
	for _, pod := range pods {
		if pod != nil {
			c.addPod(pod)
		}
	}
	slices.SortFunc(c.Nodes, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Pods, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range c.Pods {
		c.place(pod)
	}
	c.verify()
	return c
}

// reader is what all that reads the objects needs.
type reader struct{ Options }
