package allocate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/google/go-cmp/cmp"
)

func TestMemoryOnlySliceIsNotMasked(t *testing.T) {
	n := node(mi300x(0))
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 303)} // slices without memory-only hold every CU
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 16384, 0)}), n)
	vars := env(a.Containers[0])
	if mask, ok := vars["HSA_CU_MASK"]; ok {
		t.Errorf("HSA_CU_MASK=%s for a slice without CUs", mask)
	}
	if vars["HIP_DEVICE_MEMORY_LIMIT_0"] != "16384m" {
		t.Errorf("environment %v, want the memory limit", vars)
	}
	if len(a.CUs) > 0 {
		t.Errorf("the pod holds %v, want no CUs", lists(a.CUs))
	}
}

func TestUnmaskedDevicesAreLeftOutOfTheMask(t *testing.T) {
	small := gpu{id: "S", rocr: 0x5, rank: 2, cus: 304, xccs: 8, memory: 98304, card: 33, renderer: 160}
	// One request for 98304 MiB and all CUs: all of S, a slice of A.
	a := mustPlan(t, pod([]annotations.Grant{grant("S", 98304, 304), grant("A", 98304, 304)}), node(mi300x(0), small))
	vars := env(a.Containers[0])
	if got := vars["HSA_CU_MASK"]; got != "1:0-303" {
		t.Errorf("HSA_CU_MASK=%s, want only the slice, device 1", got)
	}
	if _, ok := vars["HIP_DEVICE_MEMORY_LIMIT"]; ok || vars["HIP_DEVICE_MEMORY_LIMIT_1"] != "98304m" {
		t.Errorf("environment %v, want a limit for device 1 alone", vars)
	}
}

func TestVisibilityByIndexWhereNamesDoNotTellApart(t *testing.T) {
	a, b, c := mi300x(0), mi300x(1), mi300x(2)
	for name, tc := range map[string]struct {
		grants []annotations.Grant
		edit   func(a, b, c *gpu)
		want   string
	}{
		"names":                    {[]annotations.Grant{grant("C", 8192, 38), grant("A", 8192, 38)}, func(a, b, c *gpu) {}, "GPU-00000000000000a2,GPU-00000000000000a0"},
		"no unique id":             {[]annotations.Grant{grant("C", 8192, 38), grant("A", 8192, 38)}, func(a, b, c *gpu) { a.rocr = 0 }, "1,0"},
		"shared unique id":         {[]annotations.Grant{grant("B", 8192, 38), grant("C", 8192, 38), grant("A", 8192, 38)}, func(a, b, c *gpu) { b.rocr = c.rocr }, "1,2,0"},
		"shared with a GPU not in": {[]annotations.Grant{grant("B", 8192, 38)}, func(a, b, c *gpu) { b.rocr = c.rocr }, "GPU-00000000000000a2"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := a, b, c
			tc.edit(&a, &b, &c)
			plan := mustPlan(t, pod(tc.grants), node(a, b, c))
			if got := env(plan.Containers[0])["ROCR_VISIBLE_DEVICES"]; got != tc.want {
				t.Errorf("ROCR_VISIBLE_DEVICES=%s, want %s", got, tc.want)
			}
		})
	}
}

