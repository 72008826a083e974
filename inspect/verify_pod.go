package inspect

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// verifyPod looks at a pod that has not finished.
func (c *Cluster) verifyPod(p *Pod) {
	c.verifySpec(p)
	if p.verifyForged(c.read.Devices.Config().ResourceCountName) || !c.verifyGrants(p) {
		return
	}
	c.verifyNodeOf(p)
	c.verifyBinding(p)
	for _, t := range p.Tenants {
		c.verifyGrant(p, t)
	}
	c.verifyMasksOf(p)
}

// verifySpec looks at what the webhook refuses, and may not have been asked
// about.
func (c *Cluster) verifySpec(p *Pod) {
	inits := len(p.object.Spec.InitContainers)
	for i, ctr := range containersOf(p.object) {
		if _, err := c.read.Devices.Request(ctr); err != nil {
			detail := err.Error()
			if invalid, ok := errors.AsType[*amd.InvalidRequestError](err); ok {
				detail = invalid.Resource + ": " + invalid.Reason // the container is the problem's place
			}
			p.reportIn(ctr.Name, RequestInvalid, "%s", detail)
		}
		if !p.Bound {
			for _, name := range c.unknownResources(ctr) {
				p.reportIn(ctr.Name, RequestUnknown, "it %s", c.unknownWords(name))
			}
		}
		if i < inits && p.asks[i] && amd.Sidecar(ctr) {
			p.reportIn(ctr.Name, SidecarRequest, "a sidecar asks for GPUs")
		}
		if s := ctr.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged && len(p.Tenants) > 0 {
			p.reportIn(ctr.Name, PrivilegedTenant, "a privileged container in a pod that holds GPUs")
		}
		if slices.ContainsFunc(p.Tenants, func(t *Tenant) bool { return t.Container == ctr.Name && !t.Whole }) {
			c.verifyEnv(p, ctr)
		}
	}
}

// verifyEnv looks at the variables of a container with a slice.
func (c *Cluster) verifyEnv(p *Pod, ctr *corev1.Container) {
	hook := c.read.Devices.Config().HookPath
	for i := range ctr.Env {
		e := &ctr.Env[i]
		switch {
		case amd.Overrides(e.Name):
			p.reportIn(ctr.Name, EnvOverride, "its spec sets %s", short(e.Name))
		case e.Name == "LD_AUDIT" && e.ValueFrom != nil:
			p.reportIn(ctr.Name, HookReplaced, "its spec takes LD_AUDIT from a reference, want %s in it", hook)
		case e.Name == "LD_AUDIT" && !slices.Contains(strings.Split(e.Value, ":"), hook):
			p.reportIn(ctr.Name, HookReplaced, "its spec sets LD_AUDIT to %s, want %s in it", short(e.Value), hook)
		}
	}
}

// verifyForged finds annotations that neither scheduler nor plugin can have
// written. It reports whether there are any, and then the rest says nothing.
// count is the resource that asks for GPUs.
func (p *Pod) verifyForged(count string) bool {
	a := p.object.Annotations
	has := func(key string) bool { _, ok := a[key]; return ok }
	forged := func(key, why string) bool {
		p.report(AnnotationsForged, "annotation %s: %s", key, why)
		return true
	}
	switch {
	case !slices.Contains(p.asks, true):
		for _, key := range podKeys {
			if value := strings.Trim(a[key], ";"); value != "" && value != "{}" {
				return forged(key, "no container of the pod asks for "+count)
			}
		}
		return true // nothing to look at
	case p.Bound:
		return false
	case has(annotations.CUAllocatedKey):
		return forged(annotations.CUAllocatedKey, "the pod is not bound, so no node has served it")
	case has(annotations.CUContainersKey):
		return forged(annotations.CUContainersKey, "the pod is not bound, so no node has served it")
	case has(annotations.AllocatedKey) && !has(annotations.VGPUNodeKey):
		return forged(annotations.AllocatedKey, "no node is chosen ("+annotations.VGPUNodeKey+")")
	case has(annotations.ToAllocateKey) && !has(annotations.AllocatedKey):
		return forged(annotations.ToAllocateKey, "without "+annotations.AllocatedKey)
	case a[annotations.BindPhaseKey] == string(annotations.BindSuccess):
		return forged(annotations.BindPhaseKey, "success, and the pod is not bound")
	}
	return false
}

// verifyGrants reports whether there are grants that can be looked at.
func (c *Cluster) verifyGrants(p *Pod) bool {
	if _, ok := p.object.Annotations[annotations.AllocatedKey]; !ok {
		age, known := p.age(c.read.Now)
		settled := p.started() || known && age > c.read.Grace
		if node := c.nodes[p.Node]; p.Bound && !p.Terminating && settled && node != nil && len(node.GPUs) > 0 {
			p.report(NotGranted, "it asks for GPUs and runs on a node of HAMi's, without annotation %s", annotations.AllocatedKey)
		}
		return false
	}
	switch {
	case p.grantsErr != nil:
		p.report(GrantsUnreadable, "%v", p.grantsErr)
		return false
	case p.alignErr != nil:
		p.report(GrantsMismatch, "annotation %s: %v", annotations.AllocatedKey, p.alignErr)
		return false
	}
	for i, ctr := range containersOf(p.object) {
		if r, err := c.read.Devices.Request(ctr); err == nil && int(r.Count) != len(p.grants[i]) {
			p.reportIn(ctr.Name, GrantsMismatch, "it asks for %d devices and was granted %d", r.Count, len(p.grants[i]))
		}
	}
	switch {
	case p.waitingErr != nil:
		p.report(ToAllocateUnreadable, "annotation %s: %v", annotations.ToAllocateKey, p.waitingErr)
	case !isTail(p.grants, p.waiting):
		p.report(ToAllocateDiffers, "annotation %s is not the rest of %s", annotations.ToAllocateKey, annotations.AllocatedKey)
	}
	return true
}

