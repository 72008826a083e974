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
	// objects that could not be read.
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
	l.mu.RLock()
	defer l.mu.RUnlock()
	e.own = l.pods[podUID(pod)]
	var best float32
	for _, name := range l.names {
		n := l.nodes[name]
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

// evaluator tries one pod on one node after the other.
type evaluator struct {
	d          *Devices
	pod        *corev1.Pod
	requests   []podRequest
	asking     int // of them
	pol        Policy
	ord        ordering
	nodePolicy string
	own        *podBook // what the pod holds from an earlier decision

	fit    fitter
	scorer scorer
	work   []Usage // the node's usage with the containers placed so far
	buf    []annotations.Grant
	grants annotations.PodGrants // of the node at hand
	kept   annotations.PodGrants // of the best one

	// Memory of the containers placed so far, for the quota.
	running, peak int64
}

// podRequest is one container's request.
type podRequest struct {
	Request
	name  string
	stays bool // app container or sidecar
}

func (l *Ledger) evaluator(pod *corev1.Pod, opts ScheduleOptions) (*evaluator, error) {
	if pod.Spec.NodeName != "" {
		return nil, fmt.Errorf("already bound to node %q", pod.Spec.NodeName)
	}
	e := &evaluator{d: l.devices, pod: pod}
	inits := len(pod.Spec.InitContainers)
	for i, ctr := range podContainers(pod) {
		r, err := l.devices.Request(ctr)
		if err != nil {
			return nil, err
		}
		if r.Count > 0 {
			e.asking++
		}
		e.requests = append(e.requests, podRequest{Request: r, name: ctr.Name, stays: i >= inits || Sidecar(ctr)})
	}
	weights := annotations.ScoringWeights{Slot: 1, Core: 1, Memory: 1}
	if value, ok := pod.Annotations[annotations.ScoringWeightsKey]; ok {
		var err error
		if weights, err = annotations.ParseWeights(value); err != nil {
			return nil, err
		}
	}
	gpuPolicy, ok := pod.Annotations[annotations.GPUSchedulerPolicyKey]
	if !ok {
		gpuPolicy = opts.GPUPolicy
	}
	e.pol = ParsePolicy(pod.Annotations, opts.GPUPolicy)
	e.ord = parseOrdering(gpuPolicy, weights)
	if e.nodePolicy, ok = pod.Annotations[annotations.NodeSchedulerPolicyKey]; !ok {
		e.nodePolicy = opts.NodePolicy
	}
	if opts.Quota != nil {
		e.pol.Quota = func(memMiB int64) bool {
			return opts.Quota(pod.Namespace, max(e.peak, e.running+memMiB))
		}
	}
	e.grants = make(annotations.PodGrants, len(e.requests))
	return e, nil
}

// better compares node scores as the node policy wants it. The first of equals
// stays.
func (e *evaluator) better(score, best float32) bool {
	if e.nodePolicy == annotations.PolicySpread {
		return score < best
	}
	return score > best
}

// keep saves the grants just made.
func (e *evaluator) keep() {
	e.kept = make(annotations.PodGrants, len(e.grants))
	for i := range e.grants {
		e.kept[i] = append([]annotations.Grant{}, e.grants[i]...)
	}
}

// node places the pod on a node and scores the placement.
func (e *evaluator) node(n *nodeBook) (float32, *Refusal) {
	if n.fault != nil {
		return 0, &Refusal{Node: n.name, Err: n.fault}
	}
	before, score := n.usage, n.score
	if e.own != nil && e.own.node == n.name {
		before = n.without(e.own)
		score = nodeScore(before)
	}
	usage := before
	if e.asking > 1 {
		e.work = append(e.work[:0], before...)
		usage = e.work
	}
	e.buf = e.buf[:0]
	e.running, e.peak = 0, 0
	e.scorer.begin(before, n.groups)
	for i := range e.requests {
		r := &e.requests[i]
		e.grants[i] = nil
		if r.Count == 0 {
			continue
		}
		if !e.container(n, usage, i) {
			return 0, &Refusal{Node: n.name, Container: r.name, Reasons: e.fit.reasons}
		}
	}
	if e.d.config.DisableScore {
		return score, nil
	}
	if e.asking > 1 {
		for _, h := range Peak(e.pod, e.grants) {
			e.scorer.grant(n.index[h.UUID], h.Shares, &annotations.Grant{MemoryMiB: h.MemoryMiB, CUs: h.CUs})
		}
	}
	// HAMi multiplies a score like this one to be heard first, and turns it over
	// for spread, which takes the node with the lowest.
	weight := float32(10000)
	if e.nodePolicy == annotations.PolicySpread {
		weight = -weight
	}
	return score + weight*e.scorer.result(), nil
}

// container places one container and counts what stays.
func (e *evaluator) container(n *nodeBook, usage []Usage, i int) bool {
	r := &e.requests[i]
	f := &e.fit
	f.usage, f.ranks = usage, f.ranks[:0]
	for _, device := range n.candidates {
		f.ranks = append(f.ranks, e.ord.rank(device, &usage[device]))
	}
	sortRanked(f.ranks)
	f.reset(e.d.rounding, r.Request, &e.pol)
	grants := f.run(len(f.ranks))
	if f.reasons.refused {
		return false
	}
	first, mem := len(e.buf), int64(0)
	e.buf = append(e.buf, grants...)
	e.grants[i] = e.buf[first:len(e.buf):len(e.buf)]
	for j := range grants {
		mem += int64(grants[j].MemoryMiB)
		device := int(f.ranks[f.chosen[j]].device)
		switch {
		case e.asking == 1:
			e.scorer.grant(device, 1, &grants[j])
		case r.stays:
			usage[device].Add(grants[j])
		}
	}
	e.peak = max(e.peak, e.running+mem)
	if r.stays {
		e.running += mem
	}
	return true
}

// without is the node's usage as if a pod of it held nothing.
func (n *nodeBook) without(p *podBook) []Usage {
	usage := slices.Clone(n.usage)
	for i := range usage {
		usage[i].Used, usage[i].UsedMiB, usage[i].UsedCUs = 0, 0, 0
	}
	for _, other := range n.pods {
		if other != p {
			n.count(usage, other)
		}
	}
	return usage
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
