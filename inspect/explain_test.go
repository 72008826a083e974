package inspect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// gpu is a shared MI300X of 1,000 MiB.
func gpu(id string, numa int) annotations.Device {
	return annotations.Device{
		ID: id, Index: uint(id[len(id)-1] - '0'), Count: 2, Devmem: 1000, Devcore: 304, Type: "AMD Instinct MI300X", Numa: numa, Health: true,
		CustomInfo: annotations.CustomInfo{NumXCC: 8},
	}
}

func nodeOf(t testing.TB, name string, devices ...annotations.Device) *corev1.Node {
	t.Helper()
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotations.NodeRegisterKey: value}}}
}

// holds is a running pod that holds a part of a device.
func holds(name, node, device string, mib, cus int) *corev1.Pod {
	pod := newPod(name, ask("main", 1, 0, 0))
	pod.Spec.NodeName = node
	value := fmt.Sprintf("%s,AMD Instinct MI300X,%d,%d:;", device, mib, cus)
	pod.Annotations = map[string]string{annotations.AllocatedKey: value, annotations.ToAllocateKey: ";", annotations.VGPUNodeKey: node}
	running(pod)
	return pod
}

// answers are what a pod's explanation says, a line each.
func answers(e *Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", e.State, e.Reason)
	for _, n := range e.Nodes {
		fmt.Fprintf(&b, "%s: %s | %s\n", n.Node, n.Reason, n.Why)
		for _, g := range n.GPUs {
			fmt.Fprintf(&b, "  %s: %s | %s | free %d/%d shares, %d/%d MiB, %d/%d CUs\n", g.GPU, g.Reason, g.Why, g.FreeShares, g.Shares, g.FreeMiB, g.MemoryMiB, g.FreeCUs, g.CUs)
		}
	}
	for _, c := range e.Smaller {
		fmt.Fprintf(&b, "smaller: %s (%s)\n", c.Text, c.Node)
	}
	return b.String()
}

func TestExplainEachReason(t *testing.T) {
	type cluster struct {
		nodes   []*corev1.Node
		pods    []*corev1.Pod
		options amd.ScheduleOptions
	}
	wishing := func(pod *corev1.Pod, key, value string) *corev1.Pod {
		pod.Annotations = map[string]string{key: value}
		return pod
	}
	slice := func() *corev1.Pod { return newPod("me", ask("main", 1, 500, 25)) }
	for reason, tc := range map[amd.Reason]struct {
		cluster func() cluster
		pod     *corev1.Pod
		want    string
	}{
		amd.Unhealthy: {
			func() cluster {
				sick := gpu("G0", 0)
				sick.Health = false
				return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", sick)}}
			},
			slice(),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardNotHealth | 
  G0: CardNotHealth | the node registers it as unhealthy | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
`,
		},
		amd.Cordoned: {
			func() cluster {
				n := nodeOf(t, "n1", gpu("G0", 0))
				n.Annotations[annotations.DeviceCordonKey] = "G0"
				return cluster{nodes: []*corev1.Node{n}}
			},
			slice(),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardCordoned | 
  G0: CardCordoned | hami.io/device-cordon of the node names it | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
`,
		},
		amd.TypeMismatch: {
			func() cluster { return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}} },
			wishing(slice(), annotations.UseTypeKey, "MI355X"),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardTypeMismatch | 
  G0: CardTypeMismatch | its type is "AMD Instinct MI300X"; amd.com/use-gputype is "MI355X" | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: without annotation amd.com/use-gputype (n1)
`,
		},
		amd.UUIDMismatch: {
			func() cluster { return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}} },
			wishing(slice(), annotations.NoUseUUIDKey, "G0"),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardUuidMismatch | 
  G0: CardUuidMismatch | its id is "G0"; amd.com/nouse-gpu-uuid is "G0" | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: without annotation amd.com/nouse-gpu-uuid (n1)
`,
		},
		amd.IndexMismatch: {
			func() cluster { return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}} },
			wishing(slice(), amd.GPUIndexKey, "3"),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardNotFoundCustomFilterRule | 
  G0: CardNotFoundCustomFilterRule | its index is 0; amd.com/gpu-index is "3" | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: without annotation amd.com/gpu-index (n1)
`,
		},
		amd.SharesExhausted: {
			func() cluster {
				return cluster{
					nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))},
					pods:  []*corev1.Pod{holds("a", "n1", "G0", 100, 8), holds("b", "n1", "G0", 100, 8)},
				}
			},
			slice(),
			`pending: it fits on no node; it will once other pods end
n1: 1/1 CardTimeSlicingExhausted | 
  G0: CardTimeSlicingExhausted | all of its 2 shares are taken | free 0/2 shares, 800/1000 MiB, 288/304 CUs
