package allocate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/google/go-cmp/cmp"
)

// The tests in this file are named for the failure cases they guard against.

func TestC06SlotsFollowTheContainersThatAsk(t *testing.T) {
	prep := allocate.PodContainer{Name: "prep", Role: allocate.Init}
	side := allocate.PodContainer{Name: "side"}
	train := allocate.PodContainer{Name: "train"}
	asks := func(c allocate.PodContainer) allocate.PodContainer { c.Asks = true; return c }
	gpu := []annotations.Grant{grant("A", 8192, 76)}

	for name, tc := range map[string]struct {
		containers []allocate.PodContainer
		grants     annotations.PodGrants
		want       string
	}{
		"GPU on the last container":          {[]allocate.PodContainer{prep, side, asks(train)}, annotations.PodGrants{{}, {}, gpu}, "train"},
		"GPU on the init container":          {[]allocate.PodContainer{asks(prep), side, train}, annotations.PodGrants{gpu, {}, {}}, "prep"},
		"slots left out by an old scheduler": {[]allocate.PodContainer{prep, side, asks(train)}, annotations.PodGrants{gpu}, "train"},
		"a slot too many":                    {[]allocate.PodContainer{prep, side, asks(train)}, annotations.PodGrants{{}, {}, gpu, {}, {}}, "train"},
	} {
		t.Run(name, func(t *testing.T) {
			a := mustPlan(t, allocate.Pod{UID: uid, Containers: tc.containers, Grants: tc.grants}, node(mi300x(0)))
			for i, c := range a.Containers {
				if c.Name != tc.containers[i].Name {
					t.Errorf("container %d is %q, want the pod's order", i, c.Name)
				}
				if got, want := len(c.Devices), map[bool]int{true: 1}[c.Name == tc.want]; got != want {
					t.Errorf("container %q has %d devices, want %d", c.Name, got, want)
				}
			}
		})
	}
}

// The hook reads a limit of 0 as none, so no answer holds one.
func TestC12NoLimitOfZero(t *testing.T) {
	for name, g := range map[string]annotations.Grant{"with CUs": grant("A", 0, 76), "all CUs": grant("A", 0, 304), "without CUs": grant("A", 0, 0)} {
		if a, err := allocate.Plan(pod([]annotations.Grant{g}), node(mi300x(0))); a != nil || !errors.Is(err, allocate.ErrGrant) {
			t.Errorf("a grant of 0 MiB %s: %v, %v, want ErrGrant", name, a, err)
		}
	}
	// Of a GPU whose VRAM is unknown, 0 MiB are all there is: it is whole.
	unknown := mi300x(0)
	unknown.memory = 0
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 0, 304)}), node(unknown))
	vars := env(a.Containers[0])
	for _, name := range sliceVariables {
		if value, ok := vars[name]; ok {
			t.Errorf("%s=%s for a whole GPU of unknown size", name, value)
		}
	}
}

func TestC19MaskFollowsTheVisibilityOrder(t *testing.T) {
	small := gpu{id: "B", rocr: 0xb, rank: 1, cus: 38, xccs: 1, memory: 24576, card: 9, renderer: 129}
	big := mi300x(0)
	n := node(big, small)
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 99).Union(cumask.Range(176, 303))}
	a := mustPlan(t, pod([]annotations.Grant{grant("B", 8192, 38), grant("A", 8192, 76)}), n)

	got := env(a.Containers[0])
	want := map[string]string{
		"ROCR_VISIBLE_DEVICES":      "GPU-000000000000000b,GPU-00000000000000a0",
		"HIP_VISIBLE_DEVICES":       "0,1",
		"HSA_CU_MASK":               "0:0-37;1:100-175",
		"HIP_DEVICE_MEMORY_LIMIT":   "8192m",
		"HIP_DEVICE_MEMORY_LIMIT_0": "8192m",
		"HIP_DEVICE_MEMORY_LIMIT_1": "8192m",
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s=%q, want %q", name, got[name], want[name])
		}
	}
}

func TestC21TheBookedNumberIsTheMaskedNumber(t *testing.T) {
	rdna := gpu{id: "A", rocr: 1, cus: 60, wgp: 2, memory: 24560, renderer: 128}
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 4096, 3)}), node(rdna)) // 5 % of 60, by a scheduler without units
	set := a.CUs["A"]
	if set.Len() != 4 {
		t.Errorf("a grant of 3 CUs on WGPs of 2 became %d CUs (%s), want 4", set.Len(), set)
	}
	for cu := range set.All() {
		if !set.Has(cu ^ 1) {
			t.Errorf("CU %d of %s is half a WGP", cu, set)
		}
	}
	mask, err := cumask.ParseHSAMask(env(a.Containers[0])["HSA_CU_MASK"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cumask.DeviceMask{{Device: 0, CUs: set}}, mask, cmp.Comparer(equalSets)); diff != "" {
		t.Errorf("mask differs from what is booked (-booked +mask):\n%s", diff)
	}
	if len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "raised to 4") {
		t.Errorf("notes %q, want one about the raised grant", a.Notes)
	}
}

