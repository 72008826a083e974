package podspec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

func newDevices(t *testing.T) *amd.Devices {
	t.Helper()
	d, err := amd.New(amd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func pod(t *testing.T, text string) corev1.Pod {
	t.Helper()
	var p corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const fourContainers = `
metadata:
  name: p
  namespace: ns
  uid: 6c1a0f4e-0000-4000-8000-000000000001
  annotations:
    hami.io/amd-devices-allocated: ";A,AMD X,1024,8:;;A,AMD X,1024,38:;"
    hami.io/amd-cu-allocated: '{"A":"0-45"}'
    hami.io/amd-cu-containers: '{"proxy":{"ids":["g#0"],"cus":{"A":"38-45"}}}'
spec:
  initContainers:
  - {name: prep, image: i}
  - {name: proxy, image: i, restartPolicy: Always, resources: {limits: {amd.com/gpu: 1}}}
  containers:
  - {name: side, image: i, envFrom: [{configMapRef: {name: c}}]}
  - name: train
    image: i
    resources: {limits: {amd.com/gpu: 1}}
    env:
    - {name: A, value: "1"}
    - {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
`

func TestPod(t *testing.T) {
	p := pod(t, fourContainers)
	got, err := Pod(newDevices(t), &p)
	if err != nil {
		t.Fatal(err)
	}
	want := allocate.Pod{
		UID: "6c1a0f4e-0000-4000-8000-000000000001",
		Containers: []allocate.PodContainer{
			{Name: "prep", Role: allocate.Init},
			{Name: "proxy", Role: allocate.Sidecar, Asks: true},
			{Name: "side", EnvFrom: true},
			{Name: "train", Asks: true, Env: []allocate.SpecEnv{{Name: "A", Value: "1"}, {Name: "B", Ref: true}}},
		},
		Grants: annotations.PodGrants{
			{}, {{UUID: "A", Type: "AMD X", MemoryMiB: 1024, CUs: 8}}, {}, {{UUID: "A", Type: "AMD X", MemoryMiB: 1024, CUs: 38}},
		},
		Recorded: allocate.Recorded{
			CUs: map[string]cumask.Set{"A": cumask.Range(0, 45)},
			Containers: map[string]annotations.ContainerCUs{
				"proxy": {IDs: []string{"g#0"}, CUs: map[string]cumask.Set{"A": cumask.Range(38, 45)}},
			},
		},
	}
	sets := cmp.Comparer(func(a, b cumask.Set) bool { return a == b })
	if diff := cmp.Diff(want, got, sets); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestPodWithBrokenAnnotations(t *testing.T) {
	d := newDevices(t)
	for key, value := range map[string]string{
		annotations.AllocatedKey:    "A,AMD X,many,8:;",
		annotations.CUAllocatedKey:  `{"A":"7-4"}`,
		annotations.CUContainersKey: `[]`,
	} {
		p := pod(t, fourContainers)
		p.Annotations[key] = value
		if got, err := Pod(d, &p); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: got %+v, %v, want an error that names the key", key, value, got, err)
		}
	}
	p := pod(t, fourContainers)
	delete(p.Annotations, annotations.AllocatedKey)
	if _, err := Pod(d, &p); !errors.Is(err, ErrNotScheduled) {
		t.Errorf("a pod without grants: %v, want ErrNotScheduled", err)
	}
}

// holder is a pod with one container that was granted CUs of A and says it
// holds list.
func holder(t *testing.T, name, node, list string) corev1.Pod {
	p := pod(t, `
metadata: {namespace: ns}
spec:
  containers:
  - {name: c, image: i, resources: {limits: {amd.com/gpu: 1}}}
`)
	p.Name, p.Spec.NodeName = name, node
	p.Annotations = map[string]string{
		annotations.AllocatedKey:   "A,AMD X,1024,38:;",
		annotations.CUAllocatedKey: `{"A":"` + list + `"}`,
	}
	return p
}

func TestOccupancy(t *testing.T) {
	devices := []annotations.Device{
		{ID: "A", Devcore: 304, Devmem: 196608, Count: 10, CustomInfo: annotations.CustomInfo{NumXCC: 8}},
		{ID: "B", Devcore: 304, Devmem: 196608, Count: 10, CustomInfo: annotations.CustomInfo{NumXCC: 8}},
		{ID: "H", Devcore: 64, Devmem: 73728, Count: 1, Mode: "qpx", CustomInfo: annotations.CustomInfo{NumXCC: 2}},
	}
	edit := func(p corev1.Pod, f func(*corev1.Pod)) corev1.Pod { f(&p); return p }
	annotate := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[key] = value }
	}
	for name, tc := range map[string]struct {
		pods     []corev1.Pod
		want     map[string]string // device to what is used
		problems []string
	}{
		"nobody": {want: map[string]string{"A": "", "B": "", "H": ""}},
		"two pods": {
			pods: []corev1.Pod{holder(t, "p", "n", "0-37"), holder(t, "q", "n", "38-75")},
			want: map[string]string{"A": "0-75"},
		},
		"another node's pod": {pods: []corev1.Pod{holder(t, "p", "m", "0-37")}, want: map[string]string{"A": ""}},
		"chosen, not bound": {
			pods: []corev1.Pod{edit(holder(t, "p", "", "0-37"), annotate(annotations.VGPUNodeKey, "n"))},
			want: map[string]string{"A": "0-37"},
		},
		"finished": {
			pods: []corev1.Pod{edit(holder(t, "p", "n", "0-37"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })},
			want: map[string]string{"A": ""},
		},
		"being deleted still holds": {
			pods: []corev1.Pod{edit(holder(t, "p", "n", "0-37"), func(p *corev1.Pod) {
				p.Status.Phase, p.Finalizers = corev1.PodRunning, []string{"f"}
				p.DeletionTimestamp = &p.CreationTimestamp
			})},
			want: map[string]string{"A": "0-37"},
		},
		"one broken value stops nobody": {
			pods: []corev1.Pod{holder(t, "bad", "n", "7-4"), holder(t, "q", "n", "38-75")},
			want: map[string]string{"A": "38-75"}, problems: []string{`pod "ns/bad": decode hami.io/amd-cu-allocated: device "A"`},
		},
		"more than was granted": {
			pods: []corev1.Pod{holder(t, "greedy", "n", "0-303"), holder(t, "q", "n", "38-75")},
			want: map[string]string{"A": "38-75"}, problems: []string{`pod "ns/greedy": annotation hami.io/amd-cu-allocated: device "A": 304 CUs, granted 38`},
		},
		"device that is gone": {
			pods: []corev1.Pod{edit(holder(t, "p", "n", "0-37"), annotate(annotations.CUAllocatedKey, `{"Z":"0-3","A":"0-37"}`))},
			want: map[string]string{"A": "0-37"}, problems: []string{`pod "ns/p": annotation hami.io/amd-cu-allocated: device "Z" is not registered by node "n"`},
		},
		"overlap keeps both": {
			pods: []corev1.Pod{holder(t, "p", "n", "0-37"), holder(t, "q", "n", "30-67")},
			want: map[string]string{"A": "0-67"}, problems: []string{`CU 30`},
		},
		"raised to the unit": {
			pods: []corev1.Pod{edit(holder(t, "p", "n", "0-7"), annotate(annotations.AllocatedKey, "A,AMD X,1024,3:;"))},
			want: map[string]string{"A": "0-7"},
		},
		"hard device is held whole": {
			pods: []corev1.Pod{edit(edit(holder(t, "p", "n", ""), annotate(annotations.AllocatedKey, "H,AMD X,1024,16:;")),
				annotate(annotations.CUAllocatedKey, `{"H":"0-63"}`))},
			want: map[string]string{"H": "0-63"},
		},
		"no container asks": {
			pods: []corev1.Pod{edit(holder(t, "p", "n", "0-37"), func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })},
			want: map[string]string{"A": ""}, problems: []string{`pod "ns/p": annotation hami.io/amd-devices-allocated: `},
		},
	} {
		t.Run(name, func(t *testing.T) {
			held, problems := Occupancy(newDevices(t), "n", devices, tc.pods)
			for id, want := range tc.want {
				if got := held[id].Used().String(); got != want {
					t.Errorf("device %s: used %q, want %q", id, got, want)
				}
			}
			if len(problems) != len(tc.problems) {
				t.Fatalf("problems %v, want %d", problems, len(tc.problems))
			}
			for i, want := range tc.problems {
				if !strings.Contains(strings.ToLower(problems[i].Error()), strings.ToLower(want)) {
					t.Errorf("problem %q, want one about %s", problems[i], want)
				}
			}
		})
	}
}
