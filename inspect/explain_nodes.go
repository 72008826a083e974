package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// NodeAnswer is what one node says to a pod.
type NodeAnswer struct {
	Node string `json:"node"`
	// Fits: it has GPUs for the pod.
	Fits bool `json:"fits"`
	// Container is the first that does not fit.
	Container string `json:"container,omitempty"`
	// Reason is HAMi's, as in its events: "1/8 CardInsufficientMemory"; "" where
	// the node as a whole is refused.
	Reason string `json:"reason,omitempty"`
	// Why says it in words, "" where the GPUs say all of it.
	Why string `json:"why,omitempty"`
	// Away are facts that keep the pod off the node whatever its GPUs say.
	Away []string    `json:"away,omitempty"`
	GPUs []GPUAnswer `json:"gpus"`
}

// GPUAnswer is what one device says to the container that did not fit, and what
// is free of it.
type GPUAnswer struct {
	GPU      string `json:"gpu"`
	Physical string `json:"physical"`
	Type     string `json:"type"`
	Mode     string `json:"mode,omitempty"`
	Healthy  bool   `json:"healthy"`
	Cordoned bool   `json:"cordoned,omitempty"`

	FreeShares int32 `json:"freeShares"`
	Shares     int32 `json:"shares"`
	FreeMiB    int32 `json:"freeMiB"`
	MemoryMiB  int32 `json:"memoryMiB"`
	FreeCUs    int32 `json:"freeCUs"`
	CUs        int32 `json:"cus"`

	// Reason is HAMi's word, "" if the device would do.
	Reason string `json:"reason,omitempty"`
	// Why says it with its numbers.
	Why string `json:"why"`
}

// books are the books of the nodes that takes accepts, without the pod.
func (x *explainer) books(pods []*corev1.Pod, takes func(*corev1.Node) bool) *amd.Ledger {
	ledger := amd.NewLedger(x.cluster.read.Devices)
	for _, n := range x.cluster.allNodes {
		if n != nil && takes(n) {
			_ = ledger.SetNode(n) // the error is the node's refusal
		}
	}
	for _, p := range pods {
		if p != nil && p != x.object {
			_ = ledger.SetPod(p) // and this a problem of that pod
		}
	}
	return ledger
}

// schedule asks the scheduler about a pod without a node.
func (x *explainer) schedule() {
	devices := x.cluster.read.Devices
	pod := x.object.DeepCopy()
	admission, err := devices.Admit(pod)
	if err != nil {
		x.State, x.Reason = Refused, "admission refuses it: "+err.Error()
		return
	}
	x.Notes = append(x.Notes, admission.Notes...)
	ledger := x.books(x.cluster.allPods, func(*corev1.Node) bool { return true })
	decision, err := ledger.Schedule(pod, x.options)
	if err != nil {
		x.State, x.Reason = Refused, "no scheduler can act on it: "+err.Error()
		return
	}
	x.Notes = append(x.Notes, decision.Notes...)
	x.nodeAnswers(ledger, pod, decision)
	x.Notes = append(x.Notes, x.delays()...)
	// kube-scheduler asks HAMi about none of the nodes it has ruled out itself.
	open := 0
	for _, n := range x.cluster.Nodes {
		if x.takes(n.object) {
			open++
		}
	}
	if open < len(x.cluster.Nodes) {
		ledger = x.books(x.cluster.allPods, x.takes)
	}
	if now, err := ledger.Schedule(pod, x.options); err == nil {
		x.Node = now.Node
	}
	if x.Node != "" {
		x.State = Fits
		x.Reason = "there are GPUs for it, and HAMi would choose node " + short(x.Node) + " " + x.when()
		return
	}
	x.State, x.Reason = Pending, "it fits on no node"
	if decision.Node != "" {
		x.State, x.Reason = Fits, "there are GPUs for it only on nodes that it is kept off"
	}
	idle, err := x.books(nil, x.takes).Schedule(pod, x.options)
	x.FitsIdle = err == nil && idle.Node != ""
	x.Smaller = (&shrinker{ledger: ledger, devices: devices, pod: pod, options: x.options}).changes(x.largest())
	switch {
	case x.FitsIdle && x.State == Fits:
		x.Reason += "; it will on others once other pods end"
	case x.FitsIdle:
		x.Reason += "; it will once other pods end"
	case x.State == Fits:
	case len(x.Nodes) == 0:
		x.Reason += ": no node registers AMD GPUs"
	case open == 0:
		x.Reason += ", and is kept off all that have AMD GPUs"
	case open < len(x.Nodes):
		x.Reason += ", and would not if all GPUs of the nodes it is not kept off were idle"
	default:
		x.Reason += ", and would not if all GPUs were idle"
	}
}

// when says what a pod with GPUs waiting for it waits for itself.
func (x *explainer) when() string {
	switch spec := &x.object.Spec; {
	case len(spec.SchedulingGates) > 0:
		return "once its scheduling gates are removed"
	case spec.SchedulerName == corev1.DefaultSchedulerName:
		return "if it were asked: the pod is " + spec.SchedulerName + "'s"
	}
	return "now"
}

