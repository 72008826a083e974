package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// createNode makes the node's object, unless it is there.
func createNode(ctx context.Context, client kubernetes.Interface) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}}}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %q: %w", nodeName, err)
	}
	return nil
}

// publish writes a resource into the node's status, as kubelet does, and that
// the node is ready.
func (k *kubelet) publish(resource string, total, healthy int) {
	if k.client == nil {
		return
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"capacity":    map[string]string{resource: fmt.Sprint(total)},
		"allocatable": map[string]string{resource: fmt.Sprint(healthy)},
		"conditions": []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "LocalNode", LastHeartbeatTime: now, LastTransitionTime: now,
		}},
	}})
	if err == nil {
		_, err = k.client.CoreV1().Nodes().Patch(k.streams, nodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil && k.streams.Err() == nil {
		k.say("the node's status was not written: %v", err)
	}
}

// setPhase writes how a pod is.
func (k *kubelet) setPhase(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// remove ends a pod that was deleted: no container is there to wait for.
func (k *kubelet) remove(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.NewDeleteOptions(0)
	now.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *now)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
