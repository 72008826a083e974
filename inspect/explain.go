package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// ErrNoPod is a pod that the cluster does not have.
var ErrNoPod = errors.New("no such pod")

// State is how far a pod has got.
type State string

const (
	// NoGPU: it asks for no AMD GPU.
	NoGPU State = "no-gpu"
	// Refused: admission refuses it; no node is asked.
	Refused State = "refused"
	// Pending: it fits on no node.
	Pending State = "pending"
	// Fits: a node has GPUs for it, and the scheduler has not chosen one yet. If
	// something keeps the pod off all such nodes, the explanation names none.
	Fits State = "fits"
	// Chosen: the scheduler has chosen a node and the pod is not bound yet.
	Chosen State = "chosen"
	// Placed: it is bound to a node and holds GPUs there.
	Placed State = "placed"
	// Failed: it was bound to a node, whose device plugin refused it.
	Failed State = "failed"
	// Finished: it has succeeded or failed otherwise and holds nothing any more.
	Finished State = "finished"
)

// Explanation is why a pod is pending, or where it landed.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	State     State  `json:"state"`
	// Reason says it in one line.
	Reason string `json:"reason"`
	// Node is where the pod is, was chosen for, or would go now.
	Node       string      `json:"node,omitempty"`
	Containers []Container `json:"containers"`
	// Nodes are the answers of the nodes with AMD GPUs, for a pod that has no
	// node yet. OtherNodes is how many have none.
	Nodes      []NodeAnswer `json:"nodes,omitempty"`
	OtherNodes int          `json:"otherNodes,omitempty"`
	// Smaller are changes to the pod with which it would fit now, each for
	// itself.
	Smaller []Change `json:"smaller,omitempty"`
	// FitsIdle is whether a pending pod would fit if no other pod held a GPU.
	FitsIdle bool `json:"fitsIdle,omitempty"`
	// Notes are what else a reader should know, one line each.
	Notes []string `json:"notes,omitempty"`
	// Problems are those of the pod, its GPUs and its node.
	Problems []Problem `json:"problems,omitempty"`
}

// Container is what one container asks for and holds.
type Container struct {
	Name string `json:"name"`
	// Role is "init", "sidecar" or "app".
	Role string `json:"role"`
	// Request is what it asks of each GPU as the scheduler reads it, nil for
	// nothing or a request that cannot be read.
	Request  *Ask      `json:"request,omitempty"`
	Holdings []Holding `json:"holdings,omitempty"`
}

// Ask is a request: GPUs, and of each of them MiB or percent of the memory (both
// 0: all of it) and percent of the CUs (0: memory alone).
type Ask struct {
	GPUs          int32 `json:"gpus"`
	MemoryMiB     int32 `json:"memoryMiB"`
	MemoryPercent int32 `json:"memoryPercent"`
	Cores         int32 `json:"cores"`
}

// String is "1 GPU with 49152 MiB and 25 % of the CUs".
func (a Ask) String() string {
	gpus := "1 GPU"
	if a.GPUs != 1 {
		gpus = fmt.Sprintf("%d GPUs", a.GPUs)
	}
	memory := "all memory"
	switch {
	case a.MemoryMiB > 0:
		memory = fmt.Sprintf("%d MiB", a.MemoryMiB)
	case a.MemoryPercent%100 > 0:
		memory = fmt.Sprintf("%d %% of the memory", a.MemoryPercent)
	}
	switch {
	case a.Cores == 0:
		return gpus + " with " + memory + " and no CUs of its own"
	case a.Cores == 100 && memory == "all memory":
		return gpus + ", whole"
	case a.Cores == 100:
		return gpus + " with " + memory + " and all CUs"
	}
	return fmt.Sprintf("%s with %s and %d %% of the CUs", gpus, memory, a.Cores)
}

// Holding is what a container holds of one device.
type Holding struct {
	GPU       string `json:"gpu"`
	Type      string `json:"type"`
	MemoryMiB int32  `json:"memoryMiB"`
	CUs       int32  `json:"cus"`
	// Mask are the CUs it was handed, "" for none yet or none of its own.
	Mask      string `json:"mask,omitempty"`
	Effective int    `json:"effective,omitempty"`
	Whole     bool   `json:"whole,omitempty"`
}