// isTail reports whether the entries still to be served are the last ones
// granted: containers are served in order.
func isTail(granted, waiting annotations.PodGrants) bool {
	nonEmpty := func(grants annotations.PodGrants) [][]annotations.Grant {
		var list [][]annotations.Grant
		for _, g := range grants {
			if len(g) > 0 {
				list = append(list, g)
			}
		}
		return list
	}
	all, rest := nonEmpty(granted), nonEmpty(waiting)
	if len(rest) > len(all) {
		return false
	}
	return slices.EqualFunc(all[len(all)-len(rest):], rest, slices.Equal[[]annotations.Grant])
}

// verifyNodeOf compares the node of the pod with the one that was chosen.
func (c *Cluster) verifyNodeOf(p *Pod) {
	chosen, given := p.object.Annotations[annotations.VGPUNodeKey]
	age, known := p.age(c.read.Now)
	switch {
	case !p.Bound && known && age > c.read.LockTimeout:
		p.report(GrantsUnbound, "node %s was chosen %v ago, and the pod is not bound", short(chosen), age.Round(time.Second))
	case !p.Bound:
	case !given:
		p.report(NodeDiffers, "it runs on node %s and has no annotation %s", short(p.Node), annotations.VGPUNodeKey)
	case chosen != p.Node:
		p.report(NodeDiffers, "it runs on node %s, and annotation %s says %s", short(p.Node), annotations.VGPUNodeKey, short(chosen))
	case p.object.Labels[annotations.VGPUNodeKey] != chosen:
		p.report(LabelDiffers, "label %s is %s, the annotation says %s", annotations.VGPUNodeKey, short(p.object.Labels[annotations.VGPUNodeKey]), short(chosen))
	}
	node := c.nodes[p.Node]
	switch {
	case !p.Bound || p.Terminating || len(p.Tenants) == 0 || known && age <= c.read.Grace:
	case node == nil && c.allNodes != nil:
		p.report(NodeGone, "node %s is not there", short(p.Node))
	case node != nil && node.fault == nil && len(node.GPUs) == 0:
		p.report(NodeNotRegistered, "node %s registers no AMD GPU", short(p.Node))
	}
}

// verifyBinding looks at how far the pod got between scheduler and plugin.
func (c *Cluster) verifyBinding(p *Pod) {
	value, given := p.object.Annotations[annotations.BindPhaseKey]
	phase, err := annotations.ParseBindPhase(value)
	if given && err != nil {
		p.report(BindPhaseInvalid, "annotation %v", err)
	}
	if !p.Bound || p.Terminating || len(p.Tenants) == 0 {
		return
	}
	age, known := p.age(c.read.Now)
	late := known && age > c.read.Grace
	switch {
	case phase == annotations.BindFailed && (late || p.started()):
		p.report(BindFailed, "annotation %s is %s, and the pod is %s", annotations.BindPhaseKey, phase, phaseName(p.Phase))
	case p.started() && p.waitingErr == nil && !p.waiting.Served():
		p.report(ToAllocateLeft, "it runs, and annotation %s still has devices", annotations.ToAllocateKey)
	case p.started() && phase == annotations.BindAllocating && late:
		p.report(BindPhaseLeft, "it runs and is served, and annotation %s is %s", annotations.BindPhaseKey, phase)
	case !p.started() && !p.Served && late:
		p.report(BindStuck, "bound %v ago, and the device plugin has not served it", age.Round(time.Second))
	}
}

// age is how long ago the pod was bound or chosen for a node, else started or
// created. It is not known for a pod that says none of it, nor for a time to
// come.
func (p *Pod) age(now time.Time) (time.Duration, bool) {
	var at time.Time
	for _, key := range [...]string{annotations.BindTimeKey, annotations.VGPUTimeKey} {
		if t, err := annotations.ParseTime(p.object.Annotations[key]); err == nil {
			at = t
			break
		}
	}
	if start := p.object.Status.StartTime; at.IsZero() && start != nil {
		at = start.Time
	}
	if at.IsZero() {
		at = p.object.CreationTimestamp.Time
	}
	if at.IsZero() || at.After(now) {
		return 0, false
	}
	return now.Sub(at), true
}

// started reports whether a container runs or has run. Kubelet has devices for
// all containers of a pod before it starts the first.
func (p *Pod) started() bool {
	ran := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.ContainerID != ""
	}
	return p.Phase == corev1.PodRunning ||
		slices.ContainsFunc(p.object.Status.InitContainerStatuses, ran) ||
		slices.ContainsFunc(p.object.Status.ContainerStatuses, ran)
}

func phaseName(phase corev1.PodPhase) string {
	if phase == "" {
		return string(corev1.PodPending)
	}
	return cut(string(phase), 32)
}
