package node

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// scene is a node at rest with two pods on its first GPU, an init container and
// an app container each, in good order.
type scene struct {
	t *testing.T
	state
	gpu partition.Registered
}

func newScene(t *testing.T) *scene {
	inventory, err := partition.Discover(fixturetest.Machine(t, "mi300x-spx-8"))
	if err != nil {
		t.Fatal(err)
	}
	registered, err := inventory.Register(partition.RegisterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := annotations.EncodeDevices(registered.Entries())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, gpu: registered.Devices[0]}
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotations.NodeRegisterKey: text}}}
	s.served = make(map[string]*Served)
	s.hardware = map[string]partition.Registered{s.gpu.ID: s.gpu}
	s.add("p", 0)
	s.add("q", 76)
	return s
}

// add adds a pod that holds 76 CUs from the first on. Its init container has 38
// of them, before the app container starts.
func (s *scene) add(name string, first int) {
	id := s.gpu.ID
	grant := func(cus int) string { return fmt.Sprintf("%s,%s,16384,%d:;", id, s.gpu.Type, cus) }
	app, init := cumask.Range(first, first+75), cumask.Range(first, first+37)
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{
			annotations.AllocatedKey: grant(38) + grant(76), annotations.ToAllocateKey: ";;",
			annotations.BindPhaseKey:   "success",
			annotations.CUAllocatedKey: fmt.Sprintf(`{"%s":"%s"}`, id, app),
			annotations.CUContainersKey: fmt.Sprintf(`{"app":{"ids":["x#0"],"cus":{"%s":"%s"}},"init":{"ids":["x#0"],"cus":{"%s":"%s"}}}`,
				id, app, id, init),
		}},
		Spec:   corev1.PodSpec{InitContainers: []corev1.Container{Slice("init", 1, 12, 16384)}, Containers: []corev1.Container{Slice("app", 1, 25, 16384)}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	s.pods = append(s.pods, pod)
	s.served[name] = &Served{Pod: &pod, Containers: map[string]kubelet.Container{"init": s.slice(init), "app": s.slice(app)}}
}

func (s *scene) slice(cus cumask.Set) kubelet.Container {
	return kubelet.Container{
		Env: map[string]string{
			"ROCR_VISIBLE_DEVICES": s.gpu.Nodes[0].ROCrID(), "HIP_VISIBLE_DEVICES": "0", "HSA_CU_MASK": "0:" + cus.String(),
			hook.LimitEnv + "_0": "16384m", hook.AuditEnv: hook.ContainerLibrary,
		},
		Devices: []kubelet.Device{{Host: "/dev/kfd"}, {Host: fmt.Sprintf("/dev/dri/renderD%d", s.gpu.Nodes[0].RenderMinor)}},
		Mounts: []kubelet.Mount{
			{Host: s.t.TempDir(), Container: hook.ContainerLibrary}, {Host: s.t.TempDir(), Container: hook.ContainerCacheDir},
		},
	}
}

// set sets an annotation of the second pod.
func (s *scene) set(key, value string) { s.pods[1].Annotations[key] = value }

// app changes what the second pod's app container was started with.
func (s *scene) app(change func(c *kubelet.Container)) {
	c := s.served["q"].Containers["app"]
	change(&c)
	s.served["q"].Containers["app"] = c
}

func TestCheckSeesWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *scene)
		want   string
	}{
		"a lock is left": {func(s *scene) { s.node.Annotations[annotations.NodeLockKey] = "x" }, `node lock "x"`},
		"two pods hold a CU by their annotations": {func(s *scene) {
			s.set(annotations.CUAllocatedKey, `{"`+s.gpu.ID+`":"75-151"}`)
		}, "annotation: device"},
		"two pods hold a CU by their masks": {func(s *scene) {
			s.app(func(c *kubelet.Container) { c.Env["HSA_CU_MASK"] = "0:70-145" })
		}, "environment: device"},
		"a mask of another size": {func(s *scene) {
			s.app(func(c *kubelet.Container) { c.Env["HSA_CU_MASK"] = "0:76-150" })
		}, "has 75 CUs, 76 are granted"},
		"a mask that leaves out an XCC": {func(s *scene) {
			s.app(func(c *kubelet.Container) {
				var cus []int
				for i := range 87 {
					if i%8 != 0 {
						cus = append(cus, 100+i)
					}
				}
				c.Env["HSA_CU_MASK"] = "0:" + cumask.Of(cus[:76]...).String()
			})
		}, "none on xcc 4"},
		"no mask":           {func(s *scene) { s.app(func(c *kubelet.Container) { delete(c.Env, "HSA_CU_MASK") }) }, "has 0 CUs"},
		"another limit":     {func(s *scene) { s.app(func(c *kubelet.Container) { c.Env[hook.LimitEnv+"_0"] = "1m" }) }, `memory limit "1m"`},
		"no hook":           {func(s *scene) { s.app(func(c *kubelet.Container) { delete(c.Env, hook.AuditEnv) }) }, "sliced true"},
		"nothing mounted":   {func(s *scene) { s.app(func(c *kubelet.Container) { c.Mounts = nil }) }, "sliced true"},
		"a mount of naught": {func(s *scene) { s.app(func(c *kubelet.Container) { c.Mounts[0].Host += "/none" }) }, "no such file"},
		"another GPU":       {func(s *scene) { s.app(func(c *kubelet.Container) { c.Env["ROCR_VISIBLE_DEVICES"] = "GPU-1" }) }, "ROCR_VISIBLE_DEVICES"},
		"another node":      {func(s *scene) { s.app(func(c *kubelet.Container) { c.Devices[1].Host += "0" }) }, "want one /dev/kfd"},
		"CDI and nodes":     {func(s *scene) { s.app(func(c *kubelet.Container) { c.CDIDevices = []string{"amd.com/gpu=card1"} }) }, "CDI names"},
		"a grant waits":     {func(s *scene) { s.set(annotations.ToAllocateKey, s.pods[1].Annotations[annotations.AllocatedKey]) }, "it runs and waits"},
		"bind phase":        {func(s *scene) { s.set(annotations.BindPhaseKey, "failed") }, `bind phase "failed"`},
		"a container without a record": {func(s *scene) {
			s.set(annotations.CUContainersKey, `{"app":{"ids":["x#0"],"cus":{"`+s.gpu.ID+`":"76-151"}}}`)
		}, "container init: "},
		"union of the containers": {func(s *scene) {
			s.set(annotations.CUAllocatedKey, `{"`+s.gpu.ID+`":"76-159"}`)
		}, "its containers hold"},
		"a refusal without a message": {func(s *scene) {
			s.pods[1].Status.Phase = corev1.PodFailed
			delete(s.served, "q")
		}, "without a message"},
		"too much memory": {func(s *scene) {
			for i := range 11 {
				s.pods = append(s.pods, *s.pods[1].DeepCopy())
				s.pods[len(s.pods)-1].UID = types.UID(fmt.Sprint(i))
				delete(s.pods[len(s.pods)-1].Annotations, annotations.CUAllocatedKey)
			}
		}, "212992 MiB are granted"},
		"too many shares": {func(s *scene) {
			for i := range 11 {
				s.pods = append(s.pods, *s.pods[1].DeepCopy())
				s.pods[len(s.pods)-1].UID = types.UID(fmt.Sprint(i))
			}
		}, "13 shares are granted"},
		"a side by side pair": {func(s *scene) {
			s.pods[1].Spec.InitContainers[0] = Sidecar(s.pods[1].Spec.InitContainers[0])
		}, "another container that runs at the same time"},
		"a device that is gone": {func(s *scene) { s.node.Annotations[annotations.NodeRegisterKey] = "[]" }, "is not registered"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if errs := s.check(); len(errs) > 0 {
				t.Fatalf("in good order: %v", errs)
			}
			tt.change(s)
			for _, err := range s.check() {
				if strings.Contains(err.Error(), tt.want) {
					return
				}
			}
			t.Errorf("problems %v, want one with %q", s.check(), tt.want)
		})
	}
}
