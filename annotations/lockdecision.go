package annotations

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// DefaultLockTimeout is how long a lock is held for an owner that no longer
// needs it; HAMi's default for its flag --node-lock-timeout.
const DefaultLockTimeout = 5 * time.Minute

// An OwnerState is what became of the pod that a node lock names.
type OwnerState int

const (
	// OwnerUnseen: nobody has looked, or the API server did not answer.
	OwnerUnseen OwnerState = iota
	// OwnerGone: there is no such pod.
	OwnerGone
	// OwnerFinished: its phase is Succeeded or Failed.
	OwnerFinished
	// OwnerUnserved: it is live and the plugin still owes it devices.
	OwnerUnserved
	// OwnerServed: it is live and has all its devices, or wants none.
	OwnerServed
)

// OwnerStateOf derives the state of a pod that exists from its phase and its
// annotations. A pod is unserved while it is Pending and one of HAMi's
// "hami.io/...devices-to-allocate" annotations, of any vendor, names a device:
// the kubelet allocates for all containers of a pod before it runs the first.
func OwnerStateOf(phase string, annotations map[string]string) OwnerState {
	switch phase {
	case "Succeeded", "Failed":
		return OwnerFinished
	case "Pending", "":
		for key, value := range annotations {
			if strings.HasPrefix(key, "hami.io/") && strings.HasSuffix(key, "devices-to-allocate") && strings.Trim(value, ";") != "" {
				return OwnerUnserved
			}
		}
	}
	return OwnerServed
}

// A LockQuery asks whether a pod may take the lock of a node.
type LockQuery struct {
	// Locked says whether the node has the annotation NodeLockKey, Value its value.
	Locked bool
	Value  string
	// Namespace and Name are the pod that wants the lock.
	Namespace, Name string
	// Owner is the state of the pod that Value names. It matters only if that is
	// another pod: see ParseNodeLock and NodeLock.OwnedBy.
	Owner OwnerState
	// OwnerErr is why Owner is OwnerUnseen.
	OwnerErr error
	// Now is the current time.
	Now time.Time
	// Timeout is how long a lock without an owner, or whose owner is served, is
	// held. 0 means DefaultLockTimeout.
	Timeout time.Duration
}

// A LockVerdict is what to do about a node lock.
type LockVerdict int

const (
	// LockHeld: another pod has the lock; try again later. In HAMi's terms this is
	// lock contention.
	LockHeld LockVerdict = iota
	// LockTake: write the own lock in place of what is there.
	LockTake
	// LockKeep: the pod has the lock already; write nothing.
	LockKeep
)

// String is for logs.
func (v LockVerdict) String() string {
	switch v {
	case LockHeld:
		return "held"
	case LockTake:
		return "take"
	case LockKeep:
		return "keep"
	}
	return fmt.Sprintf("LockVerdict(%d)", int(v))
}

// A LockDecision is a verdict with its reason.
type LockDecision struct {
	Verdict LockVerdict
	// Holder is the lock that is there now, zero if there is none.
	Holder NodeLock
	// Reason says in one line why, for logs and events.
	Reason string
}

// DecideLock decides whether a pod may take a node's lock. It looks at nothing
// but q. Whoever writes the lock must guard the write by the resourceVersion of
// the node from which q.Value came.
//
// A lock is held as long as its owner is live and unserved, however old it is:
// taking it over then would hand the owner's devices to another pod (HAMi#3096).
// It is taken when its owner is gone or finished, and after the timeout when the
// owner has its devices or the lock names none. A malformed lock and an owner
// nobody could look at are errors: the node stays as it is.
func DecideLock(q LockQuery) (LockDecision, error) {
	if q.Namespace == "" || q.Name == "" {
		return LockDecision{}, fmt.Errorf("decide %s: want the namespace and name of a pod, found %s and %s", NodeLockKey, quote(q.Namespace), quote(q.Name))
	}
	if !q.Locked {
		return LockDecision{Verdict: LockTake, Reason: "the node is not locked"}, nil
	}
	lock, err := ParseNodeLock(q.Value)
	if err != nil {
		return LockDecision{}, err
	}
	timeout := q.Timeout
	if timeout == 0 {
		timeout = DefaultLockTimeout
	}
	// A lock from the future by more than the timeout is not a clock a little
	// ahead; without Abs it would be held for ever.
	age := q.Now.Sub(lock.Time).Abs()
	decide := func(v LockVerdict, reason string) (LockDecision, error) {
		return LockDecision{Verdict: v, Holder: lock, Reason: reason}, nil
	}
	// untilTimeout is for a lock nobody needs, in case its holder is just about
	// to remove it.
	untilTimeout := func(who string) (LockDecision, error) {
		if age > timeout {
			return decide(LockTake, fmt.Sprintf("%s and the lock is older than %v", who, timeout))
		}
		return decide(LockHeld, fmt.Sprintf("%s and the lock is not older than %v", who, timeout))
	}
	if lock.OwnedBy(q.Namespace, q.Name) {
		return decide(LockKeep, "the pod has the lock")
	}
	if lock.Legacy() {
		return untilTimeout("the lock names no owner")
	}
	owner := "its owner " + lock.Namespace + "/" + lock.Name
	switch q.Owner {
	case OwnerGone:
		return decide(LockTake, owner+" is gone")
	case OwnerFinished:
		return decide(LockTake, owner+" has finished")
	case OwnerUnserved:
		return decide(LockHeld, owner+" waits for its devices")
	case OwnerServed:
		return untilTimeout(owner + " has its devices")
	}
	cause := q.OwnerErr
	if cause == nil {
		cause = errOwnerUnseen
	}
	return LockDecision{}, fmt.Errorf("decide %s: look at %s: %w", NodeLockKey, owner, cause)
}

var errOwnerUnseen = errors.New("nobody has looked")

// DecideRelease decides whether a pod may remove a node's lock: its own, or one
// that names no owner. Another pod's lock stays, without an error, because a late
// release must not unlock whoever came next. A malformed lock stays as well, with
// an error. locked and value are as in LockQuery.
func DecideRelease(locked bool, value, namespace, name string) (release bool, err error) {
	if !locked {
		return false, nil
	}
	lock, err := ParseNodeLock(value)
	if err != nil {
		return false, err
	}
	return lock.Legacy() || lock.OwnedBy(namespace, name), nil
}