// hardQPX is a GPU in QPX whose four partitions share one render node, as
// kernel 6.8.0-136 shows it: it registers as one hard device.
func hardQPX() partition.Registered {
	r := gpu{id: "Q", rank: 0, cus: 256, xccs: 8, memory: 294896, card: 1, renderer: 128}.registered()
	r.Hard, r.Mode = true, "qpx"
	n := r.Nodes[0]
	r.Nodes = nil
	for k := range 4 {
		n.Rank, n.Partition, n.UniqueID = k, k, 0x75
		n.Geometry = cumask.Geometry{CUs: 64, XCCs: 2}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

func TestHardDeviceIsWholeWhateverTheGrantSays(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("Q", 8192, 64)}), allocate.Node{Devices: []partition.Registered{hardQPX()}})
	c := a.Containers[0]
	want := map[string]string{"ROCR_VISIBLE_DEVICES": "0,1,2,3", "HIP_VISIBLE_DEVICES": "0,1,2,3"}
	if diff := cmp.Diff(want, env(c)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	nodes := []allocate.DeviceNode{{"/dev/kfd", "rw"}, {"/dev/dri/card1", "rw"}, {"/dev/dri/renderD128", "rw"}}
	if diff := cmp.Diff(nodes, c.DeviceNodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	if got := a.CUs["Q"].String(); got != "0-255" {
		t.Errorf("recorded CUs %s, want all", got)
	}
}

func TestHardDeviceServesOneContainerAtATime(t *testing.T) {
	both := pod([]annotations.Grant{grant("Q", 8192, 64)}, []annotations.Grant{grant("Q", 8192, 64)})
	hard := allocate.Node{Devices: []partition.Registered{hardQPX()}}
	if _, err := allocate.Plan(both, hard); !errors.Is(err, allocate.ErrGrant) {
		t.Errorf("two app containers on one partition: %v, want ErrGrant", err)
	}
	both.Containers[0].Role = allocate.Init
	if _, err := allocate.Plan(both, hard); err != nil {
		t.Errorf("init container, then app container on one partition: %v", err)
	}
}

func TestWholeWithoutGrants(t *testing.T) {
	c, err := allocate.Whole("c1", []partition.Registered{mi300x(1).registered(), mi300x(0).registered()})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ROCR_VISIBLE_DEVICES": "GPU-00000000000000a1,GPU-00000000000000a0", "HIP_VISIBLE_DEVICES": "0,1"}
	if diff := cmp.Diff(want, env(c)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if len(c.Mounts) > 0 || len(c.DeviceNodes) != 5 {
		t.Errorf("mounts %v, device nodes %v, want none and five", c.Mounts, c.DeviceNodes)
	}
}

func TestHookSettings(t *testing.T) {
	n := node(mi300x(0))
	n.HookPath, n.HookLogLevel, n.MemoryScaling = "/var/lib/hami", 3, 1.5
	p := pod([]annotations.Grant{grant("A", 16384, 76)})
	p.Containers[0].Env = []allocate.SpecEnv{{Name: "LD_AUDIT", Value: "/opt/trace.so:" + hook.ContainerLibrary}}
	c := mustPlan(t, p, n).Containers[0]
	vars := env(c)
	for name, want := range map[string]string{
		hook.LogLevelEnv: "3", hook.OversubscribeEnv: "true", hook.AuditEnv: "/opt/trace.so:" + hook.ContainerLibrary,
		hook.CacheEnv: hook.ContainerCache,
	} {
		if vars[name] != want {
			t.Errorf("%s=%q, want %q", name, vars[name], want)
		}
	}
	mounts := []hook.Mount{
		{HostPath: "/var/lib/hami/vgpu/libamvgpu.so", ContainerPath: hook.ContainerLibrary, ReadOnly: true},
		{HostPath: "/var/lib/hami/vgpu/containers/" + uid + "_c1", ContainerPath: hook.ContainerCacheDir},
	}
	if diff := cmp.Diff(mounts, c.Mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}

	p.Containers[0].HookLeftOut = true
	c = mustPlan(t, p, n).Containers[0]
	if _, ok := env(c)[hook.AuditEnv]; ok || len(c.Mounts) > 0 {
		t.Errorf("hook left out, but environment %v and mounts %v", env(c), c.Mounts)
	}
}

func TestNoScalingIsNoOversubscription(t *testing.T) {
	for _, scaling := range []float64{0, 0.5, 1} {
		n := node(mi300x(0))
		n.MemoryScaling = scaling
		if value, ok := env(mustPlan(t, pod([]annotations.Grant{grant("A", 16384, 76)}), n).Containers[0])[hook.OversubscribeEnv]; ok {
			t.Errorf("scaling %v: %s=%s", scaling, hook.OversubscribeEnv, value)
		}
	}
}

func TestSpecThatOverridesTheLimitsIsRefused(t *testing.T) {
	slice := []annotations.Grant{grant("A", 16384, 76)}
	whole := []annotations.Grant{grant("A", 196608, 304)}
	for name, tc := range map[string]struct {
		edit    func(*allocate.PodContainer)
		grants  []annotations.Grant
		strict  bool
		refused bool
		note    string
	}{
		"own variables":           {edit: func(c *allocate.PodContainer) { c.Env = []allocate.SpecEnv{{Name: "MODEL", Value: "x"}} }},
		"mask":                    {edit: setEnv("HSA_CU_MASK", "0:0-303"), refused: true},
		"mask skipped":            {edit: setEnv("HSA_CU_MASK_SKIP_INIT", "1"), refused: true},
		"limit of a later device": {edit: setEnv("HIP_DEVICE_MEMORY_LIMIT_7", "1g"), refused: true},
		"visibility":              {edit: setEnv("CUDA_VISIBLE_DEVICES", "0"), refused: true},
		"visibility from a field": {edit: func(c *allocate.PodContainer) {
			c.Env = []allocate.SpecEnv{{Name: "ROCR_VISIBLE_DEVICES", Ref: true}}
		}, refused: true},
		"audit without the hook": {edit: setEnv("LD_AUDIT", "/opt/trace.so"), refused: true},
		"audit emptied":          {edit: setEnv("LD_AUDIT", ""), refused: true},
		"audit from a secret": {edit: func(c *allocate.PodContainer) {
			c.Env = []allocate.SpecEnv{{Name: "LD_AUDIT", Ref: true}}
		}, refused: true},
		"the last audit counts": {edit: func(c *allocate.PodContainer) {
			c.Env = []allocate.SpecEnv{{Name: "LD_AUDIT", Value: hook.ContainerLibrary}, {Name: "LD_AUDIT", Value: "/opt/trace.so"}}
		}, refused: true},
		"audit without the hook where the hook is left out": {edit: func(c *allocate.PodContainer) {
			c.Env, c.HookLeftOut = []allocate.SpecEnv{{Name: "LD_AUDIT", Value: "/opt/trace.so"}}, true
		}},
		"envFrom":                   {edit: func(c *allocate.PodContainer) { c.EnvFrom = true }, note: "envFrom"},
		"envFrom in strict mode":    {edit: func(c *allocate.PodContainer) { c.EnvFrom = true }, strict: true, refused: true},
		"whole GPU with a mask":     {edit: setEnv("HSA_CU_MASK", "0:0-7"), grants: whole},
		"whole GPU, strict envFrom": {edit: func(c *allocate.PodContainer) { c.EnvFrom = true }, grants: whole, strict: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.grants == nil {
				tc.grants = slice
			}
			p, n := pod(tc.grants), node(mi300x(0))
			n.Strict = tc.strict
			tc.edit(&p.Containers[0])
			a, err := allocate.Plan(p, n)
			if tc.refused {
				if !errors.Is(err, allocate.ErrEnvOverride) || a != nil {
					t.Fatalf("got %v, %v, want ErrEnvOverride", a, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(a.Notes, "\n"); tc.note == "" && got != "" || !strings.Contains(got, tc.note) {
				t.Errorf("notes %q, want %q", got, tc.note)
			}
		})
	}
}

func setEnv(name, value string) func(*allocate.PodContainer) {
	return func(c *allocate.PodContainer) { c.Env = []allocate.SpecEnv{{Name: name, Value: value}} }
}

func TestGrantsBelowTheUnit(t *testing.T) {
	n := node(mi300x(0))
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 1024, 3)}), n)
	if got := a.CUs["A"].Len(); got != 8 {
		t.Errorf("3 CUs on 8 XCCs became %d, want 8", got)
	}
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 296)} // 7 free, enough for the grant as written
	if _, err := allocate.Plan(pod([]annotations.Grant{grant("A", 1024, 3)}), n); !errors.Is(err, cumask.ErrInsufficient) {
		t.Errorf("3 CUs where 7 are free: %v, want ErrInsufficient", err)
	}
}

