package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// lockTries is how often HAMi writes a lock before it gives up on conflicts.
const lockTries = 5

// TakeLock takes the node lock for a pod if annotations.DecideLock lets it. It
// returns ErrLocked when another pod holds the lock.
func (s *Scheduler) TakeLock(ctx context.Context, node string, pod *corev1.Pod) error {
	return s.changeLock(ctx, node, func(current *corev1.Node) (*string, bool, error) {
		value, locked := current.Annotations[annotations.NodeLockKey]
		query := annotations.LockQuery{
			Locked: locked, Value: value,
			Namespace: pod.Namespace, Name: pod.Name,
			Now: time.Now(), Timeout: s.o.LockTimeout,
		}
		if locked {
			query.Owner, query.OwnerErr = s.ownerState(ctx, value)
		}
		decision, err := annotations.DecideLock(query)
		if err != nil {
			return nil, false, err
		}
		switch decision.Verdict {
		case annotations.LockKeep:
			return nil, false, nil
		case annotations.LockTake:
			mine := annotations.NodeLock{Time: query.Now, Namespace: pod.Namespace, Name: pod.Name}.String()
			return &mine, true, nil
		}
		return nil, false, fmt.Errorf("%w: %s", ErrLocked, decision.Reason)
	})
}

// ReleaseLock removes the node lock if the pod owns it, and leaves another
// pod's lock alone.
func (s *Scheduler) ReleaseLock(ctx context.Context, node string, pod *corev1.Pod) error {
	return s.changeLock(ctx, node, func(current *corev1.Node) (*string, bool, error) {
		value, locked := current.Annotations[annotations.NodeLockKey]
		release, err := annotations.DecideRelease(locked, value, pod.Namespace, pod.Name)
		return nil, release, err
	})
}

// changeLock writes the value that decide wants, nil to remove it, guarded by
// the resourceVersion decide has seen; on a conflict it decides again.
func (s *Scheduler) changeLock(ctx context.Context, name string, decide func(*corev1.Node) (value *string, write bool, err error)) error {
	nodes := s.client.CoreV1().Nodes()
	var conflict error
	for range lockTries {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("lock of node %q: %w", name, err)
		}
		value, write, err := decide(node)
		if err != nil {
			return fmt.Errorf("lock of node %q: %w", name, err)
		}
		if !write {
			return nil
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": node.ResourceVersion,
			"annotations":     map[string]*string{annotations.NodeLockKey: value},
		}})
		if err != nil {
			return fmt.Errorf("lock of node %q: %w", name, err)
		}
		_, err = nodes.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			if err != nil {
				err = fmt.Errorf("lock of node %q: %w", name, err)
			}
			return err
		}
		conflict = err
	}
	return fmt.Errorf("lock of node %q: %d tries: %w", name, lockTries, conflict)
}

// ownerState looks at the pod that a lock names. A malformed lock has none, and
// DecideLock refuses it by itself.
func (s *Scheduler) ownerState(ctx context.Context, value string) (annotations.OwnerState, error) {
	lock, err := annotations.ParseNodeLock(value)
	if err != nil || lock.Legacy() {
		return annotations.OwnerUnseen, err
	}
	owner, err := s.client.CoreV1().Pods(lock.Namespace).Get(ctx, lock.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return annotations.OwnerGone, nil
	case err != nil:
		return annotations.OwnerUnseen, err
	}
	return annotations.OwnerStateOf(string(owner.Status.Phase), owner.Annotations), nil
}
