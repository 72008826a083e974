package allocate_test

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/partition"
)

const uid = "6c1a0f4e-0000-4000-8000-000000000001"

// gpu is a soft device as partition registers it, with one KFD node.
type gpu struct {
	id       string
	rocr     uint64 // KFD unique_id
	rank     int    // place in KFD order
	cus      int
	xccs     int
	wgp      int
	memory   int32
	card     int
	renderer int
}

func (g gpu) registered() partition.Registered {
	geometry := cumask.Geometry{CUs: g.cus, XCCs: g.xccs, CUsPerWGP: g.wgp}
	card := g.card
	return partition.Registered{
		Device: annotations.Device{
			ID: g.id, Index: uint(g.rank), Count: 10, Devmem: g.memory, Devcore: int32(g.cus),
			Type: "AMD Instinct MI300X", Health: true,
			CustomInfo: annotations.CustomInfo{NumXCC: g.xccs, CUsPerWGP: g.wgp},
		},
		GPU:       &partition.GPU{Card: &card},
		Partition: -1,
		Nodes:     []partition.Node{{Rank: g.rank, UniqueID: g.rocr, RenderMinor: g.renderer, Geometry: geometry}},
		Resource:  "amd.com/gpu",
	}
}

// mi300x is the n-th MI300X of a node: devices "A", "B", ...
func mi300x(n int) gpu {
	return gpu{
		id: string(rune('A' + n)), rocr: 0xa0 + uint64(n), rank: n, cus: 304, xccs: 8,
		memory: 196608, card: 1 + 8*n, renderer: 128 + 8*n,
	}
}

func node(gpus ...gpu) allocate.Node {
	var n allocate.Node
	for _, g := range gpus {
		n.Devices = append(n.Devices, g.registered())
	}
	return n
}

func grant(id string, memory, cus int32) annotations.Grant {
	return annotations.Grant{UUID: id, Type: "AMD Instinct MI300X", MemoryMiB: memory, CUs: cus}
}

// pod is a pod with one asking app container for each list of grants.
func pod(grants ...[]annotations.Grant) allocate.Pod {
	p := allocate.Pod{UID: uid, Grants: grants}
	for i := range grants {
		p.Containers = append(p.Containers, allocate.PodContainer{Name: "c" + string(rune('1'+i)), Asks: true})
	}
	return p
}

func mustPlan(t *testing.T, p allocate.Pod, n allocate.Node) *allocate.Allocation {
	t.Helper()
	a, err := allocate.Plan(p, n)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	return a
}

func env(c allocate.Container) map[string]string {
	vars := make(map[string]string, len(c.Env))
	for _, v := range c.Env {
		vars[v.Name] = v.Value
	}
	return vars
}

// lists is the CU sets as their ID lists, which a diff can show.
func lists(sets map[string]cumask.Set) map[string]string {
	l := make(map[string]string, len(sets))
	for id, s := range sets {
		l[id] = s.String()
	}
	return l
}

func cus(t *testing.T, list string) cumask.Set {
	t.Helper()
	s, err := cumask.ParseSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sliceVariables are those that only a container with a slice may have.
var sliceVariables = []string{
	"HSA_CU_MASK", hook.LimitEnv, hook.LimitEnvPrefix + "0", hook.CacheEnv, hook.AuditEnv,
	hook.LogLevelEnv, hook.OversubscribeEnv,
}
