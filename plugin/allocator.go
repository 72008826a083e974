package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

// hamiAllocator serves what HAMi's scheduler granted.
type hamiAllocator struct {
	cfg       Config
	timing    timing
	log       klog.Logger
	now       func() time.Time
	src       snapshotSource
	cluster   *cluster
	scheduler *amd.Devices // to read pods as the scheduler does
	ledger    *ledger
	dirs      *hook.Containers
	gate      *hookGate
	caps      *capper
	responder *responder
	debts     *debts
	events    *eventSender
	reports   *reporter
	publisher *publisher
	watch     *podWatch

	// turn is taken for each call: the node has one lock, and what a call
	// decides must be recorded before the next decides.
	turn     chan struct{}
	ended    chan struct{}     // closed when Run is over
	kept     *view             // by Pending
	repeated map[types.UID]int // the container that was answered again last

	adoption sync.Mutex
	adopted  bool // in adoption
}

// newAllocator makes the allocator that the configuration asks for.
func newAllocator(cfg Config, deps Deps, src snapshotSource) (allocator, error) {
	if cfg.Standalone {
		return &wholeAllocator{src: src, respond: newResponder(cfg, src, deps.Log)}, nil
	}
	return newHamiAllocator(cfg, deps, src, defaultTiming())
}

func newHamiAllocator(cfg Config, deps Deps, src snapshotSource, timing timing) (*hamiAllocator, error) {
	if deps.Client == nil {
		return nil, errors.New("plugin: want a client for the API server")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	scheduler, err := amd.New(amd.Config{})
	if err != nil {
		return nil, err
	}
	ledger, broken, err := openLedger(cfg.HookPath)
	if err != nil {
		return nil, err
	}
	if broken != nil {
		deps.Log.Error(broken, "What was handed out is read from the pods' annotations instead")
	}
	dirs, err := hook.OpenContainers(cfg.HookPath)
	if err != nil {
		ledger.close()
		return nil, err
	}
	gate, err := newHookGate(cfg, deps)
	if err != nil {
		ledger.close()
		return nil, errors.Join(err, dirs.Close())
	}
	c := &cluster{client: deps.Client, node: cfg.NodeName, request: timing.request}
	events := newEventSender(c, deps)
	a := &hamiAllocator{
		cfg: cfg, timing: timing, log: deps.Log, now: deps.Now, src: src, cluster: c, scheduler: scheduler,
		ledger: ledger, dirs: dirs, gate: gate, caps: newCapper(openDmem(cfg, deps.Log), deps.Log),
		debts: newDebts(c, deps.Log), events: events, reports: newReporter(deps.Log, events),
		publisher: newPublisher(cfg, deps, c, events, timing),
		responder: newResponder(cfg, src, deps.Log),
		turn:      make(chan struct{}, 1), ended: make(chan struct{}), repeated: make(map[types.UID]int),
	}
	a.watch = newPodWatch(a)
	return a, nil
}

// Run implements allocator. Calls that come after it has returned are refused.
func (a *hamiAllocator) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	tasks.Go(func() { a.events.run(ctx) })
	tasks.Go(func() { a.debts.run(ctx) })
	tasks.Go(func() { a.caps.run(ctx) })
	tasks.Go(func() { a.watch.run(ctx) })
	tasks.Go(func() {
		// The first look compares with what the pods hold.
		select {
		case <-a.watch.listed:
			a.publisher.run(ctx, a.src, a.watch.holders)
		case <-ctx.Done():
		}
	})
	tasks.Wait()
	a.turn <- struct{}{} // the call that is under way
	close(a.ended)
	a.ledger.close()
	return errors.Join(a.dirs.Close(), a.gate.close(), a.caps.close())
}

// DevicesChanged implements allocator.
func (a *hamiAllocator) DevicesChanged(prev, next *snapshot) { a.publisher.devicesChanged(prev, next) }

