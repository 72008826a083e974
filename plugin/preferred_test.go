package plugin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

// allIDs are the kubelet IDs of some devices of a node, all if none is named.
func allIDs(s *snapshot, devices ...int) []string {
	var out []string
	for i := range s.Devices {
		if len(devices) == 0 || slices.Contains(devices, i) {
			out = append(out, s.Devices[i].KubeletIDs...)
		}
	}
	return out
}

// shortened writes IDs with the bus number alone: "05#0 27#0".
func shortened(ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = strings.Replace(strings.TrimPrefix(id, "0000:"), ":00.0", "", 1)
	}
	return strings.Join(out, " ")
}

// except removes IDs, or all IDs of a device.
func except(ids []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(gone, func(g string) bool { return id == g || strings.HasPrefix(id, g+"#") || strings.HasPrefix(id, g+"-") })
	})
}

func TestPrefer(t *testing.T) {
	hive := machineSnapshot(t, "mi300x-spx-8", registerDefaults) // all GPUs equally near
	pcie := machineSnapshot(t, "mi210-8", registerDefaults)      // two hives of four on two sockets
	parts := machineSnapshot(t, "mi355x-qpx-8", partition.RegisterOptions{Mode: partition.ModePartition})
	one := machineSnapshot(t, "rx9060xt", registerDefaults) // two shares
	id := func(s *snapshot, i int) string { return s.Devices[i].ID }
	ids := func(s *snapshot, i, slot int) string { return s.Devices[i].KubeletIDs[slot] }

	tests := map[string]struct {
		node *snapshot
		ask  preference
		want string
	}{
		"one share of the first GPU": {node: hive, ask: preference{size: 1, available: allIDs(hive)}, want: "05#0"},
		"one share where some are in use already": {node: hive,
			ask: preference{size: 1, available: except(allIDs(hive), ids(hive, 3, 0), ids(hive, 3, 1))}, want: "65#2"},
		"one share of the emptiest GPU": {node: hive,
			ask: preference{size: 1, policy: PolicySpread, available: except(allIDs(hive), ids(hive, 0, 0), ids(hive, 1, 4))}, want: "47#0"},
		"distinct GPUs for several shares": {node: hive, ask: preference{size: 8, available: allIDs(hive)},
			want: "05#0 27#0 47#0 65#0 85#0 a7#0 c7#0 e5#0"},
		"second shares only when there is no other GPU": {node: hive, ask: preference{size: 5, available: allIDs(hive, 1, 2)},
			want: "27#0 27#1 27#2 47#0 47#1"},
		"the lowest slot, by number": {node: hive, ask: preference{size: 1, available: []string{"0000:05:00.0#9", "0000:05:00.0#3"}}, want: "05#3"},
		"what kubelet must include": {node: hive, ask: preference{size: 2, available: allIDs(hive), must: []string{ids(hive, 4, 7)}},
			want: "05#0 85#7"},
		"as many as must be included":      {node: hive, ask: preference{size: 2, available: allIDs(hive), must: []string{ids(hive, 4, 7), ids(hive, 4, 8)}}, want: "85#7 85#8"},
		"more must be included than asked": {node: hive, ask: preference{size: 1, available: allIDs(hive), must: []string{ids(hive, 4, 7), ids(hive, 4, 8)}}, want: ""},
		"nothing asked":                    {node: hive, ask: preference{size: 0, available: allIDs(hive)}, want: ""},
		"a negative size":                  {node: hive, ask: preference{size: -1, available: allIDs(hive)}, want: ""},
		"a huge size gets all":             {node: one, ask: preference{size: 1 << 30, available: allIDs(one)}, want: shortened(allIDs(one))},
		"nothing available":                {node: hive, ask: preference{size: 2}, want: ""},
		"unknown IDs give a partial answer": {node: hive,
			ask: preference{size: 3, available: []string{"0000:05:00.0#0", "0000:99:00.0#0", "", "0000:05:00.0#10"}, must: []string{"0000:99:00.0#1"}}, want: "05#0"},
		"repeated IDs are one":                   {node: hive, ask: preference{size: 2, available: []string{"0000:05:00.0#0", "0000:05:00.0#0"}, must: []string{"0000:05:00.0#0"}}, want: "05#0"},
		"another resource's devices are unknown": {node: hive, ask: preference{resource: "amd.com/cpx_nps1", size: 1, available: allIDs(hive)}, want: ""},
		"what another container gets": {node: hive,
			ask: preference{size: 2, available: allIDs(hive), taken: map[string]bool{"0000:05:00.0#0": true}}, want: "05#1 27#0"},

		"GPUs of one hive":                           {node: pcie, ask: preference{size: 4, available: except(allIDs(pcie), pcieBDF(pcie, 0))}, want: shares(pcie, 4, 5, 6, 7)},
		"the hive of what must be included":          {node: pcie, ask: preference{size: 2, available: allIDs(pcie), must: []string{ids(pcie, 5, 0)}}, want: shares(pcie, 4, 5)},
		"GPUs of both hives":                         {node: pcie, ask: preference{size: 2, policy: PolicySpread, available: allIDs(pcie)}, want: shares(pcie, 0, 4)},
		"four far GPUs":                              {node: pcie, ask: preference{size: 4, policy: PolicySpread, available: allIDs(pcie)}, want: shares(pcie, 0, 1, 4, 5)},
		"six GPUs: as many of one hive as there are": {node: pcie, ask: preference{size: 6, policy: PolicyBinpack, available: allIDs(pcie)}, want: shares(pcie, 0, 1, 2, 3, 4, 5)},

		"partitions of one GPU": {node: parts, ask: preference{size: 4, available: except(allIDs(parts), "0000:05:00.0-p1")},
			want: "15-p0 15-p1 15-p2 15-p3"},
		"partitions where they just fit": {node: parts, ask: preference{size: 2, available: except(allIDs(parts), "0000:65:00.0-p0", "0000:65:00.0-p3")},
			want: "65-p1 65-p2"},
		"more partitions than one GPU has": {node: parts, ask: preference{size: 6, available: allIDs(parts)},
			want: "05-p0 05-p1 05-p2 05-p3 15-p0 15-p1"},
		"partitions of different GPUs": {node: parts, ask: preference{size: 2, policy: PolicySpread, available: allIDs(parts)},
			want: "05-p0 15-p0"},

		"what the scheduler granted": {node: hive, ask: preference{size: 2, available: allIDs(hive), granted: []string{id(hive, 6), id(hive, 2)}}, want: "47#0 c7#0"},
		"granted, whatever the policy": {node: pcie, ask: preference{size: 2, policy: PolicySpread, available: allIDs(pcie), granted: []string{id(pcie, 1), id(pcie, 0)}},
			want: shares(pcie, 0, 1)},
		"a partition that was granted": {node: parts, ask: preference{size: 1, available: allIDs(parts), granted: []string{id(parts, 9)}}, want: "65-p1"},
		"what must be included serves its grant": {node: hive,
			ask: preference{size: 2, available: allIDs(hive), must: []string{ids(hive, 6, 5)}, granted: []string{id(hive, 6), id(hive, 2)}}, want: "47#0 c7#5"},
		"what must be included instead of a grant": {node: hive,
			ask: preference{size: 2, available: allIDs(hive), must: []string{ids(hive, 0, 5)}, granted: []string{id(hive, 6), id(hive, 2)}}, want: "05#5 c7#0"},
		"a grant of a GPU without a free share is filled up": {node: hive,
			ask: preference{size: 2, available: except(allIDs(hive), "0000:47:00.0"), granted: []string{id(hive, 6), id(hive, 2)}}, want: "05#0 c7#0"},
		"a grant of an unknown device is filled up": {node: hive, ask: preference{size: 1, available: allIDs(hive), granted: []string{"x"}}, want: "05#0"},
		"fewer grants than asked":                   {node: hive, ask: preference{size: 2, available: allIDs(hive), granted: []string{id(hive, 2)}}, want: "05#0 47#0"},
		"more grants than asked":                    {node: hive, ask: preference{size: 1, available: allIDs(hive), granted: []string{id(hive, 2), id(hive, 3)}}, want: "47#0"},
		"an ID of a live pod is the last for a grant": {node: hive,
			ask: preference{size: 1, available: []string{ids(hive, 2, 0), ids(hive, 2, 7)}, granted: []string{id(hive, 2)}, held: map[string]bool{ids(hive, 2, 0): true}}, want: "47#7"},
		"but better than another GPU": {node: hive,
			ask: preference{size: 1, available: except(allIDs(hive), ids(hive, 2, 1)), granted: []string{id(hive, 2)}, held: heldIDs(hive, 2)}, want: "47#0"},
		"IDs of live pods are no filling": {node: hive,
			ask: preference{size: 3, available: allIDs(hive, 2, 3), held: heldIDs(hive, 2)}, want: "65#0 65#1 65#2"},
		"a short answer rather than IDs of live pods": {node: hive,
			ask: preference{size: 2, available: append(allIDs(hive, 2), ids(hive, 3, 4)), held: heldIDs(hive, 2)}, want: "65#4"},
		"an ID of a live pod that must be included": {node: hive,
			ask: preference{size: 1, available: allIDs(hive, 2), must: []string{ids(hive, 2, 5)}, held: heldIDs(hive, 2)}, want: "47#5"},
		"the same IDs again": {node: hive,
			ask: preference{size: 2, available: allIDs(hive), held: heldIDs(hive, 2, 3), again: []string{ids(hive, 3, 3), ids(hive, 2, 5)}}, want: "47#5 65#3"},
		"two grants of one device": {node: hive, ask: preference{size: 2, available: allIDs(hive), granted: []string{id(hive, 2), id(hive, 2)}}, want: "47#0 47#1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.ask.resource == "" {
				test.ask.resource = partition.ResourceGPU
			}
			available, must := slices.Clone(test.ask.available), slices.Clone(test.ask.must)
			for range 3 { // whatever the order of the question
				got := prefer(test.node, test.ask)
				if got := shortened(got); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				checkSubset(t, got, test.ask)
				rand.Shuffle(len(test.ask.available), func(i, j int) {
					test.ask.available[i], test.ask.available[j] = test.ask.available[j], test.ask.available[i]
				})
			}
			slices.Sort(available)
			slices.Sort(test.ask.available)
			if !slices.Equal(available, test.ask.available) || !slices.Equal(must, test.ask.must) {
				t.Error("the question was changed")
			}
		})
	}
}

