package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// What the containers of a pod have and what the pod has are written together,
// and only somebody else can have made them differ.
func TestVerifyContainersAgainstThePod(t *testing.T) {
	const containers = `{"main":{"ids":["0000:05:00.0#3"],"cus":{"G0":"0-7"}}}`
	for name, tc := range map[string]struct {
		cus, containers string // "" is no annotation
		want            []string
	}{
		"the same":        {`{"G0":"0-7"}`, containers, nil},
		"other CUs":       {`{"G0":"8-15"}`, containers, []string{`device "G0": annotation hami.io/amd-cu-allocated has CUs 8-15, hami.io/amd-cu-containers has 0-7`}},
		"left out":        {`{}`, containers, []string{`device "G0": annotation hami.io/amd-cu-containers has CUs 0-7, hami.io/amd-cu-allocated has none`}},
		"taken off":       {"", containers, []string{`device "G0": annotation hami.io/amd-cu-containers has CUs 0-7, hami.io/amd-cu-allocated has none`}},
		"the pod's alone": {`{"G0":"0-7"}`, "", nil},
		"an ID too many": {`{"G0":"0-7"}`, `{"main":{"ids":["0000:05:00.0#3","0000:05:00.0#4"],"cus":{"G0":"0-7"}}}`,
			[]string{`annotation hami.io/amd-cu-containers has 2 device IDs of kubelet's for 1 device`}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := holds("p", "n1", "G0", 500, 8)
			pod.Labels = map[string]string{annotations.VGPUNodeKey: "n1"}
			if tc.cus != "" {
				pod.Annotations[annotations.CUAllocatedKey] = tc.cus
			}
			if tc.containers != "" {
				pod.Annotations[annotations.CUContainersKey] = tc.containers
			}
			var got []string
			for p := range New([]*corev1.Node{nodeOf(t, "n1", gpu("G0", 0))}, []*corev1.Pod{pod}, Options{Now: noon}).All() {
				if p.Code != ContainersDisagree {
					t.Errorf("found %v", p)
				}
				got = append(got, p.Detail)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