// Allocate implements allocator.
func (a *hamiAllocator) Allocate(ctx context.Context, resource string, containers [][]string) (*pluginapi.AllocateResponse, error) {
	snap := a.src.Snapshot()
	if resource != partition.ResourceGPU {
		return wholeAnswer(a.responder, snap, resource, containers)
	}
	if len(containers) == 0 {
		return &pluginapi.AllocateResponse{}, nil // nobody is asked for: no CUs are taken
	}
	ctx, cancel := context.WithTimeout(ctx, a.timing.answer)
	defer cancel()
	if err := a.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer a.endTurn()

	call := &call{ids: containers, snap: snap}
	var refused *refusal
	if v := a.keptView(); v != nil {
		var response *pluginapi.AllocateResponse
		if response, refused = a.answer(ctx, call, v); refused == nil {
			return response, nil
		}
		if errors.Is(refused.err, errUncertain) {
			a.refuse(ctx, refused)
			return nil, fmt.Errorf("allocate %s: %w", resource, refused.err)
		}
		// What was true for GetPreferredAllocation may not be any more.
	}
	if v, err := a.look(ctx); err == nil {
		var response *pluginapi.AllocateResponse
		if response, refused = a.answer(ctx, call, v); refused == nil {
			return response, nil
		}
	} else if refused == nil {
		refused = &refusal{err: err}
	}
	a.refuse(ctx, refused)
	return nil, fmt.Errorf("allocate %s: %w", resource, refused.err)
}

// call is one Allocate call.
type call struct {
	ids  [][]string
	snap *snapshot
}

func (c *call) sizes() []int {
	sizes := make([]int, len(c.ids))
	for i, ids := range c.ids {
		sizes[i] = len(ids)
	}
	return sizes
}

// check refuses IDs the node does not have, and one twice. The devices follow
// from the grants; the IDs say that kubelet and plugin talk about the same
// node.
func (c *call) check() error {
	seen := make(map[string]bool)
	for _, ids := range c.ids {
		for _, id := range ids {
			d, ok := c.snap.ByKubeletID(id)
			switch {
			case !ok || d.Resource != partition.ResourceGPU:
				return fmt.Errorf("device ID %q: no such %s on this node", id, partition.ResourceGPU)
			case seen[id]:
				return fmt.Errorf("device ID %q is asked for twice", id)
			}
			seen[id] = true
		}
	}
	return nil
}

// refusal is an answer that cannot be given.
type refusal struct {
	err error
	// owner is the pod that fails because of it, with its lock; nil where the
	// call says nothing about the owner, which may still be served.
	owner *corev1.Pod
	lock  string
}

// refuse fails the owner and frees the node for the next pod. It has time of
// its own: also a call that ran out of time must not leave the lock behind.
func (a *hamiAllocator) refuse(ctx context.Context, r *refusal) {
	if r.owner == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timing.cleanup)
	defer cancel()
	a.debts.settle(ctx, debt{
		namespace: r.owner.Namespace, name: r.owner.Name, uid: r.owner.UID,
		failed: true, lock: r.lock,
	})
}

// Pending implements allocator.
func (a *hamiAllocator) Pending(ctx context.Context, resource string, sizes []int) pending {
	if resource != partition.ResourceGPU {
		return pending{}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timing.pending)
	defer cancel()
	// Whose IDs are whose is in the ledger, whether or not the pods still live.
	unsure := pending{served: a.ledger.served(), others: true}
	if a.takeTurn(ctx) != nil {
		return unsure
	}
	defer a.endTurn()
	v, err := a.look(ctx)
	if err != nil {
		a.log.V(3).Info("No advice about devices", "err", err)
		return unsure
	}
	a.kept = v
	var p pending
	p.served, p.others = a.served(v)
	_, w, err := a.owner(v)
	if err != nil {
		a.log.V(3).Info("No grants to advise about", "err", err)
		return p
	}
	p.granted = make([][]string, len(sizes))
	for i := range min(len(sizes), len(w.next)) {
		if len(w.next[i].grants) != sizes[i] {
			continue
		}
		for _, g := range w.next[i].grants {
			p.granted[i] = append(p.granted[i], g.UUID)
		}
	}
	return p
}