// heldIDs are all IDs of some devices.
func heldIDs(s *snapshot, devices ...int) map[string]bool {
	held := make(map[string]bool)
	for _, id := range allIDs(s, devices...) {
		held[id] = true
	}
	return held
}

func TestLearnWhoIsAskedForAgain(t *testing.T) {
	served := func(pod types.UID, ids ...string) servedContainer { return servedContainer{pod: pod, ids: ids} }
	two := []servedContainer{served("p", "a"), served("p", "b", "c"), served("q", "d")}
	tests := map[string]struct {
		known     pending
		size      int
		available []string
		taken     []string
		want      []string
	}{
		"nobody was served":                {size: 1, available: []string{"a", "x"}},
		"the only one kubelet forgot":      {known: pending{served: two}, size: 1, available: []string{"a", "b", "c", "x"}, want: []string{"a"}},
		"the only one of this size":        {known: pending{served: two}, size: 2, available: []string{"a", "b", "c", "d", "x"}, want: []string{"b", "c"}},
		"the next container of the pod":    {known: pending{served: []servedContainer{served("p", "a"), served("p", "b")}}, size: 1, available: []string{"a", "b"}, taken: []string{"a"}, want: []string{"b"}},
		"the first container of the pod":   {known: pending{served: []servedContainer{served("p", "a"), served("p", "b")}}, size: 1, available: []string{"b", "a"}, want: []string{"a"}},
		"one of two pods":                  {known: pending{served: two}, size: 1, available: []string{"a", "d", "x"}},
		"only a part of it is free":        {known: pending{served: two}, size: 2, available: []string{"b", "x", "y"}},
		"kubelet forgot nobody":            {known: pending{served: two}, size: 1, available: []string{"x"}},
		"a pod waits with the lock":        {known: pending{served: two, granted: [][]string{nil}}, size: 1, available: []string{"a", "x"}},
		"a pod asks without grants":        {known: pending{served: two, others: true}, size: 1, available: []string{"a", "x"}},
		"an ID that another container has": {known: pending{served: two}, size: 1, available: []string{"a", "x"}, taken: []string{"a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ask := preference{size: test.size, available: test.available, taken: make(map[string]bool)}
			for _, id := range test.taken {
				ask.taken[id] = true
			}
			ask.learn(test.known, 0)
			if diff := cmp.Diff(test.want, ask.again); diff != "" {
				t.Error(diff)
			}
			for _, c := range test.known.served {
				for _, id := range c.ids {
					if !ask.held[id] {
						t.Errorf("%s is not held", id)
					}
				}
			}
		})
	}
}

