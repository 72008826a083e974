package amd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// inUse is what is in use of a node: "<device> <shares> <MiB> <CUs>" of those
// that are.
func inUse(l *Ledger, node string) []string {
	var used []string
	for _, u := range l.Usage(node) {
		if u.Used != 0 || u.UsedMiB != 0 || u.UsedCUs != 0 {
			used = append(used, fmt.Sprintf("%s %d %d %d", u.ID, u.Used, u.UsedMiB, u.UsedCUs))
		}
	}
	return used
}

func newLedger(t *testing.T, nodes ...*corev1.Node) *Ledger {
	t.Helper()
	l := NewLedger(newDevices(t, Config{}))
	for _, node := range nodes {
		if err := l.SetNode(node); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func wantUse(t *testing.T, l *Ledger, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, inUse(l, "node")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestC18TerminatingAndFinishedPods(t *testing.T) {
	holding := func() *corev1.Pod { return holder(t, "p", "node", "g0 49072 76") }
	for name, test := range map[string]struct {
		then func(*Ledger, *corev1.Pod) error
		held bool
	}{
		"terminating": {func(l *Ledger, pod *corev1.Pod) error {
			pod.DeletionTimestamp = ptr(metav1.Now())
			return l.SetPod(pod)
		}, true},
		"succeeded": {func(l *Ledger, pod *corev1.Pod) error {
			pod.Status.Phase = corev1.PodSucceeded
			return l.SetPod(pod)
		}, false},
		"failed": {func(l *Ledger, pod *corev1.Pod) error {
			pod.Status.Phase = corev1.PodFailed
			return l.SetPod(pod)
		}, false},
		"deleted while the watch was down": {func(l *Ledger, pod *corev1.Pod) error {
			l.RemovePod(pod.UID)
			return nil
		}, false},
		"failed and then deleted": {func(l *Ledger, pod *corev1.Pod) error {
			pod.Status.Phase = corev1.PodFailed
			err := l.SetPod(pod)
			l.RemovePod(pod.UID)
			l.RemovePod(pod.UID)
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, newNode(t, "node", mi300x("g")))
			other := holder(t, "other", "node", "g0 1024 8")
			for _, pod := range []*corev1.Pod{holding(), other, holding()} { // seen twice, counted once
				if err := l.SetPod(pod); err != nil {
					t.Fatal(err)
				}
			}
			wantUse(t, l, "before", "g0 2 50096 84")
			if err := test.then(l, holding()); err != nil {
				t.Fatal(err)
			}
			if test.held {
				wantUse(t, l, "after", "g0 2 50096 84")
			} else {
				wantUse(t, l, "after", "g0 1 1024 8")
			}
		})
	}
}

// A pod that comes back under its old name is another pod: the end of the first
// frees nothing of the second.
func TestLedgerTellsPodsApartByUID(t *testing.T) {
	l := newLedger(t, newNode(t, "node", mi300x("g")))
	first, second := holder(t, "p", "node", "g0 49072 76"), holder(t, "p", "node", "g1 49072 76")
	second.UID = "second"
	for _, pod := range []*corev1.Pod{first, second} {
		if err := l.SetPod(pod); err != nil {
			t.Fatal(err)
		}
	}
	l.RemovePod(first.UID)
	l.RemovePod(first.UID)
	wantUse(t, l, "the first is gone", "g1 1 49072 76")
}

func TestLedgerBrokenPods(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.Pod)
		want string
	}{
		"garbage":               {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "garbage:;" }, "want UUID,type,memory,CUs"},
		"a bad number":          {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g0,AMD X,16g,76:;" }, "memory"},
		"a negative number":     {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g0,AMD X,-1,76:;" }, "memory"},
		"more devices":          {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g0,AMD X,1,1:g1,AMD X,1,1:;" }, "want 1 devices, found 2"},
		"more containers":       {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g0,AMD X,1,1:;g1,AMD X,1,1:;" }, "1 containers ask for GPUs"},
		"fewer CUs":             {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g0,AMD Instinct MI300X,49072,1:;" }, "not those that the scheduler chose"},
		"another device":        {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "g1,AMD Instinct MI300X,49072,76:;" }, "not those that the scheduler chose"},
		"nothing":               {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = "" }, "found grants for 0"},
		"no annotation":         {func(p *corev1.Pod) { delete(p.Annotations, annotations.AllocatedKey) }, "not those that the scheduler chose"},
		"another node":          {func(p *corev1.Pod) { p.Spec.NodeName = "elsewhere" }, "not those that the scheduler chose"},
		"more than an object":   {func(p *corev1.Pod) { p.Annotations[annotations.AllocatedKey] = strings.Repeat(";", 300000) }, "bytes long"},
		"nobody asks for a GPU": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }, "0 containers ask for GPUs"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, newNode(t, "node", mi300x("g")))
			for _, pod := range []*corev1.Pod{holder(t, "p", "node", "g0 49072 76"), holder(t, "q", "node", "g3 1024 8")} {
				if err := l.SetPod(pod); err != nil {
					t.Fatal(err)
				}
			}
			broken := holder(t, "p", "node", "g0 49072 76")
			test.edit(broken)
			err := l.SetPod(broken)
			if !errors.Is(err, ErrHolding) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "pod default/p: ") {
				t.Errorf("%v, want %q", err, test.want)
			}
			wantUse(t, l, "edited", "g0 1 49072 76", "g3 1 1024 8")

			// Never seen before, it holds nothing, and hides nobody.
			fresh := newLedger(t, newNode(t, "node", mi300x("g")))
			_ = fresh.SetPod(broken)
			if err := fresh.SetPod(holder(t, "q", "node", "g3 1024 8")); err != nil {
				t.Error(err)
			}
			used := inUse(fresh, "node")
			if len(used) == 0 || used[len(used)-1] != "g3 1 1024 8" {
				t.Errorf("after a restart: %v, want the other pod's among them", used)
			}
		})
	}
}

