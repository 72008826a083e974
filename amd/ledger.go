package amd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// ErrHolding is in every error of SetPod: what the pod says it holds cannot be
// believed, and what was known of it before still stands.
var ErrHolding = errors.New("pod keeps what it held before")

// Ledger keeps the books of all nodes: which devices each has and which pod
// holds what of them. It is fed with nodes and pods as they are seen, in any
// order and as often as one likes, and comes to the same result; after a restart
// everything is read again from the pods' annotations. Its methods may be called
// from many goroutines at once. No object it is given is kept or changed.
type Ledger struct {
	devices *Devices

	// mu guards all below.
	mu    sync.RWMutex
	nodes map[string]*nodeBook
	order []*nodeBook // by name
	pods  map[types.UID]*podBook
}

// nodeBook is one node.
type nodeBook struct {
	name  string
	known bool   // SetNode has seen it; else only pods have named it
	value string // of the device list last read
	// fault is why the node gets no pods: broken annotations, no capacity.
	fault      error
	usage      []Usage
	index      map[string]int // device id to place in usage
	candidates []int          // places in usage of what HAMi takes for AMD devices
	groups     []groups       // of usage
	fills      []fill         // of usage
	score      float32        // of usage, see nodeScore
	pods       map[types.UID]*podBook
}

// podBook is one pod that holds something.
type podBook struct {
	namespace, name string
	node            string
	bound           bool
	assumed         bool // from Hold, not from annotations
	grants          annotations.PodGrants
	holdings        []Holding
}

// NewLedger returns empty books.
func NewLedger(d *Devices) *Ledger {
	return &Ledger{devices: d, nodes: map[string]*nodeBook{}, pods: map[types.UID]*podBook{}}
}