`,
		},
		amd.NotIdle: {
			func() cluster {
				return cluster{
					nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))},
					pods:  []*corev1.Pod{holds("a", "n1", "G0", 100, 8)},
				}
			},
			wishing(slice(), annotations.GPUSchedulerPolicyKey, "mutex"),
			`pending: it fits on no node; it will once other pods end
n1: 1/1 ExclusiveDeviceAllocateConflict | 
  G0: ExclusiveDeviceAllocateConflict | the policy is mutex, and one container holds a share of it | free 1/2 shares, 900/1000 MiB, 296/304 CUs
smaller: without annotation hami.io/gpu-scheduler-policy (n1)
`,
		},
		amd.QuotaExceeded: {
			func() cluster {
				return cluster{
					nodes:   []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))},
					options: amd.ScheduleOptions{Quota: func(ns string, mib int64) bool { return ns != "team" || mib <= 400 }},
				}
			},
			slice(),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 ResourceQuotaNotFit | 
  G0: ResourceQuotaNotFit | the quota of the namespace does not allow its memory | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: container "main": amd.com/gpumem: 400, the rest as it is (n1)
`,
		},
		amd.InsufficientMemory: {
			func() cluster {
				return cluster{
					nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))},
					pods:  []*corev1.Pod{holds("a", "n1", "G0", 700, 8)},
				}
			},
			slice(),
			`pending: it fits on no node; it will once other pods end
n1: 1/1 CardInsufficientMemory | 
  G0: CardInsufficientMemory | 500 MiB are wanted, 300 of 1000 are free | free 1/2 shares, 300/1000 MiB, 296/304 CUs
smaller: container "main": amd.com/gpumem: 300, the rest as it is (n1)
`,
		},
		amd.InsufficientCores: {
			func() cluster {
				return cluster{
					nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))},
					pods:  []*corev1.Pod{holds("a", "n1", "G0", 100, 240)},
				}
			},
			slice(),
			`pending: it fits on no node; it will once other pods end
n1: 1/1 CardInsufficientCore | 
  G0: CardInsufficientCore | 25 % are 76 CUs, 64 of 304 are free | free 1/2 shares, 900/1000 MiB, 64/304 CUs
smaller: container "main": amd.com/gpucores: 21, the rest as it is (n1)
`,
		},
		amd.NUMAMismatch: {
			func() cluster { return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0), gpu("G1", 1))}} },
			wishing(newPod("me", ask("main", 2, 500, 25)), annotations.NUMABindKey, "true"),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 2/2 NumaNotFit | no NUMA node has the 2 devices asked for, of 2 that would do
  G0:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
  G1:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: container "main": amd.com/gpu: 1, the rest as it is (n1)
smaller: without annotation amd.com/numa-bind (n1)
`,
		},
		amd.TooFewFit: {
			func() cluster {
				return cluster{
					nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0), gpu("G1", 0))},
					pods:  []*corev1.Pod{holds("a", "n1", "G1", 1000, 304)},
				}
			},
			newPod("me", ask("main", 2, 500, 25)),
			`pending: it fits on no node; it will once other pods end
n1: 1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory | 2 devices are asked for, and only 1 would do
  G0:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
  G1: CardInsufficientMemory | 500 MiB are wanted, 0 of 1000 are free | free 1/2 shares, 0/1000 MiB, 0/304 CUs
smaller: container "main": amd.com/gpu: 1, the rest as it is (n1)
`,
		},
		amd.TooFewDevices: {
			func() cluster { return cluster{nodes: []*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}} },
			newPod("me", ask("main", 2, 0, 0)),
			`pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 NodeInsufficientDevice | 2 devices are asked for, the node has 1
  G0:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: container "main": amd.com/gpu: 1, the rest as it is (n1)
