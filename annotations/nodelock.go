package annotations

import (
	"fmt"
	"strings"
	"time"
)

// A NodeLock is the value of NodeLockKey: since when the node is locked and for
// which pod. All vendors under HAMi share the one lock of a node.
type NodeLock struct {
	// Time is when the lock was taken, in whole seconds.
	Time time.Time `json:"time"`
	// Namespace and Name are the pod's, both empty in a legacy lock.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// maxLockBytes is longer than an RFC 3339 time, a namespace (63 bytes) and a pod
// name (253 bytes) together.
const maxLockBytes = 512

// ParseNodeLock reads "<RFC 3339 time>,<namespace>,<pod name>", or a time alone,
// which is how HAMi wrote locks before they had an owner. Anything else, the
// empty string included, is an error.
func ParseNodeLock(s string) (NodeLock, error) {
	lock, err := parseNodeLock(s)
	if err != nil {
		return NodeLock{}, fmt.Errorf("%s: %w", NodeLockKey, err)
	}
	return lock, nil
}

func parseNodeLock(s string) (NodeLock, error) {
	if len(s) > maxLockBytes {
		return NodeLock{}, fmt.Errorf("%d bytes long, want at most %d", len(s), maxLockBytes)
	}
	stamp, owner, owned := strings.Cut(s, ",")
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return NodeLock{}, fmt.Errorf("want <RFC 3339 time>,<namespace>,<pod name>, found %s", quote(s))
	}
	if !owned {
		return NodeLock{Time: t}, nil
	}
	namespace, name, _ := strings.Cut(owner, ",")
	err = checkObjectName("namespace", namespace)
	if err == nil {
		err = checkObjectName("pod name", name)
	}
	if err != nil {
		return NodeLock{}, fmt.Errorf("want <RFC 3339 time>,<namespace>,<pod name>, found %s: %w", quote(s), err)
	}
	return NodeLock{Time: t, Namespace: namespace, Name: name}, nil
}

// checkObjectName refuses what no Kubernetes object can be called and what would
// mean something in a lock or in an API path.
func checkObjectName(field, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", field)
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || c == ',' || c == '/' || c == '%' {
			return fmt.Errorf("%s contains %q", field, c)
		}
	}
	return nil
}

// String is the annotation value, without a fraction of a second as HAMi writes it.
func (l NodeLock) String() string {
	stamp := l.Time.Format(time.RFC3339)
	if l.Legacy() {
		return stamp
	}
	return stamp + "," + l.Namespace + "," + l.Name
}

// Legacy reports whether the lock names no owner.
func (l NodeLock) Legacy() bool { return l.Namespace == "" && l.Name == "" }

// OwnedBy reports whether the lock names this pod.
func (l NodeLock) OwnedBy(namespace, name string) bool {
	return !l.Legacy() && l.Namespace == namespace && l.Name == name
}
