package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// answer decides whose call this is and answers it. The lock's owner is the
// pod that kubelet is admitting; a call with the very device IDs of a container
// that was served before may also be kubelet asking again, after it lost its
// checkpoint.
func (a *hamiAllocator) answer(ctx context.Context, c *call, v *view) (*pluginapi.AllocateResponse, *refusal) {
	owner, w, err := a.owner(v)
	var take []waitingContainer
	if err == nil {
		if take, err = w.take(c.sizes()); err != nil {
			err = fmt.Errorf("pod %q: %w", podspec.Holder(owner), err)
		}
	}
	if again := a.recordedFor(c, v, w); again != nil {
		is, doubt := a.asksAgain(ctx, again, owner, err == nil)
		if doubt != nil {
			return nil, &refusal{err: doubt}
		}
		if is {
			response, err := a.answerAgain(ctx, c, again)
			if err != nil {
				return nil, &refusal{err: err}
			}
			return response, nil
		}
	}
	if errors.Is(err, errNoOwner) || errors.Is(err, errServed) {
		return nil, &refusal{err: err}
	}
	var response *pluginapi.AllocateResponse
	if err == nil {
		response, err = a.serve(ctx, c, v, w, take)
	}
	if err == nil {
		return response, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		// Kubelet has gone away and will ask for the pod again.
		return nil, &refusal{err: err}
	}
	text, _, _ := v.lock() // there is one: it names the owner
	return nil, &refusal{err: err, owner: owner, lock: text}
}

// serve gives the containers of the lock's owner what they were granted, all
// of them or none.
func (a *hamiAllocator) serve(ctx context.Context, c *call, v *view, w *waiting, take []waitingContainer) (*pluginapi.AllocateResponse, error) {
	holder := podspec.Holder(w.pod)
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	if err := checkLimits(a.scheduler, w.pod, &w.spec, c.snap); err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	if err := checkHealth(&w.spec, take, c.snap); err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	plan, err := a.plan(ctx, c, v, w.pod, w.spec)
	if err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	d := decision{entries: take, before: a.ledger.get(w.pod.UID)}
	d.after = &record{
		namespace: w.pod.Namespace, name: w.pod.Name, grants: w.grants, cus: plan.CUs,
		containers: make(map[string]annotations.ContainerCUs),
	}
	if d.before != nil {
		maps.Copy(d.after.containers, d.before.containers)
	}
	for i, t := range take {
		served := plan.Containers[t.container]
		d.served = append(d.served, served)
		d.after.containers[served.Name] = annotations.ContainerCUs{IDs: c.ids[i], CUs: served.CUs()}
	}
	response := a.responder.respond(c.snap, d.served)
	if err := a.commit(ctx, v, w, d); err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	for _, c := range d.served {
		a.log.Info("Allocated", "pod", klog.KObj(w.pod), "container", c.Name, "env", c.Env)
	}
	a.caps.want(w.pod, w.spec, c.snap)
	return response, nil
}

// decision is what one call does for its pod.
type decision struct {
	entries       []waitingContainer // that are served
	served        []allocate.Container
	before, after *record // in the ledger; before is nil for a pod's first call
}

// plan decides what every container of a pod gets, given what the other pods
// hold.
func (a *hamiAllocator) plan(ctx context.Context, c *call, v *view, pod *corev1.Pod, spec allocate.Pod) (*allocate.Allocation, error) {
	held, problems := heldByOthers(a.scheduler, a.ledger, v, c.snap, pod.UID)
	a.reports.report(problems)
	if err := a.gate.decide(ctx, pod, &spec, c.snap, a.caps); err != nil {
		return nil, err
	}
	plan, err := allocate.Plan(spec, allocate.Node{
		Devices: schedulable(c.snap), Held: held,
		HookPath: a.cfg.HookPath, HookLogLevel: a.cfg.HookLogLevel, MemoryScaling: a.cfg.MemoryScaling,
	})
	if err != nil {
		return nil, err
	}
	for _, note := range plan.Notes {
		a.log.Info("Note", "pod", klog.KObj(pod), "note", note)
	}
	return plan, nil
}

// errUncertain is a decision of which nobody knows whether the pod carries it. It
// is not tried again: what waits then may be another container, to which kubelet
// gives the same device IDs after an init container.
var errUncertain = errors.New("not known to have taken effect")

// commit makes the decision known: in the ledger first, so that nobody gets
// the same CUs whatever happens next, then on the pod, and after the last
// container by releasing the lock. An error before the pod carries the values
// takes back what can be taken back.
func (a *hamiAllocator) commit(ctx context.Context, v *view, w *waiting, d decision) error {
	s := servedValues{uid: w.pod.UID, phase: w.pod.Status.Phase, before: w.before}
	var err error
	if s.cus, s.containers, err = d.after.annotations(); err != nil {
		return err
	}
	if s.after, s.last, err = w.after(d.entries); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// From here on kubelet going away must not leave things half done.
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()

	if err := a.makeDirs(string(w.pod.UID), d.served); err != nil {
		return err
	}
	if err := a.ledger.put(w.pod.UID, d.after); err != nil {
		return err
	}
	known, err := a.cluster.writeServed(ctx, w.pod, s)
	if err != nil {
		if !known {
			// The write may still arrive, so the CUs stay taken until the pod,
			// which kubelet rejects now, is seen to have ended.
			return fmt.Errorf("%w: %w", errUncertain, err)
		}
		return errors.Join(err, a.ledger.restore(w.pod.UID, d.before))
	}
	if s.last {
		text, _, _ := v.lock() // there is one: it names the owner
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timing.cleanup)
		defer cancel()
		a.debts.settle(ctx, debt{namespace: w.pod.Namespace, name: w.pod.Name, uid: w.pod.UID, lock: text})
	}
	return nil
}

// makeDirs makes the directories that the containers' hooks keep their books
// in, which are mount sources and must exist when a container starts.
func (a *hamiAllocator) makeDirs(uid string, served []allocate.Container) error {
	for _, c := range served {
		if len(c.Mounts) == 0 {
			continue
		}
		if err := a.dirs.Create(uid, c.Name); err != nil {
			return err
		}
	}
	return nil
}

// writeServed patches the pod. Whether a patch whose answer is missing took
// effect is told by the pod itself. known is false when not even that could be
// found out, or an earlier try may still be on its way.
func (c *cluster) writeServed(ctx context.Context, pod *corev1.Pod, s servedValues) (known bool, err error) {
	lost := false // some try
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := c.patchPod(ctx, pod.Namespace, pod.Name, s.patch())
		if err == nil {
			return true, nil
		}
		err = fmt.Errorf("patch pod: %w", err)
		if !transient(err) && !testFailed(err) {
			return !lost, err
		}
		lost = lost || statusCode(err) == 0
		now, readErr := c.getPod(ctx, pod.Namespace, pod.Name)
		switch {
		case apierrors.IsNotFound(readErr):
			return true, errors.Join(err, readErr) // gone
		case readErr != nil:
			return false, errors.Join(err, readErr)
		case s.in(now.UID, now.Annotations):
			return true, nil
		case testFailed(err) || now.UID != pod.UID:
			return true, err
		}
		if !sleep(ctx, pause) {
			return false, err
		}
	}
}