// Until a pod is bound a new decision replaces the old one.
func TestLedgerFollowsDecisions(t *testing.T) {
	l := newLedger(t, newNode(t, "node", mi300x("g")), newNode(t, "other", mi300x("h")))
	pod := gpuPod("p", "1", "1024", "25")
	grants := func(id string) annotations.PodGrants {
		return annotations.PodGrants{{{UUID: id, Type: "AMD Instinct MI300X", MemoryMiB: 1024, CUs: 76}}}
	}
	hold := func(node, id string) {
		t.Helper()
		if err := l.Hold(pod, node, grants(id)); err != nil {
			t.Fatal(err)
		}
	}
	hold("other", "h0")
	hold("node", "g0")
	wantUse(t, l, "chosen anew", "g0 1 1024 76")
	if used := inUse(l, "other"); used != nil {
		t.Errorf("the first choice still holds %v", used)
	}

	if err := l.SetPod(pod); err != nil {
		t.Fatal(err) // the informer has not seen the annotations yet
	}
	wantUse(t, l, "an older object was seen", "g0 1 1024 76")

	written := pod.DeepCopy()
	value, _ := annotations.EncodePod(grants("g0"))
	written.Annotations = map[string]string{annotations.AllocatedKey: value, annotations.VGPUNodeKey: "node"}
	forged := written.DeepCopy()
	forged.Annotations[annotations.AllocatedKey] = "g1,AMD Instinct MI300X,1,1:;"
	if err := l.SetPod(forged); !errors.Is(err, ErrHolding) {
		t.Errorf("annotations that are not the decision: %v", err)
	}
	for _, when := range []string{"written", "bound"} {
		if err := l.SetPod(written); err != nil {
			t.Fatal(err)
		}
		wantUse(t, l, when, "g0 1 1024 76")
		written.Spec.NodeName = "node"
	}
	l.RemovePod(pod.UID)
	wantUse(t, l, "removed")

	hold("other", "h0")
	if err := l.SetPod(written); err != nil {
		t.Errorf("bound elsewhere by another scheduler: %v", err)
	}
	wantUse(t, l, "bound elsewhere by another scheduler", "g0 1 1024 76")

	bound := holder(t, "b", "node", "g0 1 1")
	if err := l.SetPod(bound); err != nil {
		t.Fatal(err)
	}
	if err := l.Hold(bound, "other", grants("h0")); err == nil || !strings.Contains(err.Error(), `is bound to node "node"`) {
		t.Errorf("a decision about a bound pod: %v", err)
	}
	if err := l.Hold(pod, "node", annotations.PodGrants{nil}); err == nil {
		t.Error("held nothing for a pod that asks for a GPU")
	}
}

