package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// publisher keeps the node object as the devices are: the register annotation,
// the capacity of memory and CUs, and events. It compares with the node as it
// is and never with what it wrote before, because HAMi's scheduler deletes the
// annotation when the node's capacity is 0 for a moment, as it is while
// kubelet restarts.
type publisher struct {
	cluster  *cluster
	log      klog.Logger
	now      func() time.Time
	events   *eventSender
	timing   timing
	capacity bool // publish, else clean up

	states     *gpuStates // nil before the first look
	saidLock   string     // the lock nobody can release that was logged last
	saidCannot string     // why capacity cannot be cleaned up

	mu      sync.Mutex
	changed *devicesChange
	some    chan struct{} // of one: something changed
}

// devicesChange is from the last snapshot that was dealt with to the newest.
type devicesChange struct{ prev, next *snapshot }

func newPublisher(cfg Config, deps Deps, c *cluster, events *eventSender, timing timing) *publisher {
	return &publisher{
		cluster: c, log: deps.Log, now: deps.Now, events: events, timing: timing,
		capacity: cfg.ReportNodeCapacity, some: make(chan struct{}, 1),
	}
}

// devicesChanged does not block; changes that come faster than they are dealt
// with become one.
func (p *publisher) devicesChanged(prev, next *snapshot) {
	p.mu.Lock()
	if p.changed == nil {
		p.changed = &devicesChange{prev: prev}
	}
	p.changed.next = next
	p.mu.Unlock()
	p.wake()
}

func (p *publisher) takeChange() *devicesChange {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.changed
	p.changed = nil
	return c
}

func (p *publisher) wake() {
	select {
	case p.some <- struct{}{}:
	default:
	}
}

// run publishes until ctx ends. holders tells who holds which devices.
func (p *publisher) run(ctx context.Context, src snapshotSource, holders func() map[string][]string) {
	for {
		wait := p.timing.publish
		if err := p.once(ctx, src.Snapshot(), holders, &wait); err != nil {
			if ctx.Err() != nil {
				return
			}
			p.log.Error(err, "Node is not up to date")
			wait = p.timing.publishRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.some:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// once brings the node up to date and shortens the wait for the next time if
// there is something to watch.
func (p *publisher) once(ctx context.Context, s *snapshot, holders func() map[string][]string, wait *time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, p.timing.publish)
	defer cancel()
	node, err := p.cluster.getNode(ctx)
	if err != nil {
		return err
	}
	p.notice(node, s, holders)
	held, why, lockErr := p.cluster.releaseAbandoned(ctx, node)
	switch {
	case lockErr != nil && held && lockErr.Error() == p.saidLock:
		lockErr = nil // as before, and known
	case lockErr != nil:
		p.saidLock = lockErr.Error()
	case why != "":
		p.log.Info("Released the node lock", "reason", why)
	}
	if held {
		*wait = p.timing.publishLocked
	}
	return errors.Join(p.register(ctx, node, s), p.reportCapacity(ctx, node, s), lockErr)
}

// notice sends the events about what has changed.
func (p *publisher) notice(node *corev1.Node, s *snapshot, holders func() map[string][]string) {
	var events []nodeEvent
	change := p.takeChange()
	if p.states == nil {
		before, err := annotations.DecodeDevices(node.Annotations[annotations.NodeRegisterKey])
		if err != nil {
			p.log.Info("Register annotation is replaced", "err", err)
		}
		p.states = newGPUStates(before)
		events = modeChanged(before, s.Devices, holders())
	} else if change != nil && change.prev != nil {
		events = modeChanged(change.prev.Entries(), s.Devices, holders())
	}
	p.states.update(s)
	events = append(events, p.states.due(p.now())...)
	for _, e := range events {
		switch {
		case e.reason == eventUnhealthy || e.reason == eventRecovered:
			// Logged when it was found, and the event may come much later.
		case e.kind == corev1.EventTypeWarning:
			p.log.Error(nil, e.message, "reason", e.reason)
		default:
			p.log.Info(e.message, "reason", e.reason)
		}
		p.events.node(e.kind, e.reason, e.message)
	}
}

// register writes the register annotation where it is not what the devices
// are. A node without devices has none.
func (p *publisher) register(ctx context.Context, node *corev1.Node, s *snapshot) error {
	have, there := node.Annotations[annotations.NodeRegisterKey]
	var want *string
	if entries := s.Entries(); len(entries) > 0 {
		text, err := annotations.EncodeDevices(entries)
		if err != nil {
			return err
		}
		want = &text
	}
	if want == nil && !there || want != nil && there && have == *want {
		return nil
	}
	p.log.V(5).Info("Writing register annotation", "before", have, "after", want)
	patch := nodeMetadataPatch{}
	patch.Metadata.Annotations = map[string]*string{annotations.NodeRegisterKey: want}
	return p.merge(ctx, patch)
}

// nodeMetadataPatch is a merge patch (RFC 7386) of annotations; nil deletes.
type nodeMetadataPatch struct {
	Metadata struct {
		Annotations map[string]*string `json:"annotations"`
	} `json:"metadata"`
}

// nodeStatusPatch is a merge patch of resources; nil deletes.
type nodeStatusPatch struct {
	Status struct {
		Capacity    map[corev1.ResourceName]*string `json:"capacity,omitempty"`
		Allocatable map[corev1.ResourceName]*string `json:"allocatable,omitempty"`
	} `json:"status"`
}

func (p *publisher) merge(ctx context.Context, patch any, subresources ...string) error {
	content, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cluster.request)
	defer cancel()
	err = p.cluster.client.Patch(types.MergePatchType).
		Resource("nodes").Name(p.cluster.node).SubResource(subresources...).Body(content).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("patch node %q: %w", p.cluster.node, err)
	}
	return nil
}

