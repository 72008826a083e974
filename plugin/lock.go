package plugin

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// A debt is what the plugin owes the API server after it has answered kubelet:
// the lock of a pod that is done with, and the phase of one that was refused.
// A lock that stays blocks the node for everybody.
type debt struct {
	namespace, name string
	uid             types.UID
	failed          bool   // mark the pod as failed
	lock            string // release the node lock if it is still this one; "" is none
}

func (d debt) paid() bool { return !d.failed && d.lock == "" }

// pay tries once and returns what is left. What can never be paid, because the
// object is gone or belongs to somebody else by now, is not owed any more.
func (c *cluster) pay(ctx context.Context, d debt) (debt, error) {
	var failed, released error
	if d.failed {
		if failed = c.patchPod(ctx, d.namespace, d.name, failedPatch(d.uid)); settled(failed) {
			d.failed = false
		}
	}
	if d.lock != "" {
		if released = c.patchNode(ctx, releasePatch(d.lock)); settled(released) {
			d.lock = ""
		}
	}
	switch {
	case d.lock != "":
		return d, fmt.Errorf("release lock %q of node %q: %w", d.lock, c.node, released)
	case d.failed:
		return d, fmt.Errorf("mark pod %q as failed: %w", d.namespace+"/"+d.name, failed)
	}
	return d, nil
}

// settled tells whether a guarded patch needs no second try: it took effect,
// or its test failed, or the object is gone. A lock another pod has taken over
// is that pod's.
func settled(err error) bool {
	switch statusCode(err) {
	case 0:
		return err == nil
	case http.StatusUnprocessableEntity, http.StatusNotFound:
		return true
	}
	return false
}

// debts are paid in the background, in the order in which they came, until
// they are. It is safe for concurrent use.
type debts struct {
	cluster *cluster
	log     klog.Logger

	mu   sync.Mutex
	owed []debt
	some chan struct{} // of one: there is something to do
}

func newDebts(c *cluster, log klog.Logger) *debts {
	return &debts{cluster: c, log: log, some: make(chan struct{}, 1)}
}

// settle pays at once as far as it can within ctx, and the rest later.
func (d *debts) settle(ctx context.Context, owed debt) {
	rest, err := d.cluster.pay(ctx, owed)
	if rest.paid() {
		return
	}
	d.log.Error(err, "Will try again", "pod", klog.KRef(owed.namespace, owed.name))
	d.mu.Lock()
	d.owed = append(d.owed, rest)
	d.mu.Unlock()
	select {
	case d.some <- struct{}{}:
	default:
	}
}

func (d *debts) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-d.some:
			for pause := 500 * time.Millisecond; !d.round(ctx); pause = min(2*pause, 15*time.Second) {
				if !sleep(ctx, pause) {
					break
				}
			}
		}
	}
	// What is still owed is paid after the next start too, but the node should
	// not have to wait for that.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cluster.request)
	defer cancel()
	d.round(ctx)
}

// round tries each debt once and tells whether all are paid.
func (d *debts) round(ctx context.Context) bool {
	d.mu.Lock()
	owed := d.owed
	d.owed = nil
	d.mu.Unlock()
	var left []debt
	for _, o := range owed {
		rest, err := d.cluster.pay(ctx, o)
		if rest.paid() {
			continue
		}
		d.log.V(3).Info("Still owed", "pod", klog.KRef(o.namespace, o.name), "err", err)
		left = append(left, rest)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed = append(left, d.owed...)
	return len(d.owed) == 0
}

// releaseAbandoned releases the node's lock if its owner does not need it any
// more: it is gone, has finished, or has all its AMD devices and the plugin
// died before it could say so. held is a lock that stays.
//
// A malformed lock and one without an owner stay: nobody can tell whose they
// are.
func (c *cluster) releaseAbandoned(ctx context.Context, node *corev1.Node) (held bool, why string, err error) {
	text, locked := node.Annotations[annotations.NodeLockKey]
	if !locked {
		return false, "", nil
	}
	lock, err := annotations.ParseNodeLock(text)
	if err != nil {
		return true, "", fmt.Errorf("node %q: %w; it has to be removed by hand", c.node, err)
	}
	if lock.Legacy() {
		return true, "", nil
	}
	owner, err := c.getPod(ctx, lock.Namespace, lock.Name)
	switch {
	case apierrors.IsNotFound(err):
		why = "is gone"
	case err != nil:
		return true, "", err
	default:
		why = doneWith(owner)
	}
	if why == "" {
		return true, "", nil
	}
	if err := c.patchNode(ctx, releasePatch(text)); !settled(err) {
		return true, "", fmt.Errorf("release lock %q of node %q, whose owner %s: %w", text, c.node, why, err)
	}
	return false, fmt.Sprintf("lock %q: its owner %s", text, why), nil
}

// doneWith says why a pod does not need the lock any more, "" if it may.
func doneWith(owner *corev1.Pod) string {
	switch annotations.OwnerStateOf(string(owner.Status.Phase), owner.Annotations) {
	case annotations.OwnerFinished:
		return "has finished"
	case annotations.OwnerServed:
		// Other vendors' pods are for their plugins to judge.
		granted, err := annotations.DecodePod(owner.Annotations[annotations.AllocatedKey])
		if err == nil && !granted.Served() {
			return "has all its devices"
		}
	}
	return ""
}
