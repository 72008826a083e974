package kubelet

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"
)

// SyncNode writes the node's status as kubelet does every ten seconds: capacity
// and allocatable with what the plugins announced, and that the node is ready.
// It creates the node if it does not exist. A resource whose plugin has been
// away for five minutes is written as 0.
func (k *Kubelet) SyncNode(ctx context.Context) error {
	old, err := k.getNode(ctx, false)
	if apierrors.IsNotFound(err) {
		old, err = k.client.CoreV1().Nodes().Create(ctx, k.newNode(), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("sync node %q: %w", k.o.NodeName, err)
	}
	node := old.DeepCopy()
	capacity, allocatable, removed := k.devices().GetCapacity()
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = corev1.ResourceList{}
	}
	for name, quantity := range capacity {
		node.Status.Capacity[name] = quantity
	}
	for _, name := range removed {
		node.Status.Capacity[corev1.ResourceName(name)] = *resource.NewQuantity(0, resource.DecimalSI)
	}
	for name := range node.Status.Allocatable {
		if _, ok := node.Status.Capacity[name]; !ok {
			delete(node.Status.Allocatable, name)
		}
	}
	// What others put into the capacity is allocatable as a whole.
	for name, quantity := range node.Status.Capacity {
		node.Status.Allocatable[name] = quantity
	}
	for name, quantity := range allocatable {
		node.Status.Allocatable[name] = quantity
	}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	node, _, err = nodeutil.PatchNodeStatus(k.client.CoreV1(), types.NodeName(k.o.NodeName), old, node)
	if err != nil {
		return fmt.Errorf("sync node %q: %w", k.o.NodeName, err)
	}
	k.mu.Lock()
	k.node = node
	k.mu.Unlock()
	return nil
}

// WaitCapacity waits until the plugins have announced this many healthy devices
// of a resource, and then syncs the node.
func (k *Kubelet) WaitCapacity(ctx context.Context, name corev1.ResourceName, healthy int64) error {
	for {
		total, got := k.Capacity(name)
		if got == healthy {
			return k.SyncNode(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d healthy %s: %w, found %d of %d", healthy, name, context.Cause(ctx), got, total)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// RemoveNode deletes the node, and the pods that are on it, from the API server.
func (k *Kubelet) RemoveNode(ctx context.Context) error {
	pods, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.o.NodeName})
	if err != nil {
		return fmt.Errorf("remove node %q: %w", k.o.NodeName, err)
	}
	for _, pod := range pods.Items {
		if err := k.Delete(ctx, &pod); err != nil {
			return fmt.Errorf("remove node %q: %w", k.o.NodeName, err)
		}
	}
	if err := k.client.CoreV1().Nodes().Delete(ctx, k.o.NodeName, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("remove node %q: %w", k.o.NodeName, err)
	}
	return nil
}

// newNode is a machine large enough that only devices are ever short.
func (k *Kubelet) newNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.o.NodeName,
			Labels: map[string]string{
				corev1.LabelHostname:   k.o.NodeName,
				corev1.LabelOSStable:   runtime.GOOS,
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("256"),
			corev1.ResourceMemory: resource.MustParse("2Ti"),
			corev1.ResourcePods:   resource.MustParse("1000"),
		}},
	}
}

// getNode returns the node; with cached, as of the last SyncNode, which also
// works while the API server is away.
func (k *Kubelet) getNode(ctx context.Context, cached bool) (*corev1.Node, error) {
	if cached {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.node.DeepCopy(), nil // the admission checks write into it
	}
	return k.client.CoreV1().Nodes().Get(ctx, k.o.NodeName, metav1.GetOptions{})
}