func pcieBDF(s *snapshot, i int) string { return string(s.Devices[i].GPU.BDF) }

// shares are the first shares of GPUs, shortened.
func shares(s *snapshot, gpus ...int) string {
	var out []string
	for _, i := range gpus {
		out = append(out, s.Devices[i].KubeletIDs[0])
	}
	return shortened(out)
}

// checkSubset checks what must hold of every answer.
func checkSubset(t *testing.T, got []string, ask preference) {
	t.Helper()
	seen := make(map[string]bool)
	for _, id := range got {
		if seen[id] || !slices.Contains(ask.available, id) && !slices.Contains(ask.must, id) {
			t.Errorf("%s is twice in the answer, or was not available", id)
		}
		seen[id] = true
	}
	if len(got) > max(ask.size, 0) {
		t.Errorf("%d IDs, want at most %d", len(got), ask.size)
	}
}

// Kubelet picks two shares of one GPU unless it is told better.
func TestC51PreferredAllocationFollowsTheGrants(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi300x-spx-8")
	cfg.KubeletDir = k.root()
	node := machineSnapshot(t, "mi300x-spx-8", registerDefaults)
	alloc := &stubAllocator{pending: func(resource string, sizes []int) pending {
		if resource != partition.ResourceGPU || !slices.Equal(sizes, []int{2}) {
			return pending{}
		}
		return pending{granted: [][]string{{node.Devices[5].ID, node.Devices[1].ID}}}
	}}
	startPlugin(t, cfg, alloc, nil)
	k.devices(partition.ResourceGPU, 80)
	ask := func(ids []string, sizes ...int32) []string {
		t.Helper()
		req := &pluginapi.PreferredAllocationRequest{}
		for _, size := range sizes {
			req.ContainerRequests = append(req.ContainerRequests, &pluginapi.ContainerPreferredAllocationRequest{AvailableDeviceIDs: ids, AllocationSize: size})
		}
		resp, err := k.client(partition.ResourceGPU).api.GetPreferredAllocation(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range resp.ContainerResponses {
			out = append(out, shortened(c.DeviceIDs))
		}
		return out
	}
	if diff := cmp.Diff([]string{"27#0 a7#0"}, ask(allIDs(node), 2)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"05#0"}, ask([]string{"0000:05:00.0#0", "nonsense"}, 2)); diff != "" {
		t.Errorf("an unknown ID:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"05#0", "05#1"}, ask(allIDs(node), 1, 1)); diff != "" {
		t.Errorf("two containers:\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), ask(nil)); diff != "" {
		t.Errorf("an empty request:\n%s", diff)
	}
}

// Any question gets a valid answer, as long as there is enough of what it asks.
func FuzzPrefer(f *testing.F) {
	nodes := []*snapshot{
		machineSnapshot(f, "mi210-8", registerDefaults),
		machineSnapshot(f, "mi355x-qpx-8", partition.RegisterOptions{Mode: partition.ModePartition}),
	}
	f.Add(uint64(1), 3, 1, 2, true)
	f.Add(uint64(7), 8, 0, 0, false)
	f.Add(uint64(9), -4, 9, 20, true)
	f.Fuzz(func(t *testing.T, seed uint64, size, must, granted int, spread bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		node := nodes[random.IntN(len(nodes))]
		ask := preference{resource: partition.ResourceGPU, size: size}
		if spread {
			ask.policy = PolicySpread
		}
		for _, id := range allIDs(node) {
			if random.IntN(3) > 0 {
				ask.available = append(ask.available, id)
			}
		}
		random.Shuffle(len(ask.available), func(i, j int) { ask.available[i], ask.available[j] = ask.available[j], ask.available[i] })
		ask.must = ask.available[:min(max(must, 0), len(ask.available))]
		ask.held = make(map[string]bool)
		free := len(ask.available)
		for i, id := range ask.available {
			if random.IntN(8) == 0 {
				ask.held[id] = true
				if i >= len(ask.must) {
					free--
				}
			}
		}
		for range min(max(granted, 0), 20) {
			ask.granted = append(ask.granted, node.Devices[random.IntN(len(node.Devices))].ID)
		}
		got := prefer(node, ask)
		checkSubset(t, got, ask)
		if size <= 0 || len(ask.must) > size {
			return
		}
		if most, least := min(size, len(ask.available)), min(size, free); len(got) < least || len(got) > most {
			t.Errorf("%d IDs of %d available, %d of them free, want %d to %d", len(got), len(ask.available), free, least, most)
		}
		grants := make(map[string]int)
		for _, id := range ask.granted {
			grants[id]++
		}
		for _, id := range got {
			if d, _ := node.ByKubeletID(id); ask.held[id] && !slices.Contains(ask.must, id) {
				if grants[d.ID]--; grants[d.ID] < 0 {
					t.Errorf("%s is a live pod's and serves no grant", id)
				}
			}
		}
		for _, id := range ask.must {
			if !slices.Contains(got, id) {
				t.Errorf("%s must be included", id)
			}
		}
	})
}

// 8 of the 640 shares of 64 GPUs, and of 64 partitions; at most 5 ms.
func BenchmarkPrefer(b *testing.B) {
	shares, parts := manyGPUs(b, 64), machineSnapshot(b, "mi300x-cpx-8", partition.RegisterOptions{Mode: partition.ModePartition})
	for _, policy := range []AllocatorPolicy{PolicyBestEffort, PolicySpread} {
		for name, node := range map[string]*snapshot{"640 shares": shares, "64 partitions": parts} {
			b.Run(fmt.Sprintf("8 of %s, %s", name, policy), func(b *testing.B) {
				ask := preference{resource: partition.ResourceGPU, policy: policy, size: 8, available: allIDs(node)}
				b.ReportAllocs()
				for b.Loop() {
					if got := prefer(node, ask); len(got) != 8 {
						b.Fatal(got)
					}
				}
			})
		}
	}
}
