package monitor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// known are a soft MI300X, a partition, a card with work group processors and
// a device whose shape nobody has registered.
func known(tb testing.TB) *devices {
	tb.Helper()
	list := []annotations.Device{
		{ID: "soft", Devcore: 304, Type: "AMD X", CustomInfo: annotations.CustomInfo{PCIBDF: "0000:05:00.0", NumXCC: 8}},
		{ID: "hard-p1", Devcore: 64, Type: "AMD X", Mode: "qpx", CustomInfo: annotations.CustomInfo{PCIBDF: "0000:06:00.0", NumXCC: 2}},
		{ID: "card", Devcore: 32, Type: "AMD X", CustomInfo: annotations.CustomInfo{PCIBDF: "0000:07:00.0", CUsPerWGP: 2}},
		{ID: "shapeless", Type: "AMD X", CustomInfo: annotations.CustomInfo{PCIBDF: "0000:08:00.0"}},
	}
	d, problems := newDevices(list, nil, nodeName)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return d
}

// showHoldings is one line for each holding.
func showHoldings(list []container) string {
	var b strings.Builder
	for _, c := range list {
		for _, h := range c.holdings {
			fmt.Fprintf(&b, "%s %d %s %d MiB %d CUs", c.name, h.index, h.id, h.bytes/mib, h.cus)
			if h.effective != nil {
				fmt.Fprintf(&b, " effective %d", *h.effective)
			}
			if h.device == nil {
				b.WriteString(" unknown")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

const allKinds = `
spec:
  initContainers:
  - {name: prep, image: i, resources: {limits: {amd.com/gpu: 1}}}
  - {name: proxy, image: i, restartPolicy: Always, resources: {requests: {amd.com/gpu: 1}}}
  containers:
  - {name: side, image: i, resources: {limits: {cpu: 1, amd.com/gpu: 0}}}
  - {name: train, image: i, resources: {limits: {amd.com/gpu: 2}}}
`

func TestHoldings(t *testing.T) {
	for name, tt := range map[string]struct {
		annotations map[string]string
		running     []string // containers
		want        string
		problems    []string
	}{
		"granted, not handed out": {
			map[string]string{annotations.AllocatedKey: "soft,AMD X,4096,8:;soft,AMD X,1024,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;"},
			nil,
			"proxy 0 soft 1024 MiB 8 CUs\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		"an init container that runs": {
			map[string]string{annotations.AllocatedKey: "soft,AMD X,4096,8:;soft,AMD X,1024,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;"},
			[]string{"prep"},
			"prep 0 soft 4096 MiB 8 CUs\nproxy 0 soft 1024 MiB 8 CUs\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		"masks of containers": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,4096,8:;soft,AMD X,1024,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"proxy":{"ids":["a"],"cus":{"soft":"76-83"}},"train":{"ids":["b","c"],"cus":{"soft":"0-75","card":"0-3"}}}`,
				annotations.CUAllocatedKey:  `{"soft":"0-83","card":"0-3"}`,
			},
			nil,
			"proxy 0 soft 1024 MiB 8 CUs effective 8\ntrain 0 soft 2048 MiB 76 CUs effective 72\ntrain 1 card 512 MiB 4 CUs effective 4\n",
			nil,
		},
		// The soft device has two holders, so whose CUs are whose is not said.
		"the union alone": {
			map[string]string{
				annotations.AllocatedKey:   "soft,AMD X,4096,8:;soft,AMD X,1024,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;",
				annotations.CUAllocatedKey: `{"soft":"0-83","card":"0-3"}`,
			},
			nil,
			"proxy 0 soft 1024 MiB 8 CUs\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs effective 4\n",
			nil,
		},
		"a mask that starves an XCC": {
			map[string]string{
				annotations.AllocatedKey:    "card,AMD X,1,4:;card,AMD X,1,4:;;soft,AMD X,2048,76:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"soft":"0,8,16,24"}}}`,
			},
			nil,
			"proxy 0 card 1 MiB 4 CUs\ntrain 0 soft 2048 MiB 4 CUs effective 0\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		"a mask larger than the grant": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,4096,8:;soft,AMD X,1024,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"soft":"0-76","card":"0-3"}}}`,
			},
			nil,
			"proxy 0 soft 1024 MiB 8 CUs\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs effective 4\n",
			[]string{`container "train": device "soft": 77 CUs in its mask, granted 76`},
		},
		"a grant of half a WGP, raised by the plugin": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,1:;soft,AMD X,1,1:;;soft,AMD X,2048,76:card,AMD X,512,3:;",
				annotations.CUContainersKey: `{"proxy":{"ids":["a"],"cus":{"soft":"0-7"}},"train":{"ids":["b"],"cus":{"card":"0-3"}}}`,
			},
			nil,
			"proxy 0 soft 1 MiB 8 CUs effective 8\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs effective 4\n",
			nil,
		},
		"CUs the device does not have": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,8:;soft,AMD X,1,8:;;soft,AMD X,2048,76:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"card":"30-33"}}}`,
			},
			nil,
			"proxy 0 soft 1 MiB 8 CUs\ntrain 0 soft 2048 MiB 76 CUs\ntrain 1 card 512 MiB 4 CUs\n",
			[]string{`container "train": device "card": CUs 32-33 in its mask, the device has 32`},
		},
		"memory alone": {
			map[string]string{annotations.AllocatedKey: "soft,AMD X,1,0:;soft,AMD X,1,0:;;soft,AMD X,2048,0:card,AMD X,512,0:;"},
			nil,
			"proxy 0 soft 1 MiB 0 CUs\ntrain 0 soft 2048 MiB 0 CUs\ntrain 1 card 512 MiB 0 CUs\n",
			nil,
		},
		"memory alone with a mask": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,0:;soft,AMD X,1,0:;;soft,AMD X,2048,0:card,AMD X,512,0:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"card":"0-1"}}}`,
			},
			nil,
			"proxy 0 soft 1 MiB 0 CUs\ntrain 0 soft 2048 MiB 0 CUs\ntrain 1 card 512 MiB 0 CUs\n",
			[]string{"2 CUs in its mask, granted 0"},
		},
		"a partition, whose grant says less": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,8:;soft,AMD X,1,8:;;hard-p1,AMD X,73728,1:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"hard-p1":"0-63"}}}`,
			},
			nil,
			"proxy 0 soft 1 MiB 8 CUs\ntrain 0 hard-p1 73728 MiB 64 CUs effective 64\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		"a device without a shape": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,8:;soft,AMD X,1,8:;;shapeless,AMD X,1,5:card,AMD X,512,4:;",
				annotations.CUContainersKey: `{"train":{"ids":["b"],"cus":{"shapeless":"0-99"}}}`,
			},
			nil,
			"proxy 0 soft 1 MiB 8 CUs\ntrain 0 shapeless 1 MiB 5 CUs\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		// The partition mode has changed since these were granted.
		"devices that are registered otherwise by now": {
			map[string]string{annotations.AllocatedKey: "soft-p7,AMD X,1,8:;soft-p7,AMD X,1,8:;;hard,AMD X,1,5:card,AMD X,512,4:;"},
			nil,
			"proxy 0 soft-p7 1 MiB 8 CUs\ntrain 0 hard 1 MiB 5 CUs\ntrain 1 card 512 MiB 4 CUs\n",
			nil,
		},
		"another node's device": {
			map[string]string{annotations.AllocatedKey: "soft,AMD X,1,8:;soft,AMD X,1,8:;;other,AMD X,1,5:card,AMD X,512,4:;"},
			nil,
			"proxy 0 soft 1 MiB 8 CUs\ntrain 0 other 1 MiB 5 CUs unknown\ntrain 1 card 512 MiB 4 CUs\n",
			[]string{`container "train": the node has no device "other"`},
		},
		// HAMi v2.10 leaves out the entries of containers that do not ask.
		"entries without the empty ones": {
			map[string]string{annotations.AllocatedKey: "soft,AMD X,1,8:;soft,AMD X,2,8:;card,AMD X,3,4:soft,AMD X,4,8:;"},
			nil,
			"proxy 0 soft 2 MiB 8 CUs\ntrain 0 card 3 MiB 4 CUs\ntrain 1 soft 4 MiB 8 CUs\n",
			nil,
		},
		"fewer entries than containers that ask": {
			map[string]string{annotations.AllocatedKey: ";soft,AMD X,1,8:;;soft,AMD X,1,8:;"}, nil, "", []string{"annotation hami.io/amd-devices-allocated: "},
		},
		"broken masks and good grants": {
			map[string]string{
				annotations.AllocatedKey:    "soft,AMD X,1,8:;soft,AMD X,1,8:;;soft,AMD X,1,8:card,AMD X,1,4:;",
				annotations.CUContainersKey: `{`, annotations.CUAllocatedKey: `{"card":"x"}`,
			},
			nil,
			"proxy 0 soft 1 MiB 8 CUs\ntrain 0 soft 1 MiB 8 CUs\ntrain 1 card 1 MiB 4 CUs\n",
			[]string{"decode hami.io/amd-cu-containers: ", "decode hami.io/amd-cu-allocated: "},
		},
		"nothing granted": {nil, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(allKinds), &pod); err != nil {
				t.Fatal(err)
			}
			pod.Annotations = tt.annotations
			for _, name := range tt.running {
				pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
					Name: name, ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				})
			}
			list, problems := holdings(&pod, known(t))
			if diff := cmp.Diff(tt.want, showHoldings(list)); diff != "" {
				t.Errorf("holdings (-want +got):\n%s", diff)
			}
			if len(problems) != len(tt.problems) {
				t.Fatalf("problems %v, want %q", problems, tt.problems)
			}
			for i, err := range problems {
				if !strings.Contains(err.Error(), tt.problems[i]) {
					t.Errorf("problem %q, want %q in it", err, tt.problems[i])
				}
			}
		})
	}
}

func TestRuntimeID(t *testing.T) {
	for id, want := range map[string]string{"containerd://ab": "ab", "cri-o://ab": "ab", "ab": "ab", "": "", "x://": ""} {
		if got := runtimeID(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

// FuzzHoldings reads annotations that anyone may have written.
func FuzzHoldings(f *testing.F) {
	f.Add("soft,AMD X,1024,8:;card,AMD X,1,4:hard-p1,AMD X,1,1:;", `{"soft":"0-7"}`, `{"c1":{"ids":["a"],"cus":{"card":"0-3","hard-p1":"0-63"}}}`)
	f.Add(";;", "", "{}")
	f.Add("shapeless,T,0,0:;x-p1,T,1,1:soft-p0,T,1,1:;", `{"shapeless":"0-1023"}`, `{`)
	devices := known(f)
	f.Fuzz(func(t *testing.T, allocated, cus, containers string) {
		one, two := *resource.NewQuantity(1, ""), *resource.NewQuantity(2, "")
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				annotations.AllocatedKey: allocated, annotations.CUAllocatedKey: cus, annotations.CUContainersKey: containers,
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "c0", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"amd.com/gpu": one}}},
				{Name: "c1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"amd.com/gpu": two}}},
			}},
		}
		list, _ := holdings(pod, devices)
		for _, c := range list {
			for k, h := range c.holdings {
				if h.index != k || h.cus < 0 || h.id == "" {
					t.Fatalf("%+v", h)
				}
				if h.effective == nil {
					continue
				}
				if h.device == nil || *h.effective < 0 || *h.effective > h.cus || h.cus > int(h.device.Devcore) {
					t.Fatalf("%s: %d of %d CUs effective on %+v", h.id, *h.effective, h.cus, h.device)
				}
			}
		}
	})
}