// SetNode takes in a node as it is now. When its device list cannot be read the
// last good one stays and is accounted for, the node gets no new pods, and the
// error says why.
func (l *Ledger) SetNode(node *corev1.Node) error {
	devices, err := l.devices.NodeDevices(node)
	cordon, cordonErr := annotations.ParseCordon(node.Annotations[annotations.DeviceCordonKey])
	if cordonErr != nil {
		cordonErr = fmt.Errorf("node %q: %w", node.Name, cordonErr)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.node(node.Name)
	n.known = true
	n.fault = errors.Join(err, cordonErr)
	// A status that lists no resources at all was written by hand.
	resources := node.Status.Allocatable
	if len(resources) == 0 {
		resources = node.Status.Capacity
	}
	if n.fault == nil && len(devices) > 0 && len(resources) > 0 && !l.devices.Healthy(resources) {
		n.fault = fmt.Errorf("node %q: offers no %s: want the device plugin running there with a healthy GPU", node.Name, l.devices.config.ResourceCountName)
	}
	if value := node.Annotations[annotations.NodeRegisterKey]; err == nil && (value != n.value || n.usage == nil) {
		n.value = value
		n.register(devices)
	}
	for i := range n.usage {
		n.usage[i].Cordoned = cordon.Has(n.usage[i].ID)
	}
	return errors.Join(err, cordonErr)
}

// node finds or makes the book of a node.
func (l *Ledger) node(name string) *nodeBook {
	n, ok := l.nodes[name]
	if !ok {
		n = &nodeBook{name: name, pods: map[types.UID]*podBook{}}
		l.nodes[name] = n
		i, _ := slices.BinarySearchFunc(l.order, name, (*nodeBook).compareName)
		l.order = slices.Insert(l.order, i, n)
	}
	return n
}

// register replaces the node's devices and adds up again who holds them.
func (n *nodeBook) register(devices []annotations.Device) {
	n.usage = make([]Usage, len(devices))
	n.index = make(map[string]int, len(devices))
	n.candidates = n.candidates[:0]
	for i := range devices {
		n.usage[i] = UsageOf(&devices[i])
		n.index[devices[i].ID] = i
		if strings.Contains(strings.ToUpper(devices[i].Type), Vendor) {
			n.candidates = append(n.candidates, i)
		}
	}
	n.groups = groupsOf(n.usage)
	n.recount()
}

// recount adds up what the pods hold. Devices that are gone are left out; they
// are counted again if they come back. Adding up anew, rather than subtracting
// what is released, cannot go wrong whatever numbers an annotation claims.
func (n *nodeBook) recount() {
	for i := range n.usage {
		n.usage[i].Used, n.usage[i].UsedMiB, n.usage[i].UsedCUs = 0, 0, 0
	}
	for _, p := range n.pods {
		n.count(n.usage, p)
	}
	n.summarize()
}

// summarize works out again what depends on the usage.
func (n *nodeBook) summarize() {
	n.fills = fillsOf(n.fills[:0], n.usage)
	n.score = nodeScore(n.usage)
}

func (n *nodeBook) count(usage []Usage, p *podBook) {
	for i := range p.holdings {
		h := &p.holdings[i]
		if at, ok := n.index[h.UUID]; ok {
			u := &usage[at]
			u.Used = saturate(u.Used, h.Shares)
			u.UsedMiB = saturate(u.UsedMiB, h.MemoryMiB)
			u.UsedCUs = saturate(u.UsedCUs, h.CUs)
		}
	}
}

// RemoveNode drops a node that is gone. Its pods' holdings stay until the pods
// are gone too, in case it returns.
func (l *Ledger) RemoveNode(name string) {
	l.devices.ForgetNode(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.nodes[name]
	if !ok {
		return
	}
	n.known, n.value, n.fault = false, "", nil
	n.usage, n.index, n.candidates, n.groups, n.fills = nil, nil, nil, nil, nil
	l.drop(n)
}

// drop forgets a book that neither a node nor a pod needs.
func (l *Ledger) drop(n *nodeBook) {
	if n.known || len(n.pods) > 0 {
		return
	}
	delete(l.nodes, n.name)
	if i, ok := slices.BinarySearchFunc(l.order, n.name, (*nodeBook).compareName); ok {
		l.order = slices.Delete(l.order, i, i+1)
	}
}

func (n *nodeBook) compareName(name string) int { return strings.Compare(n.name, name) }

// SetPod takes in a pod as it is now: what it holds by its annotation
// hami.io/amd-devices-allocated on the node it is bound to, or was chosen for. A
// pod that is being deleted still holds its devices; one that has succeeded or
// failed holds nothing any more.
//
// An annotation that cannot be read, does not match the containers that ask for
// GPUs, or is another one than before although the pod is bound, is an error;
// what the pod held before stays, and no other pod is touched.
func (l *Ledger) SetPod(pod *corev1.Pod) error {
	uid := podUID(pod)
	if finished(pod) {
		l.RemovePod(uid)
		return nil
	}
	book, err := l.read(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.pods[uid]
	if old != nil && err == nil {
		bound := pod.Spec.NodeName
		switch {
		case old.assumed && bound != "" && bound != old.node:
			// Another scheduler was faster: only schedulers bind pods.
		case old.assumed && book == nil && bound == "":
			return nil // the decision has not reached the annotations yet
		case (old.bound || old.assumed) && !old.same(book):
			err = errors.New("its devices are not those that the scheduler chose")
		}
	}
	if err != nil {
		return fmt.Errorf("pod %s/%s: annotation %s: %w: %w", pod.Namespace, pod.Name, annotations.AllocatedKey, err, ErrHolding)
	}
	l.replace(uid, book)
	return nil
}

// finished pods have no running container and never will again.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podUID is the pod's uid, or for one written by hand its name.
func podUID(pod *corev1.Pod) types.UID {
	if pod.UID != "" {
		return pod.UID
	}
	return types.UID(pod.Namespace + "/" + pod.Name)
}

// read is what a pod's annotations say it holds, nil for nothing.
func (l *Ledger) read(pod *corev1.Pod) (*podBook, error) {
	value, ok := pod.Annotations[annotations.AllocatedKey]
	if !ok {
		return nil, nil
	}
	node := pod.Spec.NodeName
	if node == "" {
		node = pod.Annotations[annotations.VGPUNodeKey]
	}
	if node == "" {
		return nil, errors.New("the pod has no node")
	}
	grants, err := annotations.DecodePod(value)
	if err != nil {
		return nil, err
	}
	return l.book(pod, node, grants)
}

// book checks grants against the containers of the pod they are for.
func (l *Ledger) book(pod *corev1.Pod, node string, grants annotations.PodGrants) (*podBook, error) {
	grants, err := grants.Align(l.devices.Asks(pod))
	if err != nil {
		return nil, err
	}
	for i, ctr := range podContainers(pod) {
		// A request that cannot be read was not checked by whoever granted it.
		if r, err := l.devices.Request(ctr); err == nil && int(r.Count) != len(grants[i]) {
			return nil, fmt.Errorf("container %q: want %d devices, found %d", ctr.Name, r.Count, len(grants[i]))
		}
	}
	return &podBook{
		namespace: pod.Namespace, name: pod.Name, node: node, bound: pod.Spec.NodeName != "",
		grants: grants, holdings: Peak(pod, grants),
	}, nil
}

// Hold books a decision before the pod's annotations carry it. The annotations
// replace it once they are there; RemovePod takes it back.
func (l *Ledger) Hold(pod *corev1.Pod, node string, grants annotations.PodGrants) error {
	book, err := l.book(pod, node, grants)
	if err != nil {
		return fmt.Errorf("pod %s/%s: hold devices on node %q: %w", pod.Namespace, pod.Name, node, err)
	}
	book.assumed = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.pods[podUID(pod)]; old != nil && old.bound {
		return fmt.Errorf("pod %s/%s: hold devices on node %q: the pod is bound to node %q", pod.Namespace, pod.Name, node, old.node)
	}
	l.replace(podUID(pod), book)
	return nil
}

// RemovePod frees what a pod holds, however its end was learned: deleted, seen
// finished, or missing from a list after a watch broke. A second call, or one
// for a pod nobody knows, changes nothing.
func (l *Ledger) RemovePod(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replace(uid, nil)
}

// replace puts book, which may be nil, in place of what the pod held.
func (l *Ledger) replace(uid types.UID, book *podBook) {
	if old := l.pods[uid]; old != nil {
		n := l.nodes[old.node]
		delete(n.pods, uid)
		delete(l.pods, uid)
		n.recount()
		if book == nil || book.node != old.node {
			l.drop(n)
		}
	}
	if book == nil || len(book.holdings) == 0 {
		return
	}
	n := l.node(book.node)
	n.count(n.usage, book)
	n.summarize()
	n.pods[uid] = book
	l.pods[uid] = book
}

// same reports whether two books have the same grants on the same node.
func (p *podBook) same(o *podBook) bool {
	return o != nil && p.node == o.node && slices.EqualFunc(p.grants, o.grants, slices.Equal[[]annotations.Grant])
}

// Usage returns what is in use of a node's devices, in the order the node
// registered them; nil for a node without devices.
func (l *Ledger) Usage(node string) []Usage {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n, ok := l.nodes[node]; ok {
		return slices.Clone(n.usage)
	}
	return nil
}

// A PodHolding is what one pod holds on a node.
type PodHolding struct {
	UID             types.UID
	Namespace, Name string
	// Holdings are its devices, those that the node no longer has included.
	Holdings []Holding
	// Stale are the ids of the latter.
	Stale []string
}

// Pods returns who holds what on a node, by namespace and name.
func (l *Ledger) Pods(node string) []PodHolding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, ok := l.nodes[node]
	if !ok {
		return nil
	}
	var pods []PodHolding
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		p := n.pods[uid]
		h := PodHolding{UID: uid, Namespace: p.namespace, Name: p.name, Holdings: slices.Clone(p.holdings)}
		for i := range p.holdings {
			if _, ok := n.index[p.holdings[i].UUID]; !ok {
				h.Stale = append(h.Stale, p.holdings[i].UUID)
			}
		}
		pods = append(pods, h)
	}
	slices.SortStableFunc(pods, func(a, b PodHolding) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return pods
}
