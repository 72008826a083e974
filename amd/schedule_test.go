package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

var noon = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

func TestScheduleWritesWhatHAMiWrites(t *testing.T) {
	nodes := []*corev1.Node{newNode(t, "node", mi300x("g"))}
	pod := podOf(t, "gpumem=8192 gpucores=25")
	pod.Annotations = map[string]string{annotations.AllocatedKey: "forged", "mine": "kept"}
	pod.Spec.InitContainers = []corev1.Container{{Name: "prep"}}
	before := pod.DeepCopy()
	decision, err := newDevices(t, Config{}).Schedule(pod, nodes, nil, ScheduleOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, pod, compareQuantities); diff != "" {
		t.Errorf("the pod given was changed:\n%s", diff)
	}
	const value = ";g7,AMD Instinct MI300X,8192,76:;"
	want := map[string]string{
		"hami.io/amd-devices-to-allocate": value, "hami.io/amd-devices-allocated": value,
		"hami.io/vgpu-node": "node", "hami.io/vgpu-time": "1787313600",
	}
	if diff := cmp.Diff(want, decision.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"hami.io/vgpu-node": "node"}, decision.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if decision.Reason() != "" || len(decision.Notes) != 1 || decision.Pod.Annotations[annotations.AllocatedKey] != "" {
		t.Errorf("%q, notes %q, annotation %q", decision.Reason(), decision.Notes, decision.Pod.Annotations[annotations.AllocatedKey])
	}
	scheduled := decision.Apply()
	maps.Copy(want, map[string]string{"mine": "kept"})
	if diff := cmp.Diff(want, scheduled.Annotations); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if decision.Pod.Labels != nil || scheduled.Labels[annotations.VGPUNodeKey] != "node" {
		t.Errorf("labels %v and %v, want the label on the copy alone", decision.Pod.Labels, scheduled.Labels)
	}
}

func TestScheduleWithoutGPUs(t *testing.T) {
	decision, err := newDevices(t, Config{}).Schedule(podOf(t, ""), []*corev1.Node{newNode(t, "node", nil)}, nil, ScheduleOptions{})
	if err != nil || decision.Asks || decision.Node != "" || decision.Annotations != nil || decision.Reason() != "" {
		t.Errorf("%+v, %v, want no decision", decision, err)
	}
	decision, err = newDevices(t, Config{}).Schedule(podOf(t, "gpu=1"), nil, nil, ScheduleOptions{})
	if err != nil || !decision.Asks || decision.Node != "" || decision.Reason() != "no nodes" {
		t.Errorf("%+v, %v, want no nodes", decision, err)
	}
}

func TestScheduleRefusesPods(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.Pod)
		want string
	}{
		"bound already":   {func(p *corev1.Pod) { p.Spec.NodeName = "node" }, `pod default/pod: already bound to node "node"`},
		"refused":         {func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1 gpucores=0") }, "integer 1–100"},
		"invalid weights": {func(p *corev1.Pod) { p.Annotations = map[string]string{annotations.ScoringWeightsKey: "slot=1"} }, annotations.ScoringWeightsKey},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, "gpu=1")
			test.edit(pod)
			nodes := []*corev1.Node{newNode(t, "node", mi300x("g"))}
			if _, err := newDevices(t, Config{}).Schedule(pod, nodes, nil, ScheduleOptions{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			// Without admission the ledger comes to the same verdict.
			if _, err := newLedger(t, nodes...).Schedule(pod, ScheduleOptions{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ledger: %v, want %q", err, test.want)
			}
		})
	}
}

// One node or pod that cannot be read is a note, and the rest is scheduled.
func TestScheduleNotesWhatItCannotRead(t *testing.T) {
	broken := newNode(t, "broken", nil)
	broken.Annotations[annotations.NodeRegisterKey] = "[null]"
	garbled := holder(t, "garbled", "good", "g0 1 1")
	garbled.Annotations[annotations.AllocatedKey] = "garbage"
	pods := []*corev1.Pod{garbled, holder(t, "fine", "good", "g7 196288 304")}
	decision, err := newDevices(t, Config{}).Schedule(podOf(t, "gpu=1"), []*corev1.Node{broken, newNode(t, "good", mi300x("g"))}, pods, ScheduleOptions{})
	if err != nil || decision.Node != "good" || decision.Grants[0][0].UUID != "g6" {
		t.Fatalf("%+v, %v, want g6 on the good node", decision, err)
	}
	if len(decision.Notes) != 2 || !strings.HasPrefix(decision.Notes[0], `node "broken": `) || !strings.HasPrefix(decision.Notes[1], "pod default/garbled: ") {
		t.Errorf("notes %q", decision.Notes)
	}
	if len(decision.Refusals) != 1 || decision.Refusals[0].Node != "broken" || decision.Refusals[0].Err == nil {
		t.Errorf("refusals %+v", decision.Refusals)
	}
}