func TestRefusedGrants(t *testing.T) {
	soft := hardQPX()
	soft.Hard, soft.Mode = false, "" // cu mode: registered unhealthy
	for name, tc := range map[string]struct {
		pod  allocate.Pod
		node allocate.Node
		want error
	}{
		"unknown device":            {pod([]annotations.Grant{grant("Z", 1024, 38)}), node(mi300x(0)), allocate.ErrUnknownDevice},
		"more CUs than there are":   {pod([]annotations.Grant{grant("A", 1024, 305)}), node(mi300x(0)), allocate.ErrGrant},
		"more memory than there is": {pod([]annotations.Grant{grant("A", 196609, 38)}), node(mi300x(0)), allocate.ErrGrant},
		"negative CUs":              {pod([]annotations.Grant{grant("A", 1024, -1)}), node(mi300x(0)), allocate.ErrGrant},
		"negative memory":           {pod([]annotations.Grant{grant("A", -1, 38)}), node(mi300x(0)), allocate.ErrGrant},
		"no memory":                 {pod([]annotations.Grant{grant("A", 0, 38)}), node(mi300x(0)), allocate.ErrGrant},
		"nothing at all":            {pod([]annotations.Grant{grant("A", 0, 0)}), node(mi300x(0)), allocate.ErrGrant},
		"device twice in one container": {
			pod([]annotations.Grant{grant("A", 1024, 38), grant("A", 1024, 38)}), node(mi300x(0)), allocate.ErrGrant,
		},
		"memory beyond the device in sum": {
			pod([]annotations.Grant{grant("A", 100000, 38)}, []annotations.Grant{grant("A", 100000, 38)}), node(mi300x(0)), allocate.ErrGrant,
		},
		"whole beside a slice": {
			pod([]annotations.Grant{grant("A", 196608, 304)}, []annotations.Grant{grant("A", 1, 0)}), node(mi300x(0)), allocate.ErrGrant,
		},
		"slice of a partitioned GPU":      {pod([]annotations.Grant{grant("Q", 1024, 64)}), allocate.Node{Devices: []partition.Registered{soft}}, allocate.ErrGrant},
		"whole while others hold a slice": {pod([]annotations.Grant{grant("A", 196608, 304)}), held(node(mi300x(0)), "A", 5, 5), cumask.ErrInsufficient},
		"no CUs left":                     {pod([]annotations.Grant{grant("A", 1024, 76)}), held(node(mi300x(0)), "A", 0, 250), cumask.ErrInsufficient},
		"grants for fewer containers":     {allocate.Pod{UID: uid, Containers: []allocate.PodContainer{{Name: "a", Asks: true}}}, node(mi300x(0)), nil},
		"grants for more containers":      {allocate.Pod{UID: uid, Grants: annotations.PodGrants{{grant("A", 1024, 38)}}}, node(mi300x(0)), nil},
		"pod uid that is a path": {
			allocate.Pod{UID: "../../etc", Containers: []allocate.PodContainer{{Name: "a", Asks: true}}, Grants: annotations.PodGrants{{grant("A", 1024, 38)}}},
			node(mi300x(0)), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := allocate.Plan(tc.pod, tc.node)
			if a != nil || err == nil {
				t.Fatalf("got %+v, %v, want an error alone", a, err)
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("error %q, want one that is %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has several lines: %q", err)
			}
		})
	}
}