`,
		},
	} {
		t.Run(reason.String(), func(t *testing.T) {
			in := tc.cluster()
			c := New(in.nodes, append(in.pods, tc.pod), Options{Now: noon})
			e, err := c.Explain("team", "me", in.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, answers(e)); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
			if !strings.Contains(answers(e), reason.String()) {
				t.Errorf("the explanation does not name %s", reason)
			}
		})
	}
	// Every reason there is has a case.
	for r := amd.Reason(0); !strings.HasPrefix(r.String(), "Reason"); r++ {
		if r > amd.TooFewDevices {
			t.Errorf("%s has no case", r)
		}
	}
}

func TestExplainStates(t *testing.T) {
	r := cleanRig(t)
	refused := newPod("refused", ask("main", 1, 8, 8))
	refused.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HSA_CU_MASK", Value: "0:0-3"}}
	gated := newPod("gated", ask("main", 1, 8, 8))
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	gated.Spec.SchedulerName = corev1.DefaultSchedulerName
	gated.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes\nare available"}}
	slip, offered, allSlips := newPod("slip", ask("main", 1, 0, 8)), newPod("offered", ask("main", 1, 8, 8)), newPod("all-slips", ask("main", 0, 0, 0))
	slip.Spec.Containers[0].Resources.Limits["amd.com/gpumen"] = resource.MustParse("1000")
	allSlips.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"amd.com/gpus": resource.MustParse("1")}
	offered.Spec.Containers[0].Resources.Limits["amd.com/nic"] = resource.MustParse("1")
	r.node("idle-1").Status.Capacity["amd.com/nic"] = resource.MustParse("8")
	byDefault := newPod("by-default", ask("main", 1, 8, 8))
	byDefault.Spec.SchedulerName = corev1.DefaultSchedulerName
	failed := r.pod("binding").DeepCopy()
	failed.Name, failed.UID = "not-admitted", "not-admitted"
	failed.Annotations[annotations.BindPhaseKey] = string(annotations.BindFailed)
	rejected := failed.DeepCopy()
	rejected.Name, rejected.UID = "rejected", "rejected"
	rejected.Status.Phase, rejected.Status.Message = corev1.PodFailed, "Pod was rejected:\nAllocate failed"
	r.pods = append(r.pods, refused, gated, slip, offered, allSlips, byDefault, failed, rejected)
	c := r.cluster()
	for name, want := range map[string]struct {
		state  State
		words  []string
		noNode bool
	}{
		"no-gpu":       {state: NoGPU, noNode: true},
		"refused":      {state: Refused, words: []string{"admission", "HSA_CU_MASK"}, noNode: true},
		"slip":         {state: Pending, words: []string{`"amd.com/gpumen"`, "places it nowhere", "HAMi does not know (it knows amd.com/gpu, amd.com/gpumem"}, noNode: true},
		"all-slips":    {state: Pending, words: []string{`"amd.com/gpus"`, "places it nowhere"}, noNode: true},
		"by-default":   {state: Fits, words: []string{"if it were asked: the pod is default-scheduler's"}},
		"offered":      {state: Fits, words: []string{"would choose node"}},
		"not-admitted": {state: Failed, words: []string{"the device plugin on node", "refused it", "events"}},
		"rejected":     {state: Failed, words: []string{"refused it", "its status says: Pod was rejected: Allocate failed", "has ended"}},
		"gated":        {state: Fits, words: []string{"default-scheduler", "once its scheduling gates are removed", "0/4 nodes are available"}},
		"never":        {state: Pending, words: []string{"fits on no node"}, noNode: true},
		"pending":      {state: Fits, words: []string{"would choose node", "has waited for 1h0m0s", "kubectl -n team describe pod pending"}},
		"chosen":       {state: Chosen, words: []string{`"cu-1" was chosen`}},
		"binding":      {state: Placed, words: []string{"waits for the device plugin"}},
		"slice-a":      {state: Placed, words: []string{`runs on node "cu-1"`}},
		"terminating":  {state: Placed, words: []string{"being deleted"}},
		"finished-0":   {state: Finished, words: []string{"Succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := c.Explain("team", name, amd.ScheduleOptions{})
			if err != nil {
				t.Fatal(err)
			}
			said := e.Reason + strings.Join(e.Notes, " ")
			if e.State != want.state || (e.Node == "") != want.noNode {
				t.Errorf("state %s on node %q: %s", e.State, e.Node, said)
			}
			for _, word := range want.words {
				if !strings.Contains(said, word) {
					t.Errorf("%q does not say %q", said, word)
				}
			}
			if name != "refused" && name != "slip" && len(e.Problems) > 0 {
				t.Errorf("problems %v", e.Problems)
			}
		})
	}
	if _, err := c.Explain("team", "none", amd.ScheduleOptions{}); !errors.Is(err, ErrNoPod) || !strings.Contains(err.Error(), "team/none") {
		t.Errorf("error %v", err)
	}
}

// A placed pod's explanation has what it holds, and what is wrong with it.
func TestExplainPlaced(t *testing.T) {
	r := cleanRig(t)
	r.edit("slice-b", "", r.grant("slice-b", 0, 0).UUID, r.grant("slice-a", 0, 0).UUID)
	e, err := r.cluster().Explain("team", "slice-a", amd.ScheduleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Container{{
		Name: "main", Role: "app", Request: &Ask{GPUs: 1, MemoryMiB: 49152, Cores: 25},
		Holdings: []Holding{{GPU: r.grant("slice-a", 0, 0).UUID, Type: "AMD Instinct MI300X", MemoryMiB: 49152, CUs: 76, Mask: "0-75", Effective: 72}},
	}}
	if diff := cmp.Diff(want, e.Containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if len(e.Problems) != 1 || e.Problems[0].Code != MaskOverlap {
		t.Errorf("problems %v", e.Problems)
	}
}

// A node that is refused as a whole says so in place of its GPUs.
func TestExplainNodeOutOfService(t *testing.T) {
	n := nodeOf(t, "n1", gpu("G0", 0))
	n.Status.Allocatable = corev1.ResourceList{amd.DefaultCountName: resource.MustParse("0")}
	c := New([]*corev1.Node{n}, []*corev1.Pod{newPod("me", ask("main", 1, 500, 25))}, Options{Now: noon})
	e, err := c.Explain("team", "me", amd.ScheduleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `pending: it fits on no node, and would not if all GPUs were idle
