package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// A watch is ended by the server after a while, and then the pods are listed
// anew, which also finds what a watch cannot tell, such as folders without a
// pod. Nodes do it at different times.
const (
	watchTime  = 5 * time.Minute
	watchRetry = 30 * time.Second
	// editPause is how long a pod is left alone after its annotations were put
	// back, doubled each time up to editPauseMost: whoever keeps editing them
	// must not keep the plugin busy.
	editPause     = time.Second
	editPauseMost = 5 * time.Minute
)

// podWatch follows the pods of the node: what of them has ended is forgotten,
// and what the plugin wrote on them is put back when somebody edits it.
type podWatch struct {
	a      *hamiAllocator
	listed chan struct{} // closed after the first list

	mu      sync.Mutex
	devices map[types.UID]holding

	edits map[types.UID]*edit // of run alone
}

type holding struct {
	pod string
	ids []string
}

// edit is a pod whose annotations were edited.
type edit struct {
	namespace, name string
	pending         bool
	due             time.Time
	pause           time.Duration
}

func newPodWatch(a *hamiAllocator) *podWatch {
	return &podWatch{a: a, listed: make(chan struct{}), devices: make(map[types.UID]holding), edits: make(map[types.UID]*edit)}
}

// holders are the devices that the live pods were granted.
func (w *podWatch) holders() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	holders := make(map[string][]string, len(w.devices))
	for _, h := range w.devices {
		holders[h.pod] = h.ids
	}
	return holders
}

func (w *podWatch) run(ctx context.Context) {
	pause := time.Second
	for ctx.Err() == nil {
		began := time.Now()
		err := w.follow(ctx)
		if time.Since(began) > watchRetry {
			pause = time.Second // it has worked for a while
		}
		if err != nil && ctx.Err() == nil {
			w.a.log.V(2).Info("Pods are listed anew", "err", err)
		}
		sleep(ctx, pause)
		pause = min(2*pause, watchRetry)
	}
}

// follow lists the pods and then watches them until the watch ends.
func (w *podWatch) follow(ctx context.Context) error {
	before, mark := time.Now(), w.a.ledger.now()
	pods, err := w.a.cluster.listPods(ctx)
	if err != nil {
		return err
	}
	w.replace(pods.Items, mark, before)
	seconds := int64(watchTime.Seconds() * (1 + rand.Float64()))
	watch, err := w.a.cluster.podsOnNode().Param("watch", "true").
		Param("resourceVersion", pods.ResourceVersion).Param("timeoutSeconds", strconv.FormatInt(seconds, 10)).Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch pods of node %q: %w", w.a.cluster.node, err)
	}
	defer watch.Stop()
	for {
		var again <-chan time.Time
		if wait, some := w.putBack(ctx); some {
			again = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case event, open := <-watch.ResultChan():
			if !open {
				return nil
			}
			if err := w.event(event); err != nil {
				return err
			}
		}
	}
}

func (w *podWatch) event(e apiwatch.Event) error {
	pod, ok := e.Object.(*corev1.Pod)
	switch {
	case e.Type == apiwatch.Error:
		return apierrors.FromObject(e.Object)
	case !ok:
		return nil
	case e.Type == apiwatch.Deleted:
		w.unlock(pod)
		w.ended(pod.UID)
		if err := w.a.dirs.Remove(string(pod.UID)); err != nil {
			w.a.log.Error(err, "Folder of a pod that is gone stays", "pod", klog.KObj(pod))
		}
	default:
		w.seen(pod)
	}
	return nil
}

// replace takes over a list of all pods, asked for at some mark and time.
func (w *podWatch) replace(pods []corev1.Pod, mark uint64, at time.Time) {
	if err := w.a.adopt(pods); err != nil {
		w.a.log.Error(err, "Pods served before are not recorded")
	}
	there := make(map[types.UID]*corev1.Pod, len(pods))
	for i := range pods {
		there[pods[i].UID] = &pods[i]
	}
	var gone []types.UID
	for uid, r := range w.a.ledger.all() {
		if !held(r, there[uid], mark) {
			gone = append(gone, uid)
		}
	}
	w.ended(gone...)
	snap := w.a.src.Snapshot()
	for uid, pod := range there {
		w.seen(pod)
		r := w.a.ledger.get(uid)
		if r == nil || finished(pod) {
			continue
		}
		if spec, _, err := readSpec(w.a.scheduler, pod, r); err == nil {
			w.a.caps.want(pod, spec, snap)
		}
	}
	live := func(uid string) bool { return there[types.UID(uid)] != nil }
	w.a.reports.forget(func(uid types.UID) bool { return uid == "" || live(string(uid)) })
	if _, err := w.a.dirs.Sweep(live, at); err != nil {
		w.a.log.Error(err, "Folders of pods that are gone stay")
	}
	w.mu.Lock()
	for uid := range w.devices {
		if there[uid] == nil {
			delete(w.devices, uid)
		}
	}
	w.mu.Unlock()
	select {
	case <-w.listed:
	default:
		close(w.listed)
	}
}

