package hami_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// HAMi v2.10 pads the containers without a GPU under the devices' types, so that
// under "AMD" their entries are missing.
func TestPatchAnnotationsAligns(t *testing.T) {
	const model = "AMD Instinct MI300X"
	dev := func(id string) device.ContainerDevices {
		return device.ContainerDevices{{Idx: 3, UUID: id, Type: model, Usedmem: 16384, Usedcores: 76}}
	}
	none := device.ContainerDevices{}
	two := device.ContainerDevices{dev("A")[0], dev("B")[0]}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		placed device.PodSingleDevice
		want   device.PodSingleDevice
		value  string
	}{
		"one container": {hamitest.Pod("p", nil, hamitest.Slice("a")), device.PodSingleDevice{dev("A")}, device.PodSingleDevice{dev("A")}, "A,AMD Instinct MI300X,16384,76:;"},
		"a container before it": {
			hamitest.Pod("p", nil, hamitest.Plain("side"), hamitest.Slice("a")), device.PodSingleDevice{dev("A")},
			device.PodSingleDevice{none, dev("A")}, ";A,AMD Instinct MI300X,16384,76:;",
		},
		"a container between": {
			hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Plain("side"), hamitest.Slice("b")), device.PodSingleDevice{dev("A"), dev("B")},
			device.PodSingleDevice{dev("A"), none, dev("B")}, "A,AMD Instinct MI300X,16384,76:;;B,AMD Instinct MI300X,16384,76:;",
		},
		"init without, two app containers with": {
			hamitest.Pod("p", []corev1.Container{hamitest.Plain("i")}, hamitest.Slice("a"), hamitest.Slice("b")), device.PodSingleDevice{dev("A"), dev("A")},
			device.PodSingleDevice{none, dev("A"), dev("A")}, ";A,AMD Instinct MI300X,16384,76:;A,AMD Instinct MI300X,16384,76:;",
		},
		"init with, the first app container without": {
			hamitest.Pod("p", []corev1.Container{hamitest.Slice("i")}, hamitest.Plain("side"), hamitest.Slice("b")), device.PodSingleDevice{dev("A"), dev("B")},
			device.PodSingleDevice{dev("A"), none, dev("B")}, "A,AMD Instinct MI300X,16384,76:;;B,AMD Instinct MI300X,16384,76:;",
		},
		"only an init container": {
			hamitest.Pod("p", []corev1.Container{hamitest.Plain("i"), hamitest.Slice("j")}, hamitest.Plain("a")), device.PodSingleDevice{dev("A")},
			device.PodSingleDevice{none, dev("A"), none}, ";A,AMD Instinct MI300X,16384,76:;;",
		},
		"padded already": {
			hamitest.Pod("p", nil, hamitest.Plain("side"), hamitest.Slice("a")), device.PodSingleDevice{none, dev("A")},
			device.PodSingleDevice{none, dev("A")}, ";A,AMD Instinct MI300X,16384,76:;",
		},
		"several GPUs": {
			hamitest.Pod("p", nil, hamitest.Plain("side"), hamitest.Container("a", "2", "16384", "25")), device.PodSingleDevice{two},
			device.PodSingleDevice{none, two}, ";A,AMD Instinct MI300X,16384,76:B,AMD Instinct MI300X,16384,76:;",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBackend(t, hami.Config{})
			annos := map[string]string{"other": "stays"}
			pd := device.PodDevices{hami.CommonWord: test.placed, model: {none}}
			d.PatchAnnotations(test.pod, &annos, pd)
			if diff := cmp.Diff(device.PodDevices{hami.CommonWord: test.want, model: {none}}, pd); diff != "" {
				t.Errorf("HAMi goes on with (-want +got):\n%s", diff)
			}
			want := map[string]string{"other": "stays", annotations.ToAllocateKey: test.value, annotations.AllocatedKey: test.value}
			if diff := cmp.Diff(want, annos); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if hamis := device.EncodePodSingleDevice(test.want); hamis != test.value {
				t.Errorf("HAMi would write %q", hamis)
			}
		})
	}
}

// HAMi calls it for the pods of other vendors too.
func TestPatchAnnotationsOfOtherPods(t *testing.T) {
	d := newBackend(t, hami.Config{})
	for name, pd := range map[string]device.PodDevices{
		"without AMD":           {"NVIDIA": {{{UUID: "n", Type: "NVIDIA"}}}},
		"only padding":          {hami.CommonWord: {{}, {}}},
		"nothing":               {},
		"entries nobody can be": {hami.CommonWord: {{{UUID: ",", Type: "AMD"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			annos := map[string]string{"other": "stays"}
			d.PatchAnnotations(hamitest.Pod("p", nil, hamitest.Plain("a"), hamitest.Plain("b")), &annos, pd)
			if diff := cmp.Diff(map[string]string{"other": "stays"}, annos); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Entries that do not match the pod are not given to the wrong container.
func TestPatchAnnotationsMismatch(t *testing.T) {
	d := newBackend(t, hami.Config{})
	placed := device.PodSingleDevice{{{UUID: "A", Type: "AMD"}}, {{UUID: "B", Type: "AMD"}}}
	for name, pod := range map[string]*corev1.Pod{
		"fewer containers": hamitest.Pod("p", nil, hamitest.Slice("a")),
		"more containers":  hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Slice("b"), hamitest.Slice("c")),
	} {
		t.Run(name, func(t *testing.T) {
			var annos map[string]string
			pd := device.PodDevices{hami.CommonWord: placed}
			d.PatchAnnotations(pod, &annos, pd)
			if diff := cmp.Diff(device.PodDevices{hami.CommonWord: placed}, pd); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if annos[annotations.AllocatedKey] != "A,AMD,0,0:;B,AMD,0,0:;" {
				t.Errorf("annotations %v", annos)
			}
		})
	}
}
