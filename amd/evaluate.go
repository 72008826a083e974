package amd

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

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
	fills  []fill  // of work
	buf    []annotations.Grant
	grants annotations.PodGrants // of the node at hand
	kept   annotations.PodGrants // of the best one

	running int64 // MiB of the containers placed so far that go on running
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
			return opts.Quota(pod.Namespace, e.running+memMiB)
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
	before, fills, score := n.usage, n.fills, n.score
	if e.own != nil && e.own.node == n.name {
		before = n.without(e.own)
		fills, score = fillsOf(nil, before), nodeScore(before)
	}
	e.scorer.begin(before, fills, n.groups)
	usage := before
	if e.asking > 1 {
		e.work, e.fills = append(e.work[:0], before...), append(e.fills[:0], fills...)
		usage, fills = e.work, e.fills
	}
	e.buf = e.buf[:0]
	e.running = 0
	for i := range e.requests {
		r := &e.requests[i]
		e.grants[i] = nil
		if r.Count == 0 {
			continue
		}
		if !e.container(n, i, usage, fills) {
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
func (e *evaluator) container(n *nodeBook, i int, usage []Usage, fills []fill) bool {
	r := &e.requests[i]
	f := &e.fit
	f.usage, f.ranks = usage, f.ranks[:0]
	for _, device := range n.candidates {
		f.ranks = append(f.ranks, e.ord.rank(device, &fills[device]))
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
			fills[device] = fillOf(&usage[device])
		}
	}
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
