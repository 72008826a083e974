package monitor

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// store is a [cache.ReflectorStore] that keeps what trim leaves of the objects
// it wants. An object is never changed once it is in.
type store[T metav1.Object] struct {
	what string // for messages
	lw   cache.ListerWatcher
	trim func(T) (T, bool)

	mu      sync.Mutex // for what follows
	objects map[string]T
	listed  bool
	err     error // of the last request, nil if it went well
}

// Add implements [cache.ReflectorStore].
func (s *store[T]) Add(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set(obj)
}

// Update implements [cache.ReflectorStore].
func (s *store[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements [cache.ReflectorStore].
func (s *store[T]) Delete(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%s: unexpected %T", s.what, obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key(o))
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *store[T]) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.listed = make(map[string]T), true
	for _, obj := range list {
		if err := s.set(obj); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements [cache.ReflectorStore].
func (s *store[T]) Resync() error { return nil }

func (s *store[T]) set(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%s: unexpected %T", s.what, obj)
	}
	if trimmed, wanted := s.trim(o); wanted {
		s.objects[key(o)] = trimmed
	} else {
		delete(s.objects, key(o))
	}
	return nil
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// seen notes how a request to the API server went. The URL, with a timeout that
// differs each time, is left out of the error: the same failure reads the same.
func (s *store[T]) seen(err error) {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// unlisted is why there is nothing to answer yet.
func (s *store[T]) unlisted() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.listed:
		return nil
	case s.err != nil:
		return fmt.Errorf("%s: %w: %w", s.what, ErrNotListed, s.err)
	}
	return fmt.Errorf("%s: %w", s.what, ErrNotListed)
}

// all are the objects, with an error if they may be old.
func (s *store[T]) all() ([]T, error) {
	if err := s.unlisted(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Collect(maps.Values(s.objects))
	if s.err != nil {
		return list, fmt.Errorf("%s as last seen: %w", s.what, s.err)
	}
	return list, nil
}

// trimPod is what a collector reads of a pod.
func trimPod(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Annotations: make(map[string]string)},
		Spec: corev1.PodSpec{
			NodeName:       p.Spec.NodeName,
			InitContainers: trimContainers(p.Spec.InitContainers),
			Containers:     trimContainers(p.Spec.Containers),
		},
		Status: corev1.PodStatus{
			Phase:                 p.Status.Phase,
			QOSClass:              p.Status.QOSClass,
			InitContainerStatuses: trimStatuses(p.Status.InitContainerStatuses),
			ContainerStatuses:     trimStatuses(p.Status.ContainerStatuses),
		},
	}
	for _, key := range []string{annotations.AllocatedKey, annotations.CUAllocatedKey, annotations.CUContainersKey, mirrorUID} {
		if value, ok := p.Annotations[key]; ok {
			out.Annotations[key] = value
		}
	}
	return out
}

func trimContainers(list []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(list))
	for i := range list {
		out[i] = corev1.Container{Name: list[i].Name, Resources: list[i].Resources, RestartPolicy: list[i].RestartPolicy}
	}
	return out
}

func trimStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(list))
	for i := range list {
		out[i] = corev1.ContainerStatus{Name: list[i].Name, ContainerID: list[i].ContainerID, State: corev1.ContainerState{Running: list[i].State.Running}}
	}
	return out
}

// trimNode is what a collector reads of a node.
func trimNode(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if value, ok := n.Annotations[annotations.NodeRegisterKey]; ok {
		out.Annotations = map[string]string{annotations.NodeRegisterKey: value}
	}
	return out
}