func equalSets(a, b cumask.Set) bool { return a == b }

// 1 % of an MI300X by a scheduler that does not know XCCs is 3 CUs: served and
// recorded as 8, one on each XCC, never as 0-2.
func TestC23EveryXCCOfASmallGrant(t *testing.T) {
	n := node(mi300x(0))
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 4096, 3)}), n)
	set := a.CUs["A"]
	for xcc, cus := range n.Devices[0].Geometry().Spread(set).PerXCC {
		if cus != 1 {
			t.Errorf("CUs %s: %d on XCC %d, want 1", set, cus, xcc)
		}
	}
	if got, want := env(a.Containers[0])["HSA_CU_MASK"], "0:"+set.String(); got != want || set.Len() != 8 {
		t.Errorf("HSA_CU_MASK=%s, %d CUs recorded as %s; want 8 in both", got, set.Len(), set)
	}
	if len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "raised to 8") {
		t.Errorf("notes %q, want one about the raised grant", a.Notes)
	}
	// Only XCC 0 has CUs left: refused, never 8 CUs that starve the others.
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 303)}
	for cu := 0; cu < 304; cu += 8 {
		n.Held["A"] = n.Held["A"].Minus(cumask.Of(cu))
	}
	if a, err := allocate.Plan(pod([]annotations.Grant{grant("A", 4096, 8)}), n); a != nil || !errors.Is(err, cumask.ErrInsufficient) {
		t.Errorf("8 CUs of XCC 0 alone: %v, %v, want ErrInsufficient", a, err)
	}
}

func TestC25ContainersOfOnePodAreDisjoint(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 16384, 76)}, []annotations.Grant{grant("A", 8192, 38)}), node(mi300x(0)))
	first, second := a.Containers[0].Devices[0].CUs, a.Containers[1].Devices[0].CUs
	if first.Len() != 76 || second.Len() != 38 || !first.Intersect(second).Empty() {
		t.Errorf("CUs %s and %s, want 76 and 38 that are disjoint", first, second)
	}
	if a.CUs["A"] != first.Union(second) {
		t.Errorf("the pod holds %s, want the union of %s and %s", a.CUs["A"], first, second)
	}
	for i, set := range []cumask.Set{first, second} {
		if got, want := env(a.Containers[i])["HSA_CU_MASK"], "0:"+set.String(); got != want {
			t.Errorf("container %d: HSA_CU_MASK=%s, want only its own %s", i, got, want)
		}
	}
}

func TestC25OtherPodsCUsAreAvoided(t *testing.T) {
	n := node(mi300x(0), mi300x(1))
	n.Held = map[string]cumask.Set{"A": cumask.Range(0, 100)} // the union of two claims that overlap
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 8192, 76), grant("B", 8192, 76)}), n)
	if clash := a.CUs["A"].Intersect(n.Held["A"]); !clash.Empty() {
		t.Errorf("CUs %s of A are held by other pods", clash)
	}
	if got := a.CUs["B"].String(); got != "0-75" {
		t.Errorf("CUs %s of B, want 0-75: nothing is held there", got)
	}
}

func TestC43WholeGPUGetsNoMaskAndNoHook(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 196608, 304)}), node(mi300x(0)))
	c := a.Containers[0]
	vars := env(c)
	for _, name := range sliceVariables {
		if value, ok := vars[name]; ok {
			t.Errorf("%s=%s in a container with a whole GPU", name, value)
		}
	}
	if len(c.Mounts) > 0 {
		t.Errorf("mounts %v for a whole GPU", c.Mounts)
	}
	if got := a.CUs["A"].String(); got != "0-303" {
		t.Errorf("recorded CUs %s, want all of the GPU", got)
	}
}

func TestC43SliceGetsTheHook(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 98304, 304)}), node(mi300x(0)))
	vars := env(a.Containers[0])
	if vars["LD_AUDIT"] != "/usr/local/vgpu/libamvgpu.so" || vars["HIP_DEVICE_MEMORY_LIMIT"] != "98304m" {
		t.Errorf("environment %v, want the hook and its limit", vars)
	}
	if len(a.Containers[0].Mounts) != 2 {
		t.Errorf("mounts %v, want the hook and its directory", a.Containers[0].Mounts)
	}
}

