package dmem

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"
	"time"
)

// PodCaps is a pod with the limits of its cgroup, see [PeakCaps].
type PodCaps struct {
	Pod  Pod
	Caps []Cap
}

// How often pods are looked at while nothing is reported. Inotify does not
// tell when the kernel adds the controller's files to a cgroup that exists,
// nor when VRAM is freed, so there is always a tick.
const (
	tickNotified = 250 * time.Millisecond
	tickAlone    = 100 * time.Millisecond
	// searchEvery is how often kubelets with another cgroup root are searched
	// for, which reads the upper levels of the tree.
	searchEvery = 2 * time.Second
)

// CapPods sets the limits of pods, waiting for those whose cgroup does not
// exist yet: kubelet makes it some seconds after it asked for the devices. It
// serves one pod that was just admitted as well as all live pods of a node
// after a restart; one pod's trouble does not delay another's limits.
//
// The result has one entry for each pod, in order: nil once its limits hold.
// Waiting ends with the context, which should have a deadline. What may pass
// is tried again until then: no cgroup yet, a controller that the container
// runtime has not enabled yet, more in use than the limit. The entry of a pod
// that stays so is its last error, joined with the context's. A pod that asks
// for no limits is nil at once.
func (t *Tree) CapPods(ctx context.Context, pods []PodCaps) []error {
	errs := make([]error, len(pods))
	var pending []int
	for i, p := range pods {
		if errs[i] = p.Pod.check(); errs[i] == nil {
			errs[i] = checkCaps(p.Caps)
		}
		if errs[i] == nil && len(p.Caps) > 0 {
			pending = append(pending, i)
		}
	}
	if len(pending) == 0 {
		return errs
	}
	roots := []string{KubepodsSlice, "kubepods"}
	attempt := func() bool {
		pending = slices.DeleteFunc(pending, func(i int) bool {
			errs[i] = t.capIn(roots, pods[i])
			return errs[i] == nil || !mayPass(errs[i])
		})
		return len(pending) == 0
	}
	if attempt() {
		return errs
	}
	w := newWatch(t.fs.Dir())
	defer w.close()
	var searched time.Time
	for {
		if time.Since(searched) >= searchEvery {
			roots, searched = t.roots(), time.Now()
		}
		// Watch before looking, so that what appears in between is reported.
		t.watch(w, roots)
		if attempt() {
			return errs
		}
		if err := w.wait(ctx); err != nil {
			for _, i := range pending {
				errs[i] = fmt.Errorf("dmem limits of pod %q: %w: %w", pods[i].Pod.UID, err, errs[i])
			}
			return errs
		}
	}
}

// CapPod is [Tree.CapPods] for one pod.
func (t *Tree) CapPod(ctx context.Context, p PodCaps) error {
	return t.CapPods(ctx, []PodCaps{p})[0]
}

// roots are the cgroups of all pods: kubelet's own names first, then what a
// search finds.
func (t *Tree) roots() []string {
	roots := []string{KubepodsSlice, "kubepods"}
	for _, dir := range t.kubepods() {
		if !slices.Contains(roots, dir) {
			roots = append(roots, dir)
		}
	}
	return roots
}

// watch asks for a report when a pod's cgroup, or one of the directories it
// will be in, appears.
func (t *Tree) watch(w *watch, roots []string) {
	w.add(".")
	for _, root := range roots {
		for _, q := range []QoS{Guaranteed, Burstable, BestEffort} {
			w.add(qosSlice(root, q))
		}
	}
}

func (t *Tree) capIn(roots []string, p PodCaps) error {
	dir, err := t.podIn(roots, p.Pod)
	if err != nil {
		return err
	}
	return t.SetCaps(dir, p.Caps)
}

// mayPass reports whether trying again can help.
func mayPass(err error) bool {
	for _, final := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		if errors.Is(err, final) {
			return false
		}
	}
	return notThere(err) || errors.Is(err, ErrBusy) || errors.Is(err, ErrNotInForce) || errors.Is(err, ErrNotDelegated)
}

// watch reports that something appeared in one of its directories, or that it
// is time to look again. Without inotify it only ticks.
type watch struct {
	dir      string
	notifier *notifier // nil if the system has none to give
	tick     time.Duration
}

func newWatch(dir string) *watch {
	w := &watch{dir: dir, tick: tickAlone}
	// A node may be out of inotify instances (128 for each user by default).
	if n, err := newNotifier(); err == nil {
		w.notifier, w.tick = n, tickNotified
	}
	return w
}

// add watches a directory if it is there. Adding one twice changes nothing.
func (w *watch) add(name string) {
	if w.notifier != nil {
		// One that cannot be watched is covered by the tick.
		_ = w.notifier.add(path.Join(w.dir, name))
	}
}

// wait returns nil when it is worth looking again, or the context's cause.
func (w *watch) wait(ctx context.Context) error {
	if w.notifier != nil {
		if w.notifier.wait(ctx, w.tick) == nil {
			return context.Cause(ctx)
		}
		w.close()
		w.notifier, w.tick = nil, tickAlone
	}
	timer := time.NewTimer(w.tick)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

func (w *watch) close() {
	if w.notifier != nil {
		w.notifier.close()
	}
}