// Starts implements allocator. A container that starts again must not find the
// memory hook's books of its last run: the hook goes by the limits and counts
// the processes it finds there, and their ids are those of other processes by
// now. Kubelet gives the IDs of an init container that has ended to a later
// one of its pod, so several may be meant, of which one starts and none runs.
//
// It does not wait for its turn: kubelet gives it 30 s, and what it does is of
// no interest to a call that is under way.
func (a *hamiAllocator) Starts(resource string, ids []string) error {
	if resource != partition.ResourceGPU {
		return nil
	}
	var errs []error
	for _, c := range a.ledger.find(ids, func(types.UID) bool { return true }) {
		if err := a.dirs.Reset(string(c.uid), c.name); err != nil {
			errs = append(errs, fmt.Errorf("container %q of pod %q: %w", c.name, c.uid, err))
		}
	}
	return errors.Join(errs...)
}

func (a *hamiAllocator) takeTurn(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-a.ended:
		return errors.New("plugin is shutting down")
	case <-ctx.Done():
		return fmt.Errorf("wait for the call before: %w", context.Cause(ctx))
	}
}

func (a *hamiAllocator) endTurn() { <-a.turn }

func (a *hamiAllocator) keptView() *view {
	v := a.kept
	a.kept = nil
	if v == nil || a.now().Sub(v.at).Abs() > a.timing.keep {
		return nil
	}
	return v
}

// look reads the node and its pods. Pods are read even if nobody holds the
// lock, for the answer may be a recorded one.
func (a *hamiAllocator) look(ctx context.Context) (*view, error) {
	v := &view{at: a.now()}
	var err error
	if v.node, err = a.cluster.getNode(ctx); err != nil {
		return nil, err
	}
	v.mark = a.ledger.now()
	pods, err := a.cluster.listPods(ctx)
	if err != nil {
		return nil, err
	}
	v.pods = pods.Items
	return v, a.adopt(v.pods)
}

// adopt makes records of what the pods' annotations say, once after the start.
func (a *hamiAllocator) adopt(pods []corev1.Pod) error {
	a.adoption.Lock()
	defer a.adoption.Unlock()
	if a.adopted {
		return nil
	}
	problems, err := adopt(a.scheduler, a.ledger, a.cfg.NodeName, pods, a.src.Snapshot())
	a.reports.report(problems)
	a.adopted = err == nil
	return err
}

// owner finds the pod the lock names, and what it waits for. The pod is nil
// where there is none on this node; an error with a pod is about that pod, and
// is an errServed if it waits for nothing.
func (a *hamiAllocator) owner(v *view) (*corev1.Pod, *waiting, error) {
	_, lock, err := v.lock()
	if err != nil {
		return nil, nil, err
	}
	holder := lock.Namespace + "/" + lock.Name
	pod := v.named(lock.Namespace, lock.Name)
	if pod == nil {
		return nil, nil, fmt.Errorf("%w: pod %q, which holds the lock of node %q, is not bound to it", errNoOwner, holder, v.node.Name)
	}
	if finished(pod) {
		return nil, nil, fmt.Errorf("%w: pod %q, which holds the lock of node %q, has finished", errNoOwner, holder, v.node.Name)
	}
	w, err := readWaiting(a.scheduler, pod, a.ledger.get(pod.UID))
	if err != nil {
		return pod, nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	a.log.V(5).Info("Decoded grants", "pod", klog.KObj(pod), "entries", w.entries, "containers", len(w.next))
	return pod, w, nil
}

// sameDevices tells whether two lists of kubelet device IDs hold the same.
func sameDevices(a, b []string) bool {
	return len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