func held(n allocate.Node, id string, lo, hi int) allocate.Node {
	n.Held = map[string]cumask.Set{id: cumask.Range(lo, hi)}
	return n
}

func TestPodWithoutGPUsGetsNothing(t *testing.T) {
	a := mustPlan(t, allocate.Pod{Containers: []allocate.PodContainer{{Name: "web"}}, Grants: annotations.PodGrants{{}}}, node(mi300x(0)))
	want := &allocate.Allocation{Containers: []allocate.Container{{Name: "web"}}, CUs: map[string]cumask.Set{}}
	if diff := cmp.Diff(want, a, cmp.Comparer(equalSets)); diff != "" {
		t.Errorf("allocation (-want +got):\n%s", diff)
	}
}

func TestShaderEnginesAreBalanced(t *testing.T) {
	r := gpu{id: "A", rocr: 1, cus: 104, memory: 65520, renderer: 128}.registered()
	r.Nodes[0].Geometry.SEsPerXCC = 8 // as on MI210: CU i is on shader engine i mod 8
	r.Nodes[0].Geometry.SAsPerSE, r.Nodes[0].Geometry.CUsPerSA = 1, 14
	n := allocate.Node{Devices: []partition.Registered{r}}
	free := cumask.Set{} // low CUs on the first four engines, high CUs on the others
	for k := range 6 {
		free = free.Union(cumask.Range(8*k, 8*k+3)).Union(cumask.Range(8*(k+6)+4, 8*(k+6)+7))
	}
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 103).Minus(free)}
	set := mustPlan(t, pod([]annotations.Grant{grant("A", 1024, 16)}), n).CUs["A"]
	for se, count := range r.Nodes[0].Geometry.Spread(set).PerSE[0] {
		if count != 2 {
			t.Errorf("CUs %s: %d on shader engine %d, want 2 on each", set, count, se)
		}
	}
}

