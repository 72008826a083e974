package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// ScheduleOptions are the scheduler's own settings. The zero value is HAMi's
// defaults.
type ScheduleOptions struct {
	// GPUPolicy is used for pods without hami.io/gpu-scheduler-policy. Default
	// "spread".
	GPUPolicy string
	// NodePolicy is used for pods without hami.io/node-scheduler-policy. Default
	// "binpack".
	NodePolicy string
	// Now is the time of the decision. Default is the time of the call.
	Now time.Time
	// Quota reports whether the pod's namespace may hold memMiB of VRAM for this
	// pod, all containers that run at the same time together. nil is no quota. It
	// must not call the ledger.
	Quota func(namespace string, memMiB int64) bool
}

// ignored are the notes about policies that nobody knows.
func (o *ScheduleOptions) ignored() (notes []string) {
	if err := CheckPolicy(annotations.GPUSchedulerPolicyKey, o.GPUPolicy); err != nil {
		notes = append(notes, "the scheduler's GPU policy: "+err.Error()+", which is ignored")
	}
	if err := CheckPolicy(annotations.NodeSchedulerPolicyKey, o.NodePolicy); err != nil {
		notes = append(notes, "the scheduler's node policy: "+err.Error()+", which is ignored")
	}
	return notes
}

// Decision is what the scheduler makes of a pod.
type Decision struct {
	// Pod is the pod as admitted.
	Pod *corev1.Pod
	// Asks is false for a pod that asks for no GPU: any node will do.
	Asks bool
	// Node is the node chosen, "" when none fits or none is needed.
	Node string
	// Grants are what the pod gets there, one entry per container, init
	// containers first.
	Grants annotations.PodGrants
	// Annotations and Labels are what the scheduler writes on the pod.
	Annotations, Labels map[string]string
	// Refusals say why each of the other nodes does not fit, by node name.
	Refusals []Refusal
	// Notes are what was noticed on the way: what admission took off the pod,
	// objects that could not be read, policies that nobody knows.
	Notes []string
}

// A Refusal is why a pod does not fit on a node.
type Refusal struct {
	Node string
	// Container is the first that does not fit, "" when the node as a whole is
	// refused with Err.
	Container string
	Reasons   Reasons
	Err       error
}

func (r Refusal) String() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return r.Reasons.String()
}

// Schedule decides about a pod given the cluster's nodes and pods: it runs Admit
// on a copy of the pod, adds up what the other pods hold, and chooses node and
// devices. Nodes and pods that cannot be read are in the decision's notes.
//
// It adds everything up each time; a scheduler keeps a [Ledger] instead.
func (d *Devices) Schedule(pod *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod, opts ScheduleOptions) (Decision, error) {
	pod = pod.DeepCopy()
	admission, err := d.Admit(pod)
	if err != nil {
		return Decision{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	notes := admission.Notes
	ledger := NewLedger(d)
	for _, node := range nodes {
		if err := ledger.SetNode(node); err != nil {
			notes = append(notes, err.Error())
		}
	}
	for _, other := range pods {
		if podUID(other) == podUID(pod) {
			continue
		}
		if err := ledger.SetPod(other); err != nil {
			notes = append(notes, err.Error())
		}
	}
	decision, err := ledger.Schedule(pod, opts)
	decision.Notes = append(notes, decision.Notes...)
	return decision, err
}

// Schedule chooses node and devices for an admitted pod as HAMi's scheduler
// does, and books nothing: see Hold. What the pod itself holds from an earlier
// decision counts as free. An error is about the pod alone: a request or
// annotation that no scheduler can act on.
func (l *Ledger) Schedule(pod *corev1.Pod, opts ScheduleOptions) (Decision, error) {
	e, err := l.evaluator(pod, opts)
	if err != nil {
		return Decision{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	decision := Decision{Pod: pod, Asks: e.asking > 0}
	if !decision.Asks {
		return decision, nil
	}
	decision.Notes = opts.ignored()
	l.mu.RLock()
	defer l.mu.RUnlock()
	e.own = l.pods[podUID(pod)]
	var best float32
	for _, n := range l.order {
		if !n.known {
			continue
		}
		score, refusal := e.node(n)
		if refusal != nil {
			decision.Refusals = append(decision.Refusals, *refusal)
			continue
		}
		if decision.Node == "" || e.better(score, best) {
			decision.Node, best = n.name, score
			e.keep()
		}
	}
	if decision.Node == "" {
		return decision, nil
	}
	decision.Grants = e.kept
	value, err := annotations.EncodePod(decision.Grants)
	if err != nil {
		return Decision{}, fmt.Errorf("pod %s/%s: node %q: %w", pod.Namespace, pod.Name, decision.Node, err)
	}
	now := opts.Now
	if now.IsZero() {
		now = time.Now()
	}
	decision.Annotations = map[string]string{
		annotations.AllocatedKey:  value,
		annotations.ToAllocateKey: value,
		annotations.VGPUNodeKey:   decision.Node,
		annotations.VGPUTimeKey:   annotations.FormatTime(now),
	}
	decision.Labels = map[string]string{annotations.VGPUNodeKey: decision.Node}
	return decision, nil
}

// Apply returns a copy of the decision's pod with its annotations and label, as
// the API server would have it before the pod is bound.
func (d Decision) Apply() *corev1.Pod {
	pod := d.Pod.DeepCopy()
	if len(d.Annotations) > 0 {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, d.Annotations)
	}
	if len(d.Labels) > 0 {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, d.Labels)
	}
	return pod
}

// Reason says in one line why no node fits, grouped as HAMi's events are:
// "2 nodes 8/8 CardInsufficientMemory(a,b)". It is "" when one does.
func (d Decision) Reason() string {
	if d.Node != "" || !d.Asks {
		return ""
	}
	if len(d.Refusals) == 0 {
		return "no nodes"
	}
	byReason := map[string][]string{}
	for _, r := range d.Refusals {
		byReason[r.String()] = append(byReason[r.String()], r.Node)
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		parts = append(parts, fmt.Sprintf("%d nodes %s(%s)", len(byReason[reason]), reason, strings.Join(byReason[reason], ",")))
	}
	return strings.Join(parts, "; ")
}
