package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// recordedCall is an earlier call that asked for the same device IDs.
type recordedCall struct {
	pod  *corev1.Pod
	view *view
	// containers are those the call was for, as indexes into the pod's, init
	// containers first.
	containers []int
}

// recordedFor finds the containers of a live pod that were handed exactly the
// device IDs of this call, nil if there are none.
//
// Kubelet gives the IDs of an ordinary init container to later containers of
// the same pod. So while the lock's owner waits for devices, its init
// containers do not count; and of several containers with the same IDs the one
// is meant that comes after the one that was answered last. A container that
// still waits was recorded by a plugin that died before it could say so.
func (a *hamiAllocator) recordedFor(c *call, v *view, w *waiting) *recordedCall {
	if len(c.ids) == 0 || len(c.ids[0]) == 0 {
		return nil
	}
	live := func(uid types.UID) bool {
		pod := v.pod(uid)
		return pod != nil && !finished(pod)
	}
	for _, found := range a.ledger.find(c.ids[0], live) {
		pod := v.pod(found.uid)
		spec, _, err := readSpec(a.scheduler, pod, a.ledger.get(found.uid))
		if err != nil {
			continue
		}
		skip := func(int) bool { return false }
		if w != nil && w.pod.UID == found.uid {
			skip = func(i int) bool {
				return spec.Containers[i].Role == allocate.Init ||
					slices.ContainsFunc(w.next, func(c waitingContainer) bool { return c.container == i })
			}
		}
		if containers := a.match(c, found.uid, spec, skip); containers != nil {
			return &recordedCall{pod: pod, view: v, containers: containers}
		}
	}
	return nil
}

// served lists the containers of live pods that have their devices. others
// tells that some container on the node asks for devices and is not known to
// have any.
func (a *hamiAllocator) served(v *view) (served []servedContainer, others bool) {
	for i := range v.pods {
		pod := &v.pods[i]
		if finished(pod) {
			continue
		}
		var had map[string]annotations.ContainerCUs
		if r := a.ledger.get(pod.UID); r != nil {
			had = r.containers
		}
		for k, asks := range a.scheduler.Asks(pod) {
			if !asks {
				continue
			}
			if c, ok := had[container(pod, k).Name]; ok {
				served = append(served, servedContainer{pod: pod.UID, ids: c.IDs})
			} else {
				others = true
			}
		}
	}
	return served, others
}

// match pairs each list of the call with a container of the pod, in the order
// of the spec.
func (a *hamiAllocator) match(c *call, uid types.UID, spec allocate.Pod, skip func(int) bool) []int {
	last, answered := a.repeated[uid]
	if !answered {
		last = -1
	}
	var containers []int
	for _, ids := range c.ids {
		var before, after []int
		for i, container := range spec.Containers {
			recorded, ok := spec.Recorded.Containers[container.Name]
			switch {
			case !ok || !sameDevices(recorded.IDs, ids):
			case skip(i):
			case i > last:
				after = append(after, i)
			default:
				before = append(before, i)
			}
		}
		candidates := slices.Concat(after, before)
		if len(candidates) == 0 {
			return nil
		}
		last = candidates[0]
		containers = append(containers, last)
	}
	return containers
}

// asksAgain decides whether a call that could be a repeated one is. If nobody
// else waits for such a call, it is. Otherwise kubelet has either lost its
// checkpoint and asks for a pod again, or it has given the device IDs of a pod
// that has ended to the lock's owner, and the API server will hear of that end
// any moment.
func (a *hamiAllocator) asksAgain(ctx context.Context, again *recordedCall, owner *corev1.Pod, servable bool) (bool, error) {
	if !servable || owner != nil && owner.UID == again.pod.UID {
		return true, nil
	}
	holder := podspec.Holder(again.pod)
	a.log.Info("Waiting to learn whether kubelet asks again for a pod that runs", "pod", klog.KObj(again.pod))
	for waited := time.Duration(0); ; waited += a.timing.doubt / 10 {
		pod, err := a.cluster.getPod(ctx, again.pod.Namespace, again.pod.Name)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("device IDs are those of pod %q: %w", holder, err)
		case pod.UID != again.pod.UID || finished(pod) || pod.DeletionTimestamp != nil:
			return false, nil
		case waited >= a.timing.doubt:
			return true, nil
		}
		if !sleep(ctx, a.timing.doubt/10) {
			return false, fmt.Errorf("device IDs are those of pod %q: %w", holder, context.Cause(ctx))
		}
	}
}

// answerAgain gives the answer of an earlier call once more. It changes
// nothing: the CUs are the recorded ones, and where they cannot be given any
// more, because the node has changed, that is an error.
func (a *hamiAllocator) answerAgain(ctx context.Context, c *call, again *recordedCall) (*pluginapi.AllocateResponse, error) {
	holder := podspec.Holder(again.pod)
	spec, _, err := readSpec(a.scheduler, again.pod, a.ledger.get(again.pod.UID))
	if err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	plan, err := a.plan(ctx, c, again.view, again.pod, spec)
	if err != nil {
		return nil, fmt.Errorf("pod %q, which was served before: %w", holder, err)
	}
	containers := make([]allocate.Container, len(again.containers))
	for i, index := range again.containers {
		containers[i] = plan.Containers[index]
	}
	if err := a.makeDirs(string(again.pod.UID), containers); err != nil {
		return nil, fmt.Errorf("pod %q: %w", holder, err)
	}
	maps.DeleteFunc(a.repeated, func(uid types.UID, _ int) bool { return a.ledger.get(uid) == nil })
	a.repeated[again.pod.UID] = again.containers[len(again.containers)-1]
	a.log.Info("Answered again", "pod", klog.KObj(again.pod), "containers", len(containers))
	return a.responder.respond(c.snap, containers), nil
}