func TestLedgerNodes(t *testing.T) {
	l := newLedger(t)
	pod := holder(t, "p", "node", "g0 49072 76")
	if err := l.SetPod(pod); err != nil {
		t.Fatal(err) // before its node
	}
	node := newNode(t, "node", mi300x("g"))
	if err := l.SetNode(node); err != nil {
		t.Fatal(err)
	}
	wantUse(t, l, "the node came later", "g0 1 49072 76")

	broken := node.DeepCopy()
	broken.Annotations[annotations.NodeRegisterKey] = `[{"id":`
	if err := l.SetNode(broken); !errors.Is(err, annotations.ErrNotDeviceList) {
		t.Errorf("a broken list: %v", err)
	}
	wantUse(t, l, "a broken list", "g0 1 49072 76")
	if d, err := l.Schedule(gpuPod("new", "1", "1", "1"), ScheduleOptions{}); err != nil || d.Node != "" || !strings.Contains(d.Reason(), "not a JSON device list") {
		t.Errorf("scheduled onto a node that cannot be read: %+v, %v", d, err)
	}

	// Another mode: the old device is gone, its holder blocks nothing.
	if err := l.SetNode(newNode(t, "node", cpx("g"))); err != nil {
		t.Fatal(err)
	}
	wantUse(t, l, "switched to CPX")
	if got := l.Pods("node"); len(got) != 1 || len(got[0].Stale) != 1 || got[0].Stale[0] != "g0" {
		t.Errorf("%+v, want g0 stale", got)
	}
	if err := l.SetNode(node); err != nil {
		t.Fatal(err)
	}
	wantUse(t, l, "switched back", "g0 1 49072 76")

	l.RemoveNode("node")
	if l.Usage("node") != nil {
		t.Error("a node that is gone has devices")
	}
	if err := l.SetNode(node); err != nil {
		t.Fatal(err)
	}
	wantUse(t, l, "gone and back", "g0 1 49072 76")
	l.RemoveNode("node")
	l.RemoveNode("node")
	l.RemovePod(pod.UID)
	if len(l.nodes) != 0 || len(l.order) != 0 || len(l.pods) != 0 {
		t.Errorf("left over: %v %v %v", l.nodes, l.order, l.pods)
	}
}

func TestLedgerCordon(t *testing.T) {
	node := newNode(t, "node", mi300x("g"))
	l := newLedger(t, node)
	for _, cordon := range []string{"g3", "", "g3,g4"} {
		node = node.DeepCopy()
		node.Annotations[annotations.DeviceCordonKey] = cordon
		if err := l.SetNode(node); err != nil {
			t.Fatal(err)
		}
		for _, u := range l.Usage("node") {
			if want := cordon != "" && strings.Contains(cordon, u.ID); u.Cordoned != want {
				t.Errorf("cordon %q: %s %v", cordon, u.ID, u.Cordoned)
			}
		}
	}
	node.Annotations[annotations.DeviceCordonKey] = strings.Repeat("a", 300000)
	if err := l.SetNode(node); err == nil {
		t.Error("took a cordon that cannot be an annotation")
	}
}

// A node whose plugin is down offers no GPUs, whatever its annotation says.
func TestLedgerUnhealthyNode(t *testing.T) {
	for name, test := range map[string]struct {
		status corev1.NodeStatus
		fits   bool
	}{
		"nothing known":      {corev1.NodeStatus{}, true},
		"capacity":           {corev1.NodeStatus{Capacity: corev1.ResourceList{"amd.com/gpu": resource.MustParse("80")}}, true},
		"no capacity":        {corev1.NodeStatus{Capacity: corev1.ResourceList{"amd.com/gpu": resource.MustParse("0")}}, false},
		"never had a plugin": {corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("8")}}, false},
		"nothing allocatable": {corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"amd.com/gpu": resource.MustParse("80")},
			Allocatable: corev1.ResourceList{"amd.com/gpu": resource.MustParse("0")},
		}, false},
	} {
		node := newNode(t, "node", mi300x("g"))
		node.Status = test.status
		d, err := newLedger(t, node).Schedule(gpuPod("new", "1", "1", "1"), ScheduleOptions{})
		if err != nil || (d.Node != "") != test.fits {
			t.Errorf("%s: %q, %s, %v", name, d.Node, d.Reason(), err)
		}
	}
}

