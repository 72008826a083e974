package hami_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

// admit goes through the pod's containers as HAMi's webhook does.
func admit(d device.Devices, pod *corev1.Pod) (asks bool, err error) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			found, err := d.MutateAdmission(&containers[i], pod)
			if err != nil {
				return false, err
			}
			asks = asks || found
		}
	}
	return asks, nil
}

func TestMutateAdmissionRefuses(t *testing.T) {
	withEnv := hamitest.Slice("train")
	withEnv.Env = []corev1.EnvVar{{Name: "HSA_CU_MASK", Value: "0:0-303"}}
	annotated := hamitest.Pod("p", nil, hamitest.Container("train", "1", "", ""))
	annotated.Annotations["amd.com/gpumem"] = "8192"
	for name, test := range map[string]struct {
		pod *corev1.Pod
		err string
	}{
		"cores beyond 100":              {hamitest.Pod("p", nil, hamitest.Container("train", "1", "", "101")), "integer 1–100"},
		"cores beyond 100, init":        {hamitest.Pod("p", []corev1.Container{hamitest.Container("prep", "1", "", "101")}, hamitest.Plain("main")), `container "prep"`},
		"memory in Gi":                  {hamitest.Pod("p", nil, hamitest.Container("train", "1", "16Gi", "")), "write 16384"},
		"the second container":          {hamitest.Pod("p", nil, hamitest.Slice("a"), hamitest.Container("b", "1", "-1", "")), `container "b"`},
		"limits as pod annotation":      {annotated, "resources.limits"},
		"a variable that lifts limits":  {hamitest.Pod("p", nil, withEnv), "HSA_CU_MASK"},
		"a GPU on a sidecar":            {hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Slice("watch"))}, hamitest.Slice("train")), `container "watch": amd.com/gpu: want it in an app container`},
		"memory alone on a sidecar":     {hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Container("watch", "", "1024", ""))}, hamitest.Plain("main")), "sidecar"},
		"an invalid request, a sidecar": {hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Container("watch", "1", "", "0"))}, hamitest.Plain("main")), "integer 1–100"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBackend(t, hami.Config{RuntimeClassName: "amd"})
			before := test.pod.DeepCopy()
			asks, err := admit(d, test.pod)
			if asks || err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("asks %v, %v, want an error with %q", asks, err, test.err)
			}
			if name == "the second container" {
				return // the first had been admitted
			}
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("a refused pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestMutateAdmissionCompletes(t *testing.T) {
	d := newBackend(t, hami.Config{RuntimeClassName: "amd"})
	prioritized := hamitest.Container("train", "", "8192", "")
	prioritized.Resources.Limits["amd.com/priority"] = resource.MustParse("1")
	pod := hamitest.Pod("p", []corev1.Container{hamitest.Container("prep", "", "", "25"), hamitest.Sidecar(hamitest.Plain("watch"))}, hamitest.Plain("log"), prioritized)
	pod.Annotations[annotations.AllocatedKey] = "GPU-a,AMD,1,1:;"
	pod.Annotations[annotations.VGPUNodeKey] = "node"
	pod.Annotations["mine"] = "stays"
	pod.Labels = map[string]string{annotations.VGPUNodeKey: "node", "app": "stays"}

	for range 2 { // the second round changes nothing more
		asks, err := admit(d, pod)
		if err != nil || !asks {
			t.Fatalf("asks %v, %v", asks, err)
		}
		if diff := cmp.Diff(map[string]string{"mine": "stays"}, pod.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"app": "stays"}, pod.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		for _, c := range []corev1.Container{pod.Spec.InitContainers[0], pod.Spec.Containers[1]} {
			if n := c.Resources.Limits["amd.com/gpu"]; n.Value() != 1 {
				t.Errorf("container %q: %s GPUs, want the default of 1", c.Name, n.String())
			}
		}
		if diff := cmp.Diff([]corev1.EnvVar{{Name: "AMD_TASK_PRIORITY", Value: "1"}}, pod.Spec.Containers[1].Env); diff != "" {
			t.Errorf("env (-want +got):\n%s", diff)
		}
		if class := pod.Spec.RuntimeClassName; class == nil || *class != "amd" {
			t.Errorf("runtime class %v, want amd", class)
		}
	}
}

// An app container may have a restartPolicy too, and is no sidecar for it.
func TestMutateAdmissionKnowsSidecarsByTheirPlace(t *testing.T) {
	d := newBackend(t, hami.Config{})
	if asks, err := admit(d, hamitest.Pod("p", []corev1.Container{hamitest.Slice("prep")}, hamitest.Sidecar(hamitest.Slice("train")))); err != nil || !asks {
		t.Errorf("asks %v, %v, want the pod admitted", asks, err)
	}
}

func TestMutateAdmissionLeavesOthersAlone(t *testing.T) {
	d := newBackend(t, hami.Config{RuntimeClassName: "amd"})
	other := hamitest.Plain("train")
	other.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	pod := hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Plain("watch"))}, other)
	before := pod.DeepCopy()
	if asks, err := admit(d, pod); err != nil || asks {
		t.Errorf("asks %v, %v, want neither", asks, err)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
