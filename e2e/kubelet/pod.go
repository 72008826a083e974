package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Rejection is kubelet's verdict that a pod cannot run on the node. The pod is
// Failed then, with this reason and message in its status.
type Rejection struct {
	Pod     types.NamespacedName
	Reason  string // UnexpectedAdmissionError when a plugin's Allocate failed, OutOfamd.com/gpu and so on
	Message string
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("kubelet rejected pod %q: %s: %s", r.Pod, r.Reason, r.Message)
}

// Admit decides on a pod bound to the node: it allocates devices to each
// container, init containers first, and then checks the node's resources. When
// either fails it writes the pod's status as kubelet does, retrying until ctx
// ends, and returns a *Rejection. The device manager puts no deadline on the
// plugin, so ctx does not end a call of Allocate.
func (k *Kubelet) Admit(ctx context.Context, pod *corev1.Pod) error {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if pod.Spec.NodeName != k.o.NodeName || pod.UID == "" {
		return fmt.Errorf("admit pod %q on node %q: %w: found %q", name, k.o.NodeName, ErrOtherNode, pod.Spec.NodeName)
	}
	pod = pod.DeepCopy()
	k.mu.Lock()
	state := k.pods[pod.UID]
	if state == nil {
		state = &podState{}
		k.pods[pod.UID] = state
	}
	state.pod = pod
	handlers := k.handlers
	k.mu.Unlock()

	result := k.decide(handlers, pod)
	if result.Admit {
		return nil
	}
	k.mu.Lock()
	state.ended = true
	k.mu.Unlock()
	rejection := &Rejection{Pod: name, Reason: result.Reason, Message: result.Message}
	status := corev1.PodStatus{
		Phase:    corev1.PodFailed,
		QOSClass: pod.Status.QOSClass,
		Reason:   result.Reason,
		Message:  "Pod was rejected: " + result.Message,
	}
	if err := k.patchStatus(ctx, pod, status); err != nil {
		return fmt.Errorf("%w (and its status could not be written: %w)", rejection, err)
	}
	return rejection
}

func (k *Kubelet) decide(handlers lifecycle.PodAdmitHandlers, pod *corev1.Pod) lifecycle.PodAdmitResult {
	k.admission.Lock()
	defer k.admission.Unlock()
	others := slices.DeleteFunc(k.activePods(), func(p *corev1.Pod) bool { return p.UID == pod.UID })
	attrs := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation}
	for _, handler := range handlers {
		if result := handler.Admit(attrs); !result.Admit {
			return result
		}
	}
	return lifecycle.PodAdmitResult{Admit: true}
}

// noPreemption takes kubelet's critical pods' place: nothing is evicted here.
type noPreemption struct{}

func (noPreemption) HandleAdmissionFailure(_ context.Context, _ *corev1.Pod, reasons []lifecycle.PredicateFailureReason) ([]lifecycle.PredicateFailureReason, error) {
	return reasons, nil
}

// Run starts the pod's containers as far as devices go: it gets each one's
// settings from the device manager in the order containers start, as the
// runtime would be told them, and writes the pod's status: Running, ordinary
// init containers finished.
func (k *Kubelet) Run(ctx context.Context, pod *corev1.Pod) (map[string]Container, error) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	settings := map[string]Container{}
	var running, finished []string
	var initStatuses, statuses []corev1.ContainerStatus
	now := metav1.Now()
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		options, err := k.devices().GetDeviceRunContainerOptions(ctx, pod, &c)
		if err != nil {
			return nil, fmt.Errorf("run pod %q: settings of container %q: %w", name, c.Name, err)
		}
		settings[c.Name] = newContainer(options, &c)
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true}
		isInit := i < len(pod.Spec.InitContainers)
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if isInit && !sidecar {
			finished = append(finished, c.Name)
			status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
		} else {
			running = append(running, c.Name)
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
			started := true
			status.Started = &started
		}
		if isInit {
			initStatuses = append(initStatuses, status)
		} else {
			statuses = append(statuses, status)
		}
	}
	k.mu.Lock()
	if state := k.pods[pod.UID]; state != nil {
		state.running, state.finished = running, finished
	}
	k.mu.Unlock()
	return settings, k.patchStatus(ctx, pod, corev1.PodStatus{
		Phase:                 corev1.PodRunning,
		QOSClass:              pod.Status.QOSClass,
		InitContainerStatuses: initStatuses,
		ContainerStatuses:     statuses,
	})
}

// Finish ends a pod's containers and writes its last phase: Succeeded or
// Failed. Its devices are free from the next Admit on.
func (k *Kubelet) Finish(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	k.mu.Lock()
	if state := k.pods[pod.UID]; state != nil {
		state.ended, state.running = true, nil
	}
	k.mu.Unlock()
	return k.patchStatus(ctx, pod, corev1.PodStatus{Phase: phase, QOSClass: pod.Status.QOSClass})
}

// Terminate marks a pod for deletion and leaves its containers running, as
// while they use their grace period. Call Delete to end it.
func (k *Kubelet) Terminate(ctx context.Context, pod *corev1.Pod) error {
	grace := int64(3600)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil {
		return fmt.Errorf("terminate pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Delete ends a pod's containers and removes it from the API server, as kubelet
// does once they have stopped. A pod that is gone already is no error.
func (k *Kubelet) Delete(ctx context.Context, pod *corev1.Pod) error {
	k.mu.Lock()
	delete(k.pods, pod.UID)
	k.mu.Unlock()
	var now int64
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// patchStatus writes a pod's status like kubelet's status manager: guarded by
// the uid, and again and again while the API server gives no answer.
func (k *Kubelet) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	for {
		_, err := k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			return nil
		}
		err = fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		var answer apierrors.APIStatus
		if errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
			return err // gone, replaced or refused: no use to try again
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