n1:  | offers no amd.com/gpu: want the device plugin running there with a healthy GPU
  G0:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
`
	if diff := cmp.Diff(want, answers(e)); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}

// Two containers that would fit alone.
func TestExplainContainersInEachOthersWay(t *testing.T) {
	c := New([]*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}, []*corev1.Pod{newPod("me", ask("a", 1, 600, 25), ask("b", 1, 600, 25))}, Options{Now: noon})
	e, err := c.Explain("team", "me", amd.ScheduleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `pending: it fits on no node, and would not if all GPUs were idle
n1: 1/1 CardInsufficientMemory | each would do alone, but the pod's other containers take what it needs
  G0:  | would do | free 2/2 shares, 1000/1000 MiB, 304/304 CUs
smaller: container "a": amd.com/gpumem: 400, the rest as it is (n1)
smaller: container "b": amd.com/gpumem: 400, the rest as it is (n1)
`
	if diff := cmp.Diff(want, answers(e)); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}

func TestExplainNamesWhatKeepsPodsOffANode(t *testing.T) {
	n := nodeOf(t, "n1", gpu("G0", 0))
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Value: "ml", Effect: corev1.TaintEffectNoSchedule},
		{Key: "tolerated", Effect: corev1.TaintEffectNoSchedule},
		{Key: "prefer", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	n.Annotations[annotations.NodeLockKey] = lockOf("team/other", 0)
	pod := newPod("me", ask("main", 1, 500, 25))
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "tolerated", Operator: corev1.TolerationOpExists}}
	e, err := New([]*corev1.Node{n}, []*corev1.Pod{pod}, Options{Now: noon}).Explain("team", "me", amd.ScheduleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"it is not ready", "it takes no new pods (kubectl cordon)", "the pod's nodeSelector wants zone=a",
		"the pod does not tolerate its taint dedicated=ml:NoSchedule", "its node lock is held for team/other",
	}
	if diff := cmp.Diff(want, e.Nodes[0].Away); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// kube-scheduler asks HAMi about none of the nodes it has ruled out itself.
func TestExplainSendsNoPodWhereItIsKeptOff(t *testing.T) {
	cordoned := nodeOf(t, "n1", gpu("G0", 0))
	cordoned.Spec.Unschedulable = true
	locked := nodeOf(t, "n2", gpu("G1", 0))
	locked.Annotations[annotations.NodeLockKey] = lockOf("team/other", 0)
	half := holds("half", "n2", "G1", 400, 152)
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		mib   int
		want  string
	}{
		"another node":  {[]*corev1.Node{cordoned, locked}, 500, "fits: there are GPUs for it, and HAMi would choose node \"n2\" now\n"},
		"no other node": {[]*corev1.Node{cordoned}, 500, "fits: there are GPUs for it only on nodes that it is kept off\n"},
		"another node with less": {[]*corev1.Node{cordoned, locked}, 700,
			"fits: there are GPUs for it only on nodes that it is kept off; it will on others once other pods end\n" +
				"smaller: container \"main\": amd.com/gpumem: 600, the rest as it is (n2)\n"},
		"too much for all": {[]*corev1.Node{cordoned, locked}, 2000,
			"pending: it fits on no node, and would not if all GPUs of the nodes it is not kept off were idle\n" +
				"smaller: container \"main\": amd.com/gpumem: 600, the rest as it is (n2)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			pods := []*corev1.Pod{half, newPod("me", ask("main", 1, tc.mib, 25))}
			e, err := New(tc.nodes, pods, Options{Now: noon}).Explain("team", "me", amd.ScheduleOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "fits: there are GPUs for it, and HAMi would choose node \"n2\" now\n" != (e.Node == "n2") || len(e.Nodes) != len(tc.nodes) {
				t.Errorf("node %q of %d, want n2 only where it would go, of %d", e.Node, len(e.Nodes), len(tc.nodes))
			}
			e.Nodes = nil
			if diff := cmp.Diff(tc.want, answers(e)); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}
