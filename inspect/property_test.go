package inspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// Whatever CUs two pods of one GPU claim, what is found is what a look at the
// plain lists finds.
func TestMasksAgainstPlainLists(t *testing.T) {
	const cus, xccs = 16, 4
	device := gpu("G0", 0)
	device.Devcore, device.CustomInfo.NumXCC = cus, xccs
	node := nodeOf(t, "n1", device)
	random := rand.New(rand.NewPCG(7, 7))
	seen := map[Code]int{}
	for range 3000 {
		var pods []*corev1.Pod
		var claims [2][]int
		granted := [2]int{4 + random.IntN(4), 4 + random.IntN(4)}
		for i, name := range []string{"a", "b"} {
			perm := random.Perm(cus + 2) // some beyond the device
			claims[i] = perm[:max(1, granted[i]-1+random.IntN(3))]
			slices.Sort(claims[i])
			pod := holds(name, "n1", "G0", 100, granted[i])
			pod.Labels = map[string]string{annotations.VGPUNodeKey: "n1"}
			pod.Annotations[annotations.CUAllocatedKey] = fmt.Sprintf(`{"G0":"%s"}`, list(claims[i]))
			pods = append(pods, pod)
		}
		want := map[Code]int{}
		var good [2]bool
		for i, claim := range claims {
			good[i] = true
			switch {
			case claim[len(claim)-1] >= cus:
				want[MaskBeyondDevice]++
				good[i] = false
			case len(claim) != granted[i]:
				want[MaskSizeDiffers]++
				good[i] = len(claim) < granted[i]
			case starved(claim, xccs):
				want[MaskStarvesXCC]++
			}
		}
		if good[0] && good[1] && slices.ContainsFunc(claims[0], func(cu int) bool { return slices.Contains(claims[1], cu) }) {
			want[MaskOverlap]++
		}
		got := map[Code]int{}
		for p := range New([]*corev1.Node{node}, pods, Options{Now: noon}).All() {
			got[p.Code]++
			seen[p.Code]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("claims %v of %v granted (-want +got):\n%s", claims, granted, diff)
		}
	}
	if len(seen) != 4 {
		t.Errorf("kinds that came up: %v", seen)
	}
}

// starved reports whether an XCC has none of the CUs: CU i is on XCC i mod xccs.
func starved(cus []int, xccs int) bool {
	on := make([]int, xccs)
	for _, cu := range cus {
		on[cu%xccs]++
	}
	return slices.Contains(on, 0)
}

func list(cus []int) string {
	text := ""
	for i, cu := range cus {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(cu)
	}
	return text
}