func TestUnknownCard(t *testing.T) {
	r := mi300x(0).registered()
	r.GPU.Card = nil
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 1024, 38)}), allocate.Node{Devices: []partition.Registered{r}})
	nodes := []allocate.DeviceNode{{"/dev/kfd", "rw"}, {"/dev/dri/renderD128", "rw"}}
	if diff := cmp.Diff(nodes, a.Containers[0].DeviceNodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	if len(a.Containers[0].CDIDevices) > 0 {
		t.Errorf("CDI devices %v for a GPU without a card", a.Containers[0].CDIDevices)
	}
}

func TestRecordedThatContradictsIsRefused(t *testing.T) {
	p := pod([]annotations.Grant{grant("A", 16384, 76)}, []annotations.Grant{grant("A", 8192, 38)})
	record := func(one, two string) allocate.Recorded {
		r := allocate.Recorded{CUs: map[string]cumask.Set{}, Containers: map[string]annotations.ContainerCUs{}}
		for name, list := range map[string]string{"c1": one, "c2": two} {
			if list != "" {
				set := cus(t, list)
				r.CUs["A"] = r.CUs["A"].Union(set)
				r.Containers[name] = annotations.ContainerCUs{IDs: []string{"a#0"}, CUs: map[string]cumask.Set{"A": set}}
			}
		}
		return r
	}
	for name, tc := range map[string]struct {
		recorded allocate.Recorded
		node     allocate.Node
		names    string // what the error has to name
	}{
		"size differs":          {record("0-75", "76-100"), node(mi300x(0)), `"c2"`},
		"containers overlap":    {record("0-75", "70-107"), node(mi300x(0)), "CU 70"},
		"another pod holds one": {record("0-75", "76-113"), held(node(mi300x(0)), "A", 110, 120), "CU 110"},
		"beyond the GPU":        {record("0-75", "280-317"), node(mi300x(0)), `"c2"`},
		"an XCC is empty":       {allocate.Recorded{Containers: map[string]annotations.ContainerCUs{"c2": {CUs: map[string]cumask.Set{"A": oneXCC()}}}}, node(mi300x(0)), "xcc"},
		"a container recorded on another device": {
			allocate.Recorded{Containers: map[string]annotations.ContainerCUs{"c1": {CUs: map[string]cumask.Set{"B": cumask.Range(0, 75)}}}},
			node(mi300x(0)), `"c1"`,
		},
		"only a part is recorded": {allocate.Recorded{CUs: map[string]cumask.Set{"A": cumask.Range(0, 75)}}, node(mi300x(0)), "76 CUs recorded"},
		"more is recorded":        {allocate.Recorded{CUs: map[string]cumask.Set{"A": cumask.Range(0, 151)}}, node(mi300x(0)), "152 CUs recorded"},
		"recorded union is another pod's": {
			allocate.Recorded{CUs: map[string]cumask.Set{"A": cumask.Range(0, 113)}}, held(node(mi300x(0)), "A", 113, 113), "CU 113",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.Recorded = tc.recorded
			a, err := allocate.Plan(p, tc.node)
			if !errors.Is(err, allocate.ErrRecorded) || a != nil {
				t.Fatalf("got %+v, %v, want ErrRecorded", a, err)
			}
			if !strings.Contains(err.Error(), tc.names) {
				t.Errorf("error %q does not name %s", err, tc.names)
			}
		})
	}
}

func TestRecordedOutOfOrderIsRefused(t *testing.T) {
	p := allocate.Pod{
		UID:        uid,
		Containers: []allocate.PodContainer{{Name: "proxy", Role: allocate.Sidecar, Asks: true}, {Name: "prep", Role: allocate.Init, Asks: true}},
		Grants:     annotations.PodGrants{{grant("A", 1024, 8)}, {grant("A", 1024, 8)}},
		Recorded: allocate.Recorded{Containers: map[string]annotations.ContainerCUs{
			"prep": {IDs: []string{"a#0"}, CUs: map[string]cumask.Set{"A": cumask.Range(0, 7)}},
		}},
	}
	if _, err := allocate.Plan(p, node(mi300x(0))); !errors.Is(err, allocate.ErrRecorded) || !strings.Contains(err.Error(), `"proxy"`) {
		t.Errorf("an init container recorded before the sidecar it runs beside: %v, want ErrRecorded", err)
	}
}

// oneXCC is 38 CUs that are all on XCC 0 of 8.
func oneXCC() cumask.Set {
	var s cumask.Set
	for i := range 38 {
		s = s.Union(cumask.Of(8 * i))
	}
	return s
}