// Whatever comes in whatever order, what is in use is what the pods that are
// left hold, and never goes wrong by what a hostile annotation claims.
func TestLedgerAddsUp(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		l := newLedger(t, newNode(t, "node", mi300x("g")))
		left := map[types.UID]annotations.Grant{}
		for range 100 {
			name := fmt.Sprintf("p%d", rng.IntN(12))
			g := annotations.Grant{UUID: fmt.Sprintf("g%d", rng.IntN(9)), MemoryMiB: rng.Int32N(1000), CUs: rng.Int32N(100)}
			if rng.IntN(10) == 0 {
				g.MemoryMiB, g.CUs = 2147483647, 2147483647
			}
			pod := holder(t, name, "node", fmt.Sprintf("%s %d %d", g.UUID, g.MemoryMiB, g.CUs))
			switch rng.IntN(3) {
			case 0:
				l.RemovePod(pod.UID)
				delete(left, pod.UID)
			case 1:
				pod.Status.Phase = corev1.PodFailed
				if err := l.SetPod(pod); err != nil {
					t.Fatal(err)
				}
				delete(left, pod.UID)
			default:
				if err := l.SetPod(pod); err == nil {
					left[pod.UID] = g
				}
			}
			if rng.IntN(20) == 0 {
				if err := l.SetNode(newNode(t, "node", mi300x("g"))); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := usages(mi300x("g"))
		for i := range want {
			for _, g := range left {
				if g.UUID == want[i].ID {
					want[i].Add(g)
				}
			}
		}
		if diff := cmp.Diff(want, l.Usage("node")); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func TestLedgerConcurrently(t *testing.T) {
	l := newLedger(t, newNode(t, "node", mi300x("g")))
	pod := holder(t, "p", "node", "g0 1024 8")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for range 50 {
				switch i {
				case 0:
					_ = l.SetPod(pod)
				case 1:
					l.RemovePod(pod.UID)
				case 2:
					_ = l.SetNode(newNode(t, "node", mi300x("g")))
				case 3:
					l.Usage("node")
					l.Pods("node")
				default:
					if d, err := l.Schedule(gpuPod("new", "1", "1024", "25"), ScheduleOptions{}); err != nil || d.Node != "node" {
						t.Error(d.Reason(), err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// Whatever a pod's annotation claims, it is refused or counted, other pods keep
// what they hold, and removing the pod undoes it.
func FuzzLedgerSetPod(f *testing.F) {
	f.Add("g0,AMD X,16384,76:;", "node", 1)
	f.Add(";;g0,AMD X,1,1:g1,AMD X,1,1:;", "", 2)
	f.Add("g0,AMD X,2147483647,2147483647:", "other", 1)
	f.Add("garbage", "node", 0)
	d, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	node := newNode(f, "node", mi300x("g"))
	f.Fuzz(func(t *testing.T, value, name string, count int) {
		l := NewLedger(d)
		if err := l.SetNode(node); err != nil {
			t.Fatal(err)
		}
		other := holder(t, "other", "node", "g0 1024 8")
		if err := l.SetPod(other); err != nil {
			t.Fatal(err)
		}
		before := l.Usage("node")
		pod := gpuPod("p", fmt.Sprint(count), "", "")
		pod.Spec.NodeName = name
		pod.Annotations = map[string]string{annotations.AllocatedKey: value}
		err := l.SetPod(pod)
		for i, u := range l.Usage("node") {
			if u.Used < before[i].Used || u.UsedMiB < before[i].UsedMiB || u.UsedCUs < before[i].UsedCUs {
				t.Errorf("%s is used less: %+v, before %+v", u.ID, u, before[i])
			}
			if err != nil && u.Used != before[i].Used {
				t.Errorf("%s is used though refused: %v", u.ID, err)
			}
		}
		l.RemovePod(pod.UID)
		if diff := cmp.Diff(before, l.Usage("node")); diff != "" {
			t.Errorf("after the pod is gone:\n%s", diff)
		}
	})
}
