package amd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// shapeOf is a pod with these containers, init containers first: "i" an init
// container, "s" a sidecar, "a" an app container.
func shapeOf(kinds string) *corev1.Pod {
	pod := &corev1.Pod{}
	for _, kind := range kinds {
		switch kind {
		case 'i':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{})
		case 's':
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)})
		case 'a':
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{})
		}
	}
	return pod
}

func TestPeak(t *testing.T) {
	g := func(id string, mem, cus int32) []annotations.Grant {
		return []annotations.Grant{{UUID: id, Type: "T", MemoryMiB: mem, CUs: cus}}
	}
	h := func(id string, shares, mem, cus int32) Holding {
		return Holding{UUID: id, Type: "T", Shares: shares, MemoryMiB: mem, CUs: cus}
	}
	for name, test := range map[string]struct {
		kinds  string
		grants annotations.PodGrants
		want   []Holding
	}{
		"nothing":                      {"a", annotations.PodGrants{nil}, nil},
		"one app":                      {"a", annotations.PodGrants{g("A", 100, 10)}, []Holding{h("A", 1, 100, 10)}},
		"two apps on one GPU":          {"aa", annotations.PodGrants{g("A", 100, 10), g("A", 50, 5)}, []Holding{h("A", 2, 150, 15)}},
		"two apps on two GPUs":         {"aa", annotations.PodGrants{g("A", 100, 10), g("B", 50, 5)}, []Holding{h("A", 1, 100, 10), h("B", 1, 50, 5)}},
		"a smaller init":               {"ia", annotations.PodGrants{g("A", 50, 5), g("A", 100, 10)}, []Holding{h("A", 1, 100, 10)}},
		"a larger init":                {"ia", annotations.PodGrants{g("A", 100, 10), g("A", 50, 5)}, []Holding{h("A", 1, 100, 10)}},
		"larger in one thing each":     {"ia", annotations.PodGrants{g("A", 100, 5), g("A", 50, 10)}, []Holding{h("A", 1, 100, 10)}},
		"inits one after the other":    {"iiaa", annotations.PodGrants{g("A", 100, 10), g("A", 100, 10), g("A", 60, 6), g("A", 60, 6)}, []Holding{h("A", 2, 120, 12)}},
		"an init on another GPU":       {"ia", annotations.PodGrants{g("B", 100, 10), g("A", 50, 5)}, []Holding{h("B", 1, 100, 10), h("A", 1, 50, 5)}},
		"a sidecar beside the app":     {"sa", annotations.PodGrants{g("A", 10, 1), g("A", 100, 10)}, []Holding{h("A", 2, 110, 11)}},
		"an init beside a sidecar":     {"sia", annotations.PodGrants{g("A", 10, 1), g("A", 100, 10), g("A", 50, 5)}, []Holding{h("A", 2, 110, 11)}},
		"an init before a sidecar":     {"isa", annotations.PodGrants{g("A", 100, 10), g("A", 10, 1), g("A", 50, 5)}, []Holding{h("A", 2, 100, 10)}},
		"sidecars before and after":    {"sisa", annotations.PodGrants{g("A", 10, 1), g("A", 100, 10), g("A", 30, 3), g("A", 50, 5)}, []Holding{h("A", 3, 110, 11)}},
		"more than int32 holds":        {"aa", annotations.PodGrants{g("A", 2147483647, 1), g("A", 1, 1)}, []Holding{h("A", 2, 2147483647, 2)}},
		"containers that ask for none": {"iaa", annotations.PodGrants{nil, nil, g("A", 1, 1)}, []Holding{h("A", 1, 1, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Peak(shapeOf(test.kinds), test.grants)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The entries of the annotation count init containers first, whether HAMi wrote
// one for each container or left out those that ask for nothing.
func TestC06InitContainersOffsetTheSlot(t *testing.T) {
	const a = "A,AMD X,8192,76:;"
	for name, test := range map[string]struct {
		gpuOn     string // prep, side or train
		value     string
		container int // where the grant belongs, init container first
	}{
		"on train":                     {"train", ";;" + a, 2},
		"on train, without padding":    {"train", a, 2},
		"on prep":                      {"prep", a + ";;", 0},
		"on prep, one entry":           {"prep", a, 0},
		"on side":                      {"side", ";" + a + ";", 1},
		"on train, growing semicolons": {"train", ";;" + a + ";;;", 2},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "prep"}},
				Containers:     []corev1.Container{{Name: "side"}, {Name: "train"}},
			}}
			pod.Name, pod.Namespace, pod.UID = "p", "default", "p"
			pod.Spec.NodeName = "node"
			for _, ctr := range podContainers(pod) {
				if ctr.Name == test.gpuOn {
					ctr.Resources.Limits = resources(t, "gpu=1 gpumem=8192 gpucores=25")
				}
			}
			pod.Annotations = map[string]string{annotations.AllocatedKey: test.value}
			l := NewLedger(newDevices(t, Config{}))
			if err := l.SetPod(pod); err != nil {
				t.Fatal(err)
			}
			for i, grants := range l.pods["p"].grants {
				if (len(grants) > 0) != (i == test.container) {
					t.Errorf("container %d has %d grants, want the grant on container %d", i, len(grants), test.container)
				}
			}
			// An init container that is done does not count twice beside the app.
			if got := l.Pods("node"); len(got) != 1 || got[0].Holdings[0].MemoryMiB != 8192 {
				t.Errorf("%+v, want 8192 MiB held", got)
			}
		})
	}
}