// takes reports whether nothing is known that keeps the pod off a node. A node
// lock is held for moments only.
func (x *explainer) takes(node *corev1.Node) bool { return len(x.keptOff(node)) == 0 }

// largest is the most memory of a device.
func (x *explainer) largest() (mib int32) {
	for _, n := range x.cluster.Nodes {
		for _, g := range n.GPUs {
			mib = max(mib, g.Device.Devmem)
		}
	}
	return mib
}

func (x *explainer) nodeAnswers(ledger *amd.Ledger, pod *corev1.Pod, decision amd.Decision) {
	refusals := map[string]*amd.Refusal{}
	for i := range decision.Refusals {
		refusals[decision.Refusals[i].Node] = &decision.Refusals[i]
	}
	x.OtherNodes = len(x.cluster.nodes) - len(x.cluster.Nodes)
	for _, n := range x.cluster.Nodes {
		answer := NodeAnswer{Node: n.Name, GPUs: []GPUAnswer{}, Away: x.away(n)}
		refusal := refusals[n.Name]
		answer.Fits = refusal == nil
		req := x.firstRequest(pod)
		if refusal != nil {
			answer.Container, answer.Reason = refusal.Container, refusal.Reasons.String()
			if refusal.Err != nil {
				answer.Why = strings.TrimPrefix(refusal.Err.Error(), "node "+strconv.Quote(n.Name)+": ")
			}
			req = x.request(pod, refusal.Container, req)
		}
		would := 0
		for _, u := range ledger.Usage(n.Name) {
			g := x.gpuAnswer(pod, req, u)
			if g.Reason == "" {
				would++
			}
			answer.GPUs = append(answer.GPUs, g)
		}
		if refusal != nil && refusal.Err == nil {
			answer.Why = whyNode(refusal.Reasons, req, len(answer.GPUs), would)
		}
		x.Nodes = append(x.Nodes, answer)
	}
}

// firstRequest is that of the first container that asks.
func (x *explainer) firstRequest(pod *corev1.Pod) amd.Request {
	for _, ctr := range containersOf(pod) {
		if r, err := x.cluster.read.Devices.Request(ctr); err == nil && r.Count > 0 {
			return r
		}
	}
	return amd.Request{}
}

func (x *explainer) request(pod *corev1.Pod, container string, or amd.Request) amd.Request {
	for _, ctr := range containersOf(pod) {
		if r, err := x.cluster.read.Devices.Request(ctr); err == nil && ctr.Name == container && r.Count > 0 {
			return r
		}
	}
	return or
}

// whyNode explains the reasons that are the node's, not one device's.
func whyNode(reasons amd.Reasons, req amd.Request, gpus, would int) string {
	switch {
	case reasons.Count(amd.TooFewDevices) > 0 || gpus < int(req.Count):
		return fmt.Sprintf("%d devices are asked for, the node has %d", req.Count, gpus)
	case reasons.Count(amd.NUMAMismatch) > 0:
		return fmt.Sprintf("no NUMA node has the %d devices asked for, of %d that would do", req.Count, would)
	case would >= int(req.Count) && reasons.Count(amd.QuotaExceeded) > 0:
		return fmt.Sprintf("the quota of the namespace does not allow the memory of %d devices", req.Count)
	case would >= int(req.Count):
		return "each would do alone, but the pod's other containers take what it needs"
	case reasons.Count(amd.TooFewFit) > 0:
		return fmt.Sprintf("%d devices are asked for, and only %d would do", req.Count, would)
	}
	return ""
}

// gpuAnswer asks one device about one of the GPUs of a request.
func (x *explainer) gpuAnswer(pod *corev1.Pod, req amd.Request, u amd.Usage) GPUAnswer {
	free := func(total, used int32) int32 { return max(total-max(used, 0), 0) }
	a := GPUAnswer{
		GPU: u.ID, Physical: cmp.Or(u.PCIBDF, u.ID), Type: u.Type, Mode: u.Mode, Healthy: u.Health, Cordoned: u.Cordoned,
		FreeShares: free(u.Count, u.Used), Shares: u.Count, FreeMiB: free(u.MemoryMiB, u.UsedMiB), MemoryMiB: u.MemoryMiB,
		FreeCUs: free(u.CUs, u.UsedCUs), CUs: u.CUs, Why: "would do",
	}
	if !strings.Contains(strings.ToUpper(u.Type), amd.Vendor) {
		a.Reason, a.Why = amd.TypeMismatch.String(), fmt.Sprintf("its type %s has no %q in it", short(u.Type), amd.Vendor)
		return a
	}
	policy := amd.ParsePolicy(pod.Annotations, x.options.GPUPolicy)
	policy.NUMABind = false // one device alone is always on one node
	if quota := x.options.Quota; quota != nil {
		policy.Quota = func(mib int64) bool { return quota(pod.Namespace, mib) }
	}
	one := req
	one.Count = 1
	_, reasons := x.cluster.read.Devices.Fit(one, policy, 1, func(_ int, into *amd.Usage) { *into = u })
	for r := amd.Unhealthy; r <= amd.TooFewDevices; r++ {
		if reasons.Count(r) > 0 {
			a.Reason, a.Why = r.String(), x.why(r, pod, req, &u)
			break
		}
	}
	return a
}