func TestDecisionReason(t *testing.T) {
	var nodes []*corev1.Node
	for _, name := range []string{"c", "a", "b"} {
		nodes = append(nodes, newNode(t, name, mi300x(name)))
	}
	nodes = append(nodes, newNode(t, "small", rx9060()))
	decision, err := newDevices(t, Config{}).Schedule(podOf(t, "gpu=2 gpumem=999999"), nodes, nil, ScheduleOptions{})
	const want = "1 nodes 1/1 NodeInsufficientDevice(small); 3 nodes 8/8 CardInsufficientMemory(a,b,c)"
	if err != nil || decision.Reason() != want {
		t.Errorf("%q, %v, want %q", decision.Reason(), err, want)
	}
	if decision.Refusals[0].Container != "main" {
		t.Errorf("%+v, want the container named", decision.Refusals[0])
	}
}

// The order of nodes and pods changes nothing, and equal nodes are told apart by
// their names.
func TestScheduleIsDeterministic(t *testing.T) {
	d := newDevices(t, Config{})
	nodes := []*corev1.Node{newNode(t, "a", mi300x("a")), newNode(t, "b", mi300x("b")), newNode(t, "c", mi300x("c"))}
	pods := []*corev1.Pod{holder(t, "x", "b", "b0 1024 8"), holder(t, "y", "c", "c0 1024 8"), holder(t, "z", "a", "a0 1024 8")}
	pod := podOf(t, "gpu=1 gpumem=1024 gpucores=25")
	var want Decision
	permute(3, func(order []int) {
		var n []*corev1.Node
		var p []*corev1.Pod
		for _, i := range order {
			n, p = append(n, nodes[i]), append(p, pods[i])
		}
		got, err := d.Schedule(pod, n, p, ScheduleOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		if want.Node == "" {
			want = got
		}
		if got.Node != "a" || !cmp.Equal(want, got, compareQuantities) {
			t.Fatalf("order %v: %q %v, want %q %v", order, got.Node, got.Grants, want.Node, want.Grants)
		}
	})
}

// Nodes that strand as much are left to HAMi's base score: the fullest under
// binpack, the emptiest under spread; without this package's score all are.
func TestScheduleNodePolicy(t *testing.T) {
	nodes := []*corev1.Node{newNode(t, "a-empty", mi300x("a")), newNode(t, "b-used", mi300x("b")), newNode(t, "c-fuller", mi300x("c"))}
	pods := []*corev1.Pod{
		holder(t, "1", "b-used", "b0 49072 76"), holder(t, "2", "c-fuller", "c0 49072 76"), holder(t, "3", "c-fuller", "c0 49072 76"),
	}
	for name, test := range map[string]struct {
		pod  string
		opts ScheduleOptions
		off  bool
		want string
	}{
		"binpack by default":             {"", ScheduleOptions{}, false, "c-fuller"},
		"the scheduler's policy":         {"", ScheduleOptions{NodePolicy: "spread"}, false, "b-used"}, // the idle hive stays whole
		"the pod's over the scheduler's": {"binpack", ScheduleOptions{NodePolicy: "spread"}, false, "c-fuller"},
		"spread of the pod's":            {"spread", ScheduleOptions{}, false, "b-used"},
		"unknown is binpack, as in HAMi": {"fastest", ScheduleOptions{}, false, "c-fuller"},
		"binpack without our score":      {"binpack", ScheduleOptions{}, true, "c-fuller"},
		"spread without our score":       {"spread", ScheduleOptions{}, true, "a-empty"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, "gpu=1 gpumem=49072 gpucores=25")
			if test.pod != "" {
				pod.Annotations = map[string]string{annotations.NodeSchedulerPolicyKey: test.pod}
			}
			decision, err := newDevices(t, Config{DisableScore: test.off}).Schedule(pod, nodes, pods, test.opts)
			if err != nil || decision.Node != test.want {
				t.Errorf("%q, %v, want %q", decision.Node, err, test.want)
			}
		})
	}
}

// What the pod holds from an earlier decision is free for the next one.
func TestScheduleAgain(t *testing.T) {
	l := newLedger(t, newNode(t, "node", rx9060()))
	pod := gpuPod("p", "1", "", "")
	for range 2 {
		decision, err := l.Schedule(pod, ScheduleOptions{})
		if err != nil || decision.Node != "node" {
			t.Fatal(decision.Reason(), err)
		}
		if err := l.Hold(pod, decision.Node, decision.Grants); err != nil {
			t.Fatal(err)
		}
	}
	wantUse(t, l, "held", "x0 1 16304 32")
	decision, err := l.Schedule(gpuPod("q", "1", "1", "1"), ScheduleOptions{})
	if err != nil || decision.Node != "" {
		t.Errorf("%+v, %v, want no room for another pod", decision.Grants, err)
	}
}

// The list of pods may hold the pod itself, as `kubectl get pods` prints it.
func TestScheduleLeavesOutThePodItself(t *testing.T) {
	pod := gpuPod("p", "1", "", "")
	self := pod.DeepCopy()
	self.Annotations = map[string]string{annotations.AllocatedKey: "x0,AMD X,16304,32:;", annotations.VGPUNodeKey: "node"}
	decision, err := newDevices(t, Config{}).Schedule(pod, []*corev1.Node{newNode(t, "node", rx9060())}, []*corev1.Pod{self}, ScheduleOptions{})
	if err != nil || decision.Node != "node" {
		t.Errorf("%s, %v", decision.Reason(), err)
	}
}

