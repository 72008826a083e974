package hami

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/HAMi/pkg/util/client"
	"github.com/Project-HAMi/HAMi/pkg/util/nodelock"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// apiTimeout bounds one call of HAMi's, all tries together. The extender has to
// answer a bind within 30 s.
const apiTimeout = 20 * time.Second

// LockNode takes the node's lock for a pod that asks for AMD GPUs, and does
// nothing for any other. A lock that another pod needs is HAMi's
// nodelock.ErrNodeLockContention. See annotations.DecideLock; the lock's timeout
// is HAMi's nodelock.NodeLockTimeout.
func (d *Devices) LockNode(n *corev1.Node, p *corev1.Pod) error {
	if !d.asks(p) {
		return nil
	}
	err := changeLock(n.Name, func(ctx context.Context, locked bool, value string) (*string, error) {
		query := annotations.LockQuery{
			Locked: locked, Value: value, Namespace: p.Namespace, Name: p.Name,
			Now: time.Now(), Timeout: nodelock.NodeLockTimeout,
		}
		if holder, err := annotations.ParseNodeLock(value); locked && err == nil && !holder.Legacy() && !holder.OwnedBy(p.Namespace, p.Name) {
			query.Owner, query.OwnerErr = ownerState(ctx, holder, n.Name)
		}
		decision, err := annotations.DecideLock(query)
		switch {
		case err != nil:
			return nil, err
		case decision.Verdict == annotations.LockKeep:
			return &value, nil
		case decision.Verdict == annotations.LockHeld:
			return nil, fmt.Errorf("%s: %w", decision.Reason, nodelock.ErrNodeLockContention)
		}
		if locked {
			klog.InfoS("Taking over a node lock", "node", n.Name, "pod", klog.KObj(p), "lock", value, "reason", decision.Reason)
		}
		lock := annotations.NodeLock{Time: query.Now, Namespace: p.Namespace, Name: p.Name}.String()
		return &lock, nil
	})
	if err != nil {
		return fmt.Errorf("lock node %q for pod %q: %w", n.Name, podName(p), err)
	}
	return nil
}

// ReleaseNodeLock removes the node's lock if it is the pod's or nobody's. Another
// pod's lock stays, without an error. It does nothing for a pod that asks for no
// AMD GPU.
func (d *Devices) ReleaseNodeLock(n *corev1.Node, p *corev1.Pod) error {
	if !d.asks(p) {
		return nil
	}
	err := changeLock(n.Name, func(_ context.Context, locked bool, value string) (*string, error) {
		release, err := annotations.DecideRelease(locked, value, p.Namespace, p.Name)
		switch {
		case err != nil:
			return nil, err
		case release || !locked:
			return nil, nil
		}
		return &value, nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release node %q for pod %q: %w", n.Name, podName(p), err)
	}
	return nil
}

// asks reports whether any container of the pod asks for AMD GPUs.
func (d *Devices) asks(p *corev1.Pod) bool {
	for _, asks := range d.amd.Asks(p) {
		if asks {
			return true
		}
	}
	return false
}

// ownerState looks at the pod that holds the lock of a node.
func ownerState(ctx context.Context, lock annotations.NodeLock, node string) (annotations.OwnerState, error) {
	owner, err := client.GetClient().CoreV1().Pods(lock.Namespace).Get(ctx, lock.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return annotations.OwnerGone, nil
	case err != nil:
		return annotations.OwnerUnseen, err
	case owner.Spec.NodeName != "" && owner.Spec.NodeName != node:
		// It was bound elsewhere after all and waits for nothing here.
		return annotations.OwnerServed, nil
	}
	return annotations.OwnerStateOf(string(owner.Status.Phase), owner.Annotations), nil
}

var errNoClient = errors.New("HAMi's client is not initialized (client.InitGlobalClient)")

// A decided error is one that a second try would give again, in contrast to the
// API server's.
type decided struct{ error }

func (e decided) Unwrap() error { return e.error }

// changeLock reads the node as it is now and sets its lock to what decide says,
// nil for none. When the node changed meanwhile, or the API server did not do as
// it was told, it starts again. An error of decide is the end.
func changeLock(node string, decide func(ctx context.Context, locked bool, value string) (*string, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	if client.GetClient() == nil {
		return errNoClient
	}
	again := func(err error) bool {
		return !errors.As(err, new(decided)) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && ctx.Err() == nil
	}
	err := retry.OnError(nodelock.DefaultStrategy, again, func() error {
		n, err := client.GetClient().CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is, locked := n.Annotations[annotations.NodeLockKey]
		shall, err := decide(ctx, locked, is)
		if err != nil {
			return decided{err}
		}
		if locked && shall != nil && *shall == is || !locked && shall == nil {
			return nil
		}
		return patchNode(ctx, node, n.ResourceVersion, annotations.NodeLockKey, shall)
	})
	var final decided
	if errors.As(err, &final) {
		return final.error
	}
	return err
}

// patchNode sets an annotation of a node, nil to remove it, provided the node
// still is the one of resourceVersion; "" is any.
func patchNode(ctx context.Context, node, resourceVersion, key string, value *string) error {
	if client.GetClient() == nil {
		return errNoClient
	}
	type metadata struct {
		ResourceVersion string             `json:"resourceVersion,omitempty"`
		Annotations     map[string]*string `json:"annotations"`
	}
	patch, err := json.Marshal(map[string]metadata{
		"metadata": {ResourceVersion: resourceVersion, Annotations: map[string]*string{key: value}},
	})
	if err != nil {
		return err
	}
	_, err = client.GetClient().CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