// ended forgets pods that hold nothing any more.
func (w *podWatch) ended(uids ...types.UID) {
	if err := w.a.ledger.forget(uids...); err != nil {
		w.a.log.Error(err, "Pods that are gone stay recorded")
	}
	w.a.caps.forget(uids...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range uids {
		delete(w.devices, uid)
		delete(w.edits, uid)
	}
}

// unlock has the node lock looked at if a pod that has ended may still hold it:
// kubelet rejects some pods, such as those that fit no NUMA node, without
// calling Allocate.
func (w *podWatch) unlock(pod *corev1.Pod) {
	if pod.Annotations[annotations.BindPhaseKey] == string(annotations.BindAllocating) {
		w.a.publisher.wake()
	}
}

// seen takes over one pod as it is now.
func (w *podWatch) seen(pod *corev1.Pod) {
	if finished(pod) {
		w.unlock(pod)
		w.ended(pod.UID)
		return
	}
	r := w.a.ledger.get(pod.UID)
	text := pod.Annotations[annotations.AllocatedKey]
	if r != nil {
		text = r.grants
		if !r.in(pod.Annotations) {
			e := w.edits[pod.UID]
			if e == nil {
				e = &edit{namespace: pod.Namespace, name: pod.Name, pause: editPause}
				w.edits[pod.UID] = e
			}
			e.pending = true
		}
	}
	grants, err := annotations.DecodePod(text)
	if err != nil || grants.Served() {
		return
	}
	h := holding{pod: podspec.Holder(pod)}
	for _, container := range grants {
		for _, g := range container {
			h.ids = append(h.ids, g.UUID)
		}
	}
	w.mu.Lock()
	w.devices[pod.UID] = h
	w.mu.Unlock()
}

// putBack restores the annotations of pods that are due, and returns how long
// it is until the next one is, if there is one.
func (w *podWatch) putBack(ctx context.Context) (wait time.Duration, some bool) {
	for uid, e := range w.edits {
		if !e.pending {
			continue
		}
		if now := time.Now(); now.Before(e.due) {
			if left := e.due.Sub(now); !some || left < wait {
				wait, some = left, true
			}
			continue
		}
		done, err := w.a.restore(ctx, uid, e.namespace, e.name)
		e.pending = err != nil
		if done || err != nil {
			e.due, e.pause = time.Now().Add(e.pause), min(2*e.pause, editPauseMost)
		}
		if err != nil {
			w.a.log.Error(err, "Edited annotations stay for now", "pod", klog.KRef(e.namespace, e.name))
			if left := time.Until(e.due); !some || left < wait {
				wait, some = left, true
			}
		}
	}
	return wait, some
}

// restore puts back what was handed out, if a pod says something else: a
// monitor reads it there, and it is what remains if the ledger's file is lost.
// It looks at the pod anew in a turn of its own, since what was seen may be
// older than the last Allocate.
func (a *hamiAllocator) restore(ctx context.Context, uid types.UID, namespace, name string) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timing.request)
	defer cancel()
	if err := a.takeTurn(ctx); err != nil {
		return false, err
	}
	defer a.endTurn()
	r := a.ledger.get(uid)
	if r == nil {
		return false, nil
	}
	pod, err := a.cluster.getPod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if pod.UID != uid || finished(pod) || r.in(pod.Annotations) {
		return false, nil
	}
	patch, err := restorePatch(pod, r)
	if err != nil {
		return false, err
	}
	if err := a.cluster.patchPod(ctx, namespace, name, patch); err != nil {
		return false, fmt.Errorf("put back annotations of pod %q: %w", r.holder(), err)
	}
	message := fmt.Sprintf("annotations %s and %s were edited and are put back, found %.200q and %.200q",
		annotations.CUAllocatedKey, annotations.CUContainersKey,
		pod.Annotations[annotations.CUAllocatedKey], pod.Annotations[annotations.CUContainersKey])
	a.log.Info(message, "pod", klog.KObj(pod))
	a.events.pod(pod, corev1.EventTypeWarning, eventAnnotationRestored, message)
	return true, nil
}

// restorePatch makes the pod's annotations the record's, unless they have
// changed again.
func restorePatch(pod *corev1.Pod, r *record) (jsonPatch, error) {
	cus, containers, err := r.annotations()
	if err != nil {
		return nil, err
	}
	p := jsonPatch{testUID(pod.UID)}
	if len(pod.Annotations) == 0 {
		const all = "/metadata/annotations"
		p = append(p, patchOp{Op: "test", Path: all, Value: json.RawMessage("null")}, patchOp{Op: "add", Path: all, Value: json.RawMessage("{}")})
	}
	set := func(key, value string) {
		guard := testNoAnnotation(key)
		if now, there := pod.Annotations[key]; there {
			guard = testAnnotation(key, now)
		}
		p = append(p, guard, setAnnotation(key, value))
	}
	set(annotations.CUAllocatedKey, cus)
	if r.containers != nil {
		set(annotations.CUContainersKey, containers)
	}
	return p, nil
}