// Explain says of one pod why it is pending or where it landed. The error wraps
// ErrNoPod.
//
// Only AMD GPUs are looked at, besides a few facts about nodes that keep pods
// away most often; kube-scheduler looks at much more.
func (c *Cluster) Explain(namespace, name string, o amd.ScheduleOptions) (*Explanation, error) {
	i := slices.IndexFunc(c.allPods, func(p *corev1.Pod) bool { return p != nil && p.Namespace == namespace && p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("pod %s: %w", short(joinName(namespace, name)), ErrNoPod)
	}
	object := c.allPods[i]
	x := &explainer{cluster: c, object: object, options: o, Explanation: &Explanation{Namespace: namespace, Pod: name, Node: object.Spec.NodeName}}
	x.options.Now = c.read.Now
	if j := slices.IndexFunc(c.Pods, func(p *Pod) bool { return p.object == object }); j >= 0 {
		x.pod = c.Pods[j]
		x.Node = x.pod.Node
	}
	x.containers()
	x.explain()
	return x.Explanation, nil
}

// explainer fills in one Explanation.
type explainer struct {
	*Explanation
	cluster *Cluster
	object  *corev1.Pod
	pod     *Pod // nil for one without AMD GPUs
	options amd.ScheduleOptions
}

func (x *explainer) explain() {
	p := x.pod
	unknown := x.unknownResources()
	switch {
	case p == nil && len(unknown) > 0:
		x.waitsForUnknown(unknown)
		return
	case p == nil:
		x.State, x.Reason = NoGPU, "it asks for no AMD GPU"
		return
	case p.failed():
		x.refusedByPlugin()
	case p.Finished:
		x.State, x.Reason = Finished, "it has ended ("+phaseName(p.Phase)+") and holds nothing any more"
	case p.Bound:
		x.placed()
	case len(p.Tenants) > 0:
		x.State = Chosen
		x.Reason = "node " + short(p.Node) + " was chosen, and the pod is not bound to it yet"
		x.Notes = append(x.Notes, x.delays()...)
	default:
		x.schedule()
		if len(unknown) > 0 && x.State != Refused {
			x.waitsForUnknown(unknown)
		}
		if x.Node != "" {
			x.Notes = append(x.Notes, x.stillWaits()...)
		}
	}
	x.problems()
}

// failed reports whether a device plugin refused the pod. The scheduler writes
// the same phase when it cannot bind a pod, which then has no node.
func (p *Pod) failed() bool {
	phase, err := annotations.ParseBindPhase(p.object.Annotations[annotations.BindPhaseKey])
	return err == nil && phase == annotations.BindFailed && p.Bound && !p.started()
}

// refusedByPlugin is a pod that kubelet could not admit. It never runs: kubelet
// ends it, and whoever made it makes another one.
func (x *explainer) refusedByPlugin() {
	p := x.pod
	x.State = Failed
	x.Reason = "the device plugin on node " + short(p.Node) + " refused it; the pod's events and the plugin's log say why"
	if message := p.object.Status.Message; message != "" {
		x.Notes = append(x.Notes, "its status says: "+oneLine(message))
	}
	if p.Finished {
		x.Reason += "; it has ended and holds nothing"
	}
}

// unknownResources are those of all containers, see Cluster.unknownResources.
func (x *explainer) unknownResources() (names []string) {
	for _, ctr := range containersOf(x.object) {
		for _, name := range x.cluster.unknownResources(ctr) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// waitsForUnknown is a pod that kube-scheduler places nowhere, whatever GPUs
// there are for it.
func (x *explainer) waitsForUnknown(names []string) {
	if x.object.Spec.NodeName != "" {
		return
	}
	const most = 4
	x.State, x.Node = Pending, ""
	for _, name := range names[:min(len(names), most)] {
		x.Notes = append(x.Notes, "it "+x.cluster.unknownWords(name))
	}
	x.Reason = "it asks for " + short(names[0]) + ", a resource that no node offers: Kubernetes places it nowhere"
}

// stillWaits is the next step for a pod that has GPUs waiting for it.
func (x *explainer) stillWaits() []string {
	age, known := x.pod.age(x.cluster.read.Now)
	if !known || age <= x.cluster.read.Grace {
		return nil
	}
	step := fill("look at its events (kubectl -n {namespace} describe pod {pod}) and at the log of HAMi's scheduler", Problem{Namespace: x.Namespace, Pod: x.Pod})
	return []string{fmt.Sprintf("it has waited for %v although GPUs are free: %s", age.Round(time.Second), step)}
}

func oneLine(s string) string { return cut(strings.Join(strings.Fields(s), " "), 400) }

func (x *explainer) placed() {
	p := x.pod
	x.State = Placed
	switch {
	case len(p.Tenants) == 0:
		x.Reason = "it is on node " + short(p.Node) + " and holds no GPU that HAMi has granted"
	case p.started():
		x.Reason = "it runs on node " + short(p.Node)
	case p.Served:
		x.Reason = "it is on node " + short(p.Node) + " and has its GPUs; no container has started yet"
	default:
		x.Reason = "it is bound to node " + short(p.Node) + " and waits for the device plugin"
	}
	if p.Terminating {
		x.Reason += "; it is being deleted"
	}
}

// problems are those of the pod and of what it is on.
func (x *explainer) problems() {
	p := x.pod
	x.Problems = append(x.Problems, p.Problems...)
	node := x.cluster.nodes[p.Node]
	for i, t := range p.Tenants {
		x.Problems = append(x.Problems, t.Problems...)
		seen := slices.ContainsFunc(p.Tenants[:i], func(o *Tenant) bool { return o.Device == t.Device })
		if g := node.GPU(t.Device); g != nil && !seen {
			x.Problems = append(x.Problems, g.Problems...)
		}
	}
	if node != nil && !p.Finished {
		x.Problems = append(x.Problems, node.Problems...)
	}
}

func (x *explainer) containers() {
	inits := len(x.object.Spec.InitContainers)
	for i, ctr := range containersOf(x.object) {
		c := Container{Name: ctr.Name, Role: "app"}
		switch {
		case i >= inits:
		case amd.Sidecar(ctr):
			c.Role = "sidecar"
		default:
			c.Role = "init"
		}
		if r, err := x.cluster.read.Devices.Request(ctr); err == nil && r.Count > 0 {
			c.Request = &Ask{GPUs: r.Count, MemoryMiB: r.MemoryMiB, MemoryPercent: r.MemoryPercent, Cores: r.Cores}
		}
		if x.pod != nil {
			for _, t := range x.pod.Tenants {
				if t.Container == ctr.Name {
					c.Holdings = append(c.Holdings, t.holding())
				}
			}
		}
		x.Containers = append(x.Containers, c)
	}
}

func (t *Tenant) holding() Holding {
	h := Holding{GPU: t.Device, Type: t.Type, MemoryMiB: t.MemoryMiB, CUs: t.CUs, Effective: t.Effective, Whole: t.Whole}
	if !t.Mask.Empty() {
		h.Mask = t.Mask.String()
	}
	return h
}

// delays are what may keep the scheduler from taking the pod further although
// there are GPUs for it.
func (x *explainer) delays() (notes []string) {
	spec := &x.object.Spec
	if spec.SchedulerName == corev1.DefaultSchedulerName {
		notes = append(notes, "its scheduler is "+spec.SchedulerName+": HAMi's webhook has not taken it (is it running, and is there a label hami.io/webhook=ignore?)")
	}
	if len(spec.SchedulingGates) > 0 {
		notes = append(notes, "it has scheduling gates: no scheduler looks at it until they are removed")
	}
	for _, c := range x.object.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			notes = append(notes, "its scheduler says: "+oneLine(c.Message))
		}
	}
	return notes
}