// reportCapacity makes the memory in MiB and the CUs of the healthy devices
// part of the node's status, or removes them where that is not wanted. Kubelet
// keeps extended resources it does not know of.
func (p *publisher) reportCapacity(ctx context.Context, node *corev1.Node, s *snapshot) error {
	want := make(map[corev1.ResourceName]int64)
	if p.capacity {
		want[amd.DefaultMemoryName], want[amd.DefaultCoreName] = 0, 0
		for _, d := range s.Entries() {
			if d.Health {
				want[amd.DefaultMemoryName] += int64(d.Devmem)
				want[amd.DefaultCoreName] += int64(d.Devcore)
			}
		}
	}
	patch := nodeStatusPatch{}
	patch.Status.Capacity = differences(node.Status.Capacity, want)
	patch.Status.Allocatable = differences(node.Status.Allocatable, want)
	if len(patch.Status.Capacity)+len(patch.Status.Allocatable) == 0 {
		return nil
	}
	err := p.merge(ctx, patch, "status")
	if err != nil && !p.capacity && !transient(err) {
		// The right to patch the status is only given where capacity is
		// reported, and entries of an earlier time do no harm.
		if p.saidCannot != err.Error() {
			p.saidCannot = err.Error()
			p.log.Info("Capacity entries of an earlier configuration stay", "err", err)
		}
		return nil
	}
	return err
}

// differences are the entries of a merge patch that makes the two resources
// what they shall be; nil for none. They are compared as floats, which hold
// every sum of MiB or CUs exactly: Quantity's own comparison writes out all
// digits, so that 1e999999999 in a node's status would keep it busy for hours.
func differences(have corev1.ResourceList, want map[corev1.ResourceName]int64) map[corev1.ResourceName]*string {
	d := make(map[corev1.ResourceName]*string)
	for _, name := range []corev1.ResourceName{amd.DefaultMemoryName, amd.DefaultCoreName} {
		now, there := have[name]
		value, wanted := want[name]
		switch {
		case wanted && (!there || now.AsApproximateFloat64() != float64(value)):
			text := strconv.FormatInt(value, 10)
			d[name] = &text
		case !wanted && there:
			d[name] = nil
		}
	}
	return d
}