// why says a reason against one device with its numbers.
func (x *explainer) why(r amd.Reason, pod *corev1.Pod, req amd.Request, u *amd.Usage) string {
	list := func(what string, keys ...string) string {
		for _, key := range keys {
			if value := pod.Annotations[key]; value != "" {
				what += fmt.Sprintf("; %s is %s", key, short(value))
			}
		}
		return what
	}
	switch r {
	case amd.Unhealthy:
		return "the node registers it as unhealthy"
	case amd.Cordoned:
		return annotations.DeviceCordonKey + " of the node names it"
	case amd.TypeMismatch:
		return list("its type is "+short(u.Type), annotations.UseTypeKey, annotations.NoUseTypeKey)
	case amd.UUIDMismatch:
		return list("its id is "+short(u.ID), annotations.UseUUIDKey, annotations.NoUseUUIDKey)
	case amd.IndexMismatch:
		return list(fmt.Sprintf("its index is %d", u.Index), amd.GPUIndexKey)
	case amd.SharesExhausted:
		return fmt.Sprintf("all of its %d shares are taken", u.Count)
	case amd.NotIdle:
		return "the policy is mutex, and " + sharing(u)
	case amd.QuotaExceeded:
		return "the quota of the namespace does not allow its memory"
	case amd.InsufficientMemory:
		return whyMemory(req, u)
	case amd.InsufficientCores:
		return x.whyCores(req, u)
	}
	return r.String()
}

func sharing(u *amd.Usage) string {
	if u.Used == 1 {
		return "one container holds a share of it"
	}
	return fmt.Sprintf("%d containers share it", u.Used)
}

func whyMemory(req amd.Request, u *amd.Usage) string {
	free := max(u.MemoryMiB-max(u.UsedMiB, 0), 0)
	switch {
	case u.MemoryMiB <= 0:
		return "its memory is not known"
	case req.Whole() || u.Hard():
		return fmt.Sprintf("it is wanted whole, and %d of %d MiB are free (%s)", free, u.MemoryMiB, sharing(u))
	case req.MemoryMiB > 0:
		return fmt.Sprintf("%d MiB are wanted, %d of %d are free", req.MemoryMiB, free, u.MemoryMiB)
	case req.MemoryPercent > 0:
		return fmt.Sprintf("%d %% of %d MiB are wanted, %d are free", req.MemoryPercent, u.MemoryMiB, free)
	}
	return fmt.Sprintf("all of its memory is wanted, %d of %d MiB are free", free, u.MemoryMiB)
}

func (x *explainer) whyCores(req amd.Request, u *amd.Usage) string {
	free := max(u.CUs-max(u.UsedCUs, 0), 0)
	geometry := u.Geometry()
	if err := geometry.Validate(); err != nil {
		return fmt.Sprintf("its CUs cannot be counted out: %v", err)
	}
	if req.Cores <= 0 {
		return fmt.Sprintf("%d of %d CUs are free", free, u.CUs)
	}
	idle := *u
	idle.Used, idle.UsedMiB, idle.UsedCUs, idle.Health, idle.Cordoned = 0, 0, 0, true, false
	one := req
	one.Count = 1
	grants, _ := x.cluster.read.Devices.Fit(one, amd.Policy{}, 1, func(_ int, into *amd.Usage) { *into = idle })
	if len(grants) == 0 {
		return fmt.Sprintf("%d %% of %d CUs are wanted, %d are free", req.Cores, u.CUs, free)
	}
	return fmt.Sprintf("%d %% are %d CUs, %d of %d are free", req.Cores, grants[0].CUs, free, u.CUs)
}

// away are facts about a node that keep the pod off it.
func (x *explainer) away(n *Node) []string {
	facts := x.keptOff(n.object)
	if n.Lock != nil && !n.Lock.OwnedBy(x.Namespace, x.Pod) {
		facts = append(facts, "its node lock is held for "+cut(cmp.Or(joinName(n.Lock.Namespace, n.Lock.Name), "nobody in particular"), 160))
	}
	return facts
}

// keptOff are those that last until somebody changes the node or the pod.
func (x *explainer) keptOff(node *corev1.Node) (facts []string) {
	if node.Spec.Unschedulable {
		facts = append(facts, "it takes no new pods (kubectl cordon)")
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			facts = append(facts, "it is not ready")
		}
	}
	for key, value := range x.object.Spec.NodeSelector {
		if have, ok := node.Labels[key]; !ok || have != value {
			facts = append(facts, fmt.Sprintf("the pod's nodeSelector wants %s=%s", cut(key, 80), cut(value, 80)))
		}
	}
	slices.Sort(facts)
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable || tolerated(x.object, taint) {
			continue
		}
		facts = append(facts, fmt.Sprintf("the pod does not tolerate its taint %s", cut(taint.ToString(), 160)))
	}
	return facts
}

func tolerated(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Logger{}, taint, true)
	})
}
