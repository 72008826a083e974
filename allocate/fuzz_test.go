package allocate_test

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// FuzzPlan plans what an attacker can write into a pod's annotations: whatever
// they say, nobody else's CUs are handed out, no CU twice at a time, and no
// more CUs than were granted or the unit requires.
func FuzzPlan(f *testing.F) {
	f.Add("A,AMD X,1024,76:;A,AMD X,1024,38:;", "", "", uint8(0))
	f.Add("A,AMD X,1024,3:B,AMD X,1024,3:;", `{"A":"0-7","B":"8-15"}`, "", uint8(1))
	f.Add("A,AMD X,1024,8:;A,AMD X,1024,16:;Q,AMD X,1,1:;", `{"A":"0-15"}`, `{"c0":{"ids":["a#0"],"cus":{"A":"0-7"}}}`, uint8(7))
	f.Add("A,AMD X,196608,304:;", `{"A":"0-303"}`, `{"c0":{"ids":["a#0"],"cus":{"A":"0-303"}}}`, uint8(2))
	held := map[string]cumask.Set{"A": cumask.Range(100, 203), "B": cumask.Range(0, 7)}
	devices := []partition.Registered{mi300x(0).registered(), mi300x(1).registered(), hardQPX()}

	f.Fuzz(func(t *testing.T, grants, union, containers string, roles uint8) {
		p := allocate.Pod{UID: uid}
		var err error
		if p.Grants, err = annotations.DecodePod(grants); err != nil || len(p.Grants) > 8 {
			return
		}
		if p.Recorded.CUs, err = annotations.DecodeCUs(union); union != "" && err != nil {
			return
		}
		if p.Recorded.Containers, err = annotations.DecodeContainerCUs(containers); containers != "" && err != nil {
			return
		}
		for i, g := range p.Grants {
			role := allocate.Role(roles >> (2 * (i % 4)) & 3 % 3)
			p.Containers = append(p.Containers, allocate.PodContainer{Name: "c" + string(rune('0'+i)), Asks: len(g) > 0, Role: role})
		}
		a, err := allocate.Plan(p, allocate.Node{Devices: devices, Held: held})
		if (a == nil) == (err == nil) {
			t.Fatalf("plan %v and error %v, want one of them", a, err)
		}
		if err != nil {
			return
		}
		for id, cus := range a.CUs {
			if clash := cus.Intersect(held[id]); !clash.Empty() {
				t.Errorf("device %s: CUs %s of other pods", id, clash)
			}
		}
		for _, group := range atOnce(p) {
			used := map[string]cumask.Set{}
			for _, i := range group {
				for id, cus := range a.Containers[i].CUs() {
					if clash := used[id].Intersect(cus); !clash.Empty() {
						t.Errorf("device %s: CUs %s handed out twice", id, clash)
					}
					used[id] = used[id].Union(cus)
				}
			}
		}
		for i, c := range a.Containers {
			for k, d := range c.Devices {
				if granted := int(p.Grants[i][k].CUs); !d.Whole && d.CUs.Len() > granted && d.CUs.Len() > 8 {
					t.Errorf("container %d: %d CUs for a grant of %d", i, d.CUs.Len(), granted)
				}
			}
		}
	})
}
