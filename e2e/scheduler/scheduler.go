package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

var (
	// ErrUnfit is returned when no node fits the pod. A later try may succeed.
	ErrUnfit = errors.New("no node fits")
	// ErrLocked is returned when another pod holds the node lock. A later try
	// may succeed.
	ErrLocked = errors.New("node is locked")
)

// Options are the scheduler's settings. The zero value is HAMi's defaults.
type Options struct {
	Config   amd.Config
	Schedule amd.ScheduleOptions
	// LockTimeout is HAMi's --node-lock-timeout. 0: five minutes.
	LockTimeout time.Duration
}

// Scheduler decides about pods. Its methods may be called from several goroutines.
type Scheduler struct {
	client  kubernetes.Interface
	devices *amd.Devices
	o       Options

	filter sync.Mutex // HAMi's kube-scheduler places one pod at a time
}

// New returns a scheduler, or an error if the configuration is wrong.
func New(client kubernetes.Interface, o Options) (*Scheduler, error) {
	devices, err := amd.New(o.Config)
	if err != nil {
		return nil, err
	}
	return &Scheduler{client: client, devices: devices, o: o}, nil
}

// Schedule creates the pod, places it and binds it, and returns it as it is
// then. While its node is locked it tries again from the placing on, as
// kube-scheduler does with a pod that could not be bound, until ctx ends. A pod
// that asks for no GPU is bound to the only node there is. With an error after
// the creation it returns the pod as created, for the caller to delete.
func (s *Scheduler) Schedule(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pod, err := s.Create(ctx, pod)
	if err != nil {
		return nil, err
	}
	for {
		decision, err := s.Filter(ctx, pod)
		if err != nil {
			return pod, err
		}
		bound, err := s.Bind(ctx, decision.Pod, decision.Node)
		switch {
		case err == nil:
			return bound, nil
		case !errors.Is(err, ErrLocked):
			return pod, err
		}
		select {
		case <-ctx.Done():
			return pod, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Create is the webhook and the creation: it admits a copy of the pod and
// creates that. A pod that admission refuses is not created.
func (s *Scheduler) Create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if _, err := s.devices.Admit(pod); err != nil {
		return nil, fmt.Errorf("admit pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	created, err := s.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return created, nil
}

// Filter chooses node and devices for a pod and writes them on it in one merge
// patch. The decision's Pod is the pod as it is then. When no node fits it
// returns the decision with its refusals, and ErrUnfit.
func (s *Scheduler) Filter(ctx context.Context, pod *corev1.Pod) (amd.Decision, error) {
	s.filter.Lock()
	defer s.filter.Unlock()
	nodeList, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return amd.Decision{}, fmt.Errorf("filter pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	podList, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return amd.Decision{}, fmt.Errorf("filter pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	ledger := amd.NewLedger(s.devices)
	var notes []string
	for i := range nodeList.Items {
		if err := ledger.SetNode(&nodeList.Items[i]); err != nil {
			notes = append(notes, err.Error())
		}
	}
	for i := range podList.Items {
		if podList.Items[i].UID == pod.UID {
			continue // it gives up what an earlier try gave it
		}
		if err := ledger.SetPod(&podList.Items[i]); err != nil {
			notes = append(notes, err.Error())
		}
	}
	decision, err := ledger.Schedule(pod, s.o.Schedule)
	decision.Notes = append(notes, decision.Notes...)
	switch {
	case err != nil:
		return decision, err
	case !decision.Asks && len(nodeList.Items) == 1:
		decision.Node = nodeList.Items[0].Name
		return decision, nil
	case !decision.Asks:
		return decision, fmt.Errorf("filter pod %s/%s: it asks for no GPU and there are %d nodes, want one", pod.Namespace, pod.Name, len(nodeList.Items))
	case decision.Node == "":
		return decision, fmt.Errorf("filter pod %s/%s: %w: %s", pod.Namespace, pod.Name, ErrUnfit, decision.Reason())
	}
	decision.Pod, err = s.patchPod(ctx, pod, decision.Annotations, decision.Labels)
	return decision, err
}

// Bind binds a placed pod to a node: it takes the node lock, says so in the
// pod's bind phase, and creates the binding. When a step fails it releases the
// lock. The lock stays when all went well: the plugin releases it. A pod that
// asks for no GPU is bound without all that.
func (s *Scheduler) Bind(ctx context.Context, pod *corev1.Pod, node string) (*corev1.Pod, error) {
	asks := false
	for _, a := range s.devices.Asks(pod) {
		asks = asks || a
	}
	if asks {
		if err := s.TakeLock(ctx, node, pod); err != nil {
			return nil, fmt.Errorf("bind pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	bound, err := s.bindLocked(ctx, pod, node, asks)
	if err != nil && asks {
		err = errors.Join(err, s.ReleaseLock(ctx, node, pod))
	}
	return bound, err
}

func (s *Scheduler) bindLocked(ctx context.Context, pod *corev1.Pod, node string, asks bool) (*corev1.Pod, error) {
	if asks {
		_, err := s.patchPod(ctx, pod, map[string]string{
			annotations.BindPhaseKey: string(annotations.BindAllocating),
			annotations.BindTimeKey:  annotations.FormatTime(time.Now()),
		}, nil)
		if err != nil {
			return nil, err
		}
	}
	pods := s.client.CoreV1().Pods(pod.Namespace)
	err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("bind pod %s/%s to node %q: %w", pod.Namespace, pod.Name, node, err)
	}
	bound, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read bound pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return bound, nil
}

// patchPod writes annotations and labels in one merge patch, as HAMi does.
func (s *Scheduler) patchPod(ctx context.Context, pod *corev1.Pod, notes, labels map[string]string) (*corev1.Pod, error) {
	metadata := map[string]any{"annotations": notes}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("encode a patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patched, err := s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("write annotations of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patched, nil
}