// A dozen pods one after the other never get more than there is, and all CUs are
// used in the end.
func TestScheduleFillsANode(t *testing.T) {
	l := newLedger(t, newNode(t, "node", mi300x("g")))
	placed := 0
	for i := range 40 {
		pod := gpuPod(fmt.Sprint("p", i), "1", "49072", "25")
		decision, err := l.Schedule(pod, ScheduleOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if decision.Node == "" {
			if got := decision.Reason(); got != "1 nodes 8/8 CardInsufficientMemory(node)" {
				t.Errorf("%q", got)
			}
			continue
		}
		placed++
		if err := l.SetPod(decision.Apply()); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range l.Usage("node") {
		if u.Used != 4 || u.UsedCUs != 304 || u.UsedMiB != 196288 {
			t.Errorf("%s: %d shares, %d CUs, %d MiB, want it full", u.ID, u.Used, u.UsedCUs, u.UsedMiB)
		}
	}
	if placed != 32 {
		t.Errorf("%d pods placed, want 32", placed)
	}
}

// The keys of each policy, as HAMi's sort reads them.
func TestOrdering(t *testing.T) {
	usage := []Usage{
		{ID: "empty-numa0", Index: 0, NUMA: 0},
		{ID: "full-numa0", Index: 1, NUMA: 0, Used: 3},
		{ID: "empty-numa1", Index: 2, NUMA: 1},
		{ID: "half-numa1", Index: 3, NUMA: 1, Used: 2},
		{ID: "half-unknown", Index: 4, NUMA: -1, Used: 2},
	}
	for i := range usage {
		usage[i].Count, usage[i].CUs, usage[i].MemoryMiB = 4, 100, 100
	}
	for policy, want := range map[string]string{
		"":               "empty-numa1 empty-numa0 half-numa1 half-unknown full-numa0",
		"spread":         "empty-numa1 empty-numa0 half-numa1 half-unknown full-numa0",
		"topology-aware": "empty-numa1 empty-numa0 half-numa1 half-unknown full-numa0",
		"unknown":        "empty-numa1 empty-numa0 half-numa1 half-unknown full-numa0",
		"binpack":        "full-numa0 half-numa1 half-unknown empty-numa1 empty-numa0",
		"mutex":          "empty-numa1 empty-numa0 half-numa1 half-unknown full-numa0",
		"numa":           "half-numa1 empty-numa1 full-numa0 empty-numa0 half-unknown",
		"numa,binpack":   "half-numa1 empty-numa1 full-numa0 empty-numa0 half-unknown",
		"numa,spread":    "empty-numa1 half-numa1 empty-numa0 full-numa0 half-unknown",
		"binpack, numa":  "full-numa0 half-numa1 half-unknown empty-numa1 empty-numa0",
		"binpack,":       "full-numa0 half-unknown half-numa1 empty-numa1 empty-numa0",
		"mutex,unknown":  "empty-numa1 empty-numa0 half-unknown half-numa1 full-numa0",
		"spread,binpack": "empty-numa1 empty-numa0 half-unknown half-numa1 full-numa0",
	} {
		t.Run(policy, func(t *testing.T) {
			o := parseOrdering(policy, annotations.ScoringWeights{Slot: 1, Core: 1, Memory: 1})
			var ranks []ranked
			for i := range usage {
				ranks = append(ranks, o.rank(i, ptr(fillOf(&usage[i]))))
			}
			sortRanked(ranks)
			var got []string
			for _, r := range slices.Backward(ranks) {
				got = append(got, usage[r.device].ID)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("tried in the order\n%s, want\n%s", strings.Join(got, " "), want)
			}
		})
	}
}

// Many devices are sorted by the library and few by hand, to the same order.
func TestSortRanked(t *testing.T) {
	for _, n := range []int{0, 1, 32, 33, 200} {
		ranks := make([]ranked, n)
		for i := range ranks {
			ranks[i] = ranked{device: int32(i), keys: [2]uint64{uint64(i * 7 % 5), uint64(i * 3 % 4)}}
		}
		sortRanked(ranks)
		for i := 1; i < n; i++ {
			a, b := ranks[i-1], ranks[i]
			if c := slices.Compare(a.keys[:], b.keys[:]); c > 0 || c == 0 && a.device > b.device {
				t.Fatalf("%d: %v before %v", n, a, b)
			}
		}
	}
}

func TestNodeScore(t *testing.T) {
	for name, test := range map[string]struct {
		held []string
		want float32
	}{
		"empty":     {nil, 0},
		"one slice": {[]string{"g0 49072 76"}, 10 * (float32(1)/80 + float32(76)/2432 + float32(49072)/1570304)},
	} {
		if got := nodeScore(load(t, usages(mi300x("g")), test.held...)); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := nodeScore([]Usage{{Count: 1, CUs: 1}}); got != 0 {
		t.Errorf("without memory: %v, want 0", got)
	}
}