func TestC47EachContainerGetsItsOwnSettings(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("A", 16384, 76)}, []annotations.Grant{grant("A", 8192, 38)}), node(mi300x(0)))
	if got := env(a.Containers[0])["HIP_DEVICE_MEMORY_LIMIT"]; got != "16384m" {
		t.Errorf("first container: limit %s, want 16384m", got)
	}
	if got := env(a.Containers[1])["HIP_DEVICE_MEMORY_LIMIT"]; got != "8192m" {
		t.Errorf("second container: limit %s, want 8192m", got)
	}
	if got := lists(a.CUs)["A"]; got != "0-113" {
		t.Errorf("pod holds %s, want 0-113", got)
	}
	one, two := a.Containers[0].Mounts[1].HostPath, a.Containers[1].Mounts[1].HostPath
	if one == two {
		t.Errorf("both containers mount %s", one)
	}
}

func TestC47NothingIsPlannedIfOneContainerFails(t *testing.T) {
	a, err := allocate.Plan(pod([]annotations.Grant{grant("A", 16384, 76)}, []annotations.Grant{grant("Z", 8192, 38)}), node(mi300x(0)))
	if a != nil || err == nil || !strings.Contains(err.Error(), `container "c2"`) || !strings.Contains(err.Error(), `"Z"`) {
		t.Errorf("got %v, %v, want only an error that names container and device", a, err)
	}
}

func TestC51DevicesFollowTheGrant(t *testing.T) {
	a := mustPlan(t, pod([]annotations.Grant{grant("C", 8192, 38), grant("A", 8192, 38)}), node(mi300x(0), mi300x(1), mi300x(2)))
	var paths []string
	for _, n := range a.Containers[0].DeviceNodes {
		if n.Permissions != "rw" {
			t.Errorf("%s has permissions %q, want rw", n.Path, n.Permissions)
		}
		paths = append(paths, n.Path)
	}
	want := []string{"/dev/kfd", "/dev/dri/card17", "/dev/dri/renderD144", "/dev/dri/card1", "/dev/dri/renderD128"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"amd.com/gpu=card17", "amd.com/gpu=card1"}, a.Containers[0].CDIDevices); diff != "" {
		t.Errorf("CDI devices (-want +got):\n%s", diff)
	}
}

func TestC52AskedAgainTheAnswerIsTheSame(t *testing.T) {
	p := allocate.Pod{
		UID: uid,
		Containers: []allocate.PodContainer{
			{Name: "prep", Role: allocate.Init, Asks: true},
			{Name: "proxy", Role: allocate.Sidecar, Asks: true},
			{Name: "train", Asks: true},
			{Name: "eval", Asks: true},
		},
		Grants: annotations.PodGrants{
			{grant("A", 4096, 200)}, {grant("A", 4096, 16)}, {grant("A", 8192, 76), grant("B", 8192, 76)}, {grant("A", 8192, 38)},
		},
	}
	n := node(mi300x(0), mi300x(1))
	n.Held = map[string]cumask.Set{"A": cumask.Range(10, 40), "B": cumask.Range(0, 150)}
	first := mustPlan(t, p, n)

	ids := map[string][]string{"prep": {"a#0"}, "proxy": {"a#1"}, "train": {"a#2", "b#0"}, "eval": {"a#3"}}
	for served := range len(p.Containers) + 1 {
		// The plugin restarts after it has served some of the containers, and
		// meanwhile the other pods' CUs became free.
		some := map[string][]string{}
		for _, c := range p.Containers[:served] {
			some[c.Name] = ids[c.Name]
		}
		p.Recorded = allocate.Recorded{CUs: first.CUs, Containers: first.ContainerCUs(some)}
		for name, held := range map[string]map[string]cumask.Set{"busy": n.Held, "idle": nil} {
			n := n
			n.Held = held
			again := mustPlan(t, p, n)
			if diff := cmp.Diff(lists(first.CUs), lists(again.CUs)); diff != "" {
				t.Errorf("%d served, %s node: the pod's CUs changed (-before +after):\n%s", served, name, diff)
			}
			for i := range served {
				if diff := cmp.Diff(first.Containers[i], again.Containers[i], cmp.Comparer(equalSets)); diff != "" {
					t.Errorf("%d served, %s node: container %q changed (-before +after):\n%s", served, name, p.Containers[i].Name, diff)
				}
			}
		}
	}
}

func TestC52ForeignRecordWithoutContainers(t *testing.T) {
	p := pod([]annotations.Grant{grant("A", 16384, 76)})
	p.Recorded.CUs = map[string]cumask.Set{"A": cumask.Range(100, 175)} // written by the peer's plugin
	if got := lists(mustPlan(t, p, node(mi300x(0))).CUs)["A"]; got != "100-175" {
		t.Errorf("the pod's CUs moved to %s, want the recorded 100-175", got)
	}
}
