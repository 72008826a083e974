package amd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// podOf is a pod of one container that asks for a slice.
func podOf(t testing.TB, limits string, env ...corev1.EnvVar) *corev1.Pod {
	ctr := limited(t, limits)
	ctr.Env = env
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{*ctr}},
	}
}

func ptr[T any](v T) *T { return &v }

// compareQuantities looks at their values, not at how they were written.
var compareQuantities = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

func TestAdmit(t *testing.T) {
	const sliced = "gpu=1 gpumem=1024 gpucores=25"
	ref := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	for name, test := range map[string]struct {
		config Config
		pod    func(*corev1.Pod) // from a slice
		want   func(*corev1.Pod) // from the same
		asks   bool
		notes  []string
	}{
		"a complete pod": {asks: true},
		"no GPU": {
			config: Config{RuntimeClassName: "amd"},
			pod:    func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil },
			want:   func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil },
		},
		"0 GPUs": {
			pod:  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=0") },
			want: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=0") },
		},
		"the default count for memory": {
			asks: true,
			pod:  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpumem=1024") },
			want: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1 gpumem=1024") },
		},
		"a default count of 4 for cores": {
			config: Config{DefaultCount: 4},
			asks:   true,
			pod:    func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpucores=10") },
			want:   func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=4 gpucores=10") },
		},
		"limits for what is only requested": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: resources(t, "gpumem=1024 gpucores=25")}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
					Requests: resources(t, "gpumem=1024 gpucores=25"), Limits: resources(t, "gpu=1 gpumem=1024 gpucores=25"),
				}
			},
		},
		"an init container": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{*limited(t, "gpumem=1")}
				p.Spec.Containers[0].Resources.Limits = nil
			},
			want: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{*limited(t, "gpu=1 gpumem=1")}
				p.Spec.Containers[0].Resources.Limits = nil
			},
		},
		"the runtime class": {
			config: Config{RuntimeClassName: "amd"}, asks: true,
			want: func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("amd") },
		},
		"an empty runtime class": {
			config: Config{RuntimeClassName: "amd"}, asks: true,
			pod:  func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("") },
			want: func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("amd") },
		},
		"a runtime class of the user's": {
			config: Config{RuntimeClassName: "amd"}, asks: true,
			pod:  func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("kata") },
			want: func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("kata") },
		},
		"the priority": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=0")
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=0")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "AMD_TASK_PRIORITY", Value: "0"}}
			},
		},
		"the priority in place of the container's": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=7")
				p.Spec.Containers[0].Env = []corev1.EnvVar{
					{Name: "A", Value: "1"}, {Name: "AMD_TASK_PRIORITY", ValueFrom: ref}, {Name: "B", Value: "2"}, {Name: "AMD_TASK_PRIORITY", Value: "0"},
				}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=7")
				p.Spec.Containers[0].Env = []corev1.EnvVar{
					{Name: "A", Value: "1"}, {Name: "AMD_TASK_PRIORITY", Value: "7"}, {Name: "B", Value: "2"},
				}
			},
		},
		"no priority leaves the container's": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "AMD_TASK_PRIORITY", Value: "0"}}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "AMD_TASK_PRIORITY", Value: "0"}}
			},
		},
		"LD_AUDIT of a slice": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/lib/a.so"}}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/lib/a.so:/usr/local/vgpu/libamvgpu.so"}}
			},
		},
		"an empty LD_AUDIT": {
			config: Config{HookPath: "/opt/hook.so"}, asks: true,
			pod: func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT"}} },
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/opt/hook.so"}}
			},
		},
		"LD_AUDIT of a whole GPU": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/lib/a.so"}}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", Value: "/lib/a.so"}}
			},
		},
		"LD_AUDIT by reference on a whole GPU": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", ValueFrom: ref}}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, "gpu=1")
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", ValueFrom: ref}}
			},
		},
		"variables of a container without GPUs": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "HIP_VISIBLE_DEVICES", Value: "0"}}}}
			},
			want: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "HIP_VISIBLE_DEVICES", Value: "0"}}}}
			},
		},
		"envFrom of a slice": {
			asks:  true,
			pod:   func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} },
			want:  func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} },
			notes: []string{`container "main": envFrom could set variables that switch the GPU limits off, and cannot be looked into`},
		},
		"the protocol's annotations and label": {
			asks: true,
			pod: func(p *corev1.Pod) {
				p.Annotations = map[string]string{
					"hami.io/amd-devices-to-allocate": "x", "hami.io/amd-devices-allocated": "x", "hami.io/amd-cu-allocated": "x",
					"hami.io/amd-anything": "x", "hami.io/vgpu-node": "x", "hami.io/vgpu-time": "x", "hami.io/bind-time": "x",
					"hami.io/bind-phase": "x", "hami.io/gpu-scheduler-policy": "binpack", "amd.com/use-gputype": "MI300X", "mine": "x",
				}
				p.Labels = map[string]string{"hami.io/vgpu-node": "x", "app": "x"}
			},
			want: func(p *corev1.Pod) {
				p.Annotations = map[string]string{"hami.io/gpu-scheduler-policy": "binpack", "amd.com/use-gputype": "MI300X", "mine": "x"}
				p.Labels = map[string]string{"app": "x"}
			},
			notes: []string{
				`took annotation "hami.io/amd-anything" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/amd-cu-allocated" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/amd-devices-allocated" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/amd-devices-to-allocate" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/bind-phase" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/bind-time" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/vgpu-node" off the pod: only the scheduler and the device plugin write it`,
				`took annotation "hami.io/vgpu-time" off the pod: only the scheduler and the device plugin write it`,
				`took label "hami.io/vgpu-node" off the pod: only the scheduler writes it`,
			},
		},
		"the same on a pod without GPUs": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = nil
				p.Annotations = map[string]string{"hami.io/amd-devices-allocated": "x"}
			},
			want: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = nil
				p.Annotations = map[string]string{}
			},
			notes: []string{`took annotation "hami.io/amd-devices-allocated" off the pod: only the scheduler and the device plugin write it`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod, want := podOf(t, sliced), podOf(t, sliced)
			if test.pod != nil {
				test.pod(pod)
			}
			if test.want != nil {
				test.want(want)
			}
			each := pod.DeepCopy()
			d := newDevices(t, test.config)
			got, err := d.Admit(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, pod, compareQuantities); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Admission{Asks: test.asks, Notes: test.notes}, got); diff != "" {
				t.Errorf("admission (-want +got):\n%s", diff)
			}
			again, err := d.Admit(pod)
			if diff := cmp.Diff(want, pod, compareQuantities); diff != "" || err != nil || again.Asks != got.Asks {
				t.Errorf("admitted twice, %v (-want +got):\n%s", err, diff)
			}
			// One container at a time, as HAMi's webhook goes, comes to the same.
			asks := false
			for _, ctr := range podContainers(each) {
				a, err := d.AdmitContainer(each, ctr)
				if err != nil {
					t.Fatal(err)
				}
				asks = asks || a.Asks
			}
			if diff := cmp.Diff(want, each, compareQuantities); diff != "" || asks != test.asks {
				t.Errorf("one at a time, asks %v (-want +got):\n%s", asks, diff)
			}
		})
	}
}

func TestAdmitRefuses(t *testing.T) {
	const sliced = "gpu=1 gpumem=1024 gpucores=25"
	ref := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	strict := Config{StrictAdmission: true}
	for name, test := range map[string]struct {
		config Config
		pod    func(*corev1.Pod)
		want   string
	}{
		"LD_AUDIT by reference": {
			pod:  func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_AUDIT", ValueFrom: ref}} },
			want: `container "main": env LD_AUDIT: want a literal value`,
		},
		"envFrom under strict admission": {
			config: strict,
			pod:    func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} },
			want:   `container "main": envFrom: want none`,
		},
		"a protocol annotation under strict admission": {
			config: strict,
			pod:    func(p *corev1.Pod) { p.Annotations = map[string]string{annotations.AllocatedKey: "x"} },
			want:   `pod annotation "hami.io/amd-devices-allocated": want it unset`,
		},
		"the protocol label under strict admission": {
			config: strict,
			pod:    func(p *corev1.Pod) { p.Labels = map[string]string{annotations.VGPUNodeKey: "x"} },
			want:   `pod label "hami.io/vgpu-node": want it unset`,
		},
		"an unknown node policy under strict admission": {
			config: strict,
			pod:    func(p *corev1.Pod) { p.Annotations = map[string]string{annotations.NodeSchedulerPolicyKey: "mutex"} },
			want:   `want binpack or spread, found "mutex"`,
		},
		"a negative priority": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=-1")
			},
			want: `amd.com/priority: want a whole number from 0 (highest)`,
		},
		"half a priority": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=1500m")
			},
			want: `found "1500m"`,
		},
		"a priority beyond int32": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, sliced+" priority=3000000000")
			},
			want: "amd.com/priority",
		},
		"a bad priority of a container without GPUs": {
			pod: func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{*limited(t, "priority=500m")}
			},
			want: "amd.com/priority",
		},
		"a second container, after the first was fine": {
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = resources(t, "gpumem=1 priority=1")
				p.Spec.Containers = append(p.Spec.Containers, *limited(t, "gpucores=0"))
				p.Annotations = map[string]string{annotations.AllocatedKey: "x"}
			},
			want: "integer 1–100",
		},
		"a list longer than anybody compares": {
			pod: func(p *corev1.Pod) {
				p.Annotations = map[string]string{annotations.UseUUIDKey: strings.Repeat("a,", 2000)}
			},
			want: "amd.com/use-gpu-uuid: 2001 items, want at most 1024",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, sliced)
			test.pod(pod)
			before := pod.DeepCopy()
			got, err := newDevices(t, test.config).Admit(pod)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%+v, %v, want %q", got, err, test.want)
			}
			if diff := cmp.Diff(before, pod, compareQuantities); diff != "" {
				t.Errorf("a refused pod was changed:\n%s", diff)
			}
		})
	}
}

// Each variable that would take the place of one of the plugin's is refused in
// every container that asks for GPUs, whole ones included.
func TestAdmitRefusesOverrides(t *testing.T) {
	for _, variable := range []string{
		"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HSA_CU_MASK",
		"HSA_CU_MASK_SKIP_INIT", "ROC_GLOBAL_CU_MASK", "HIP_DEVICE_MEMORY_LIMIT", "HIP_DEVICE_MEMORY_LIMIT_0",
		"HIP_DEVICE_MEMORY_LIMIT_13", "HIP_DEVICE_MEMORY_SHARED_CACHE", "HIP_OVERSUBSCRIBE",
	} {
		t.Run(variable, func(t *testing.T) {
			if !Overrides(variable) {
				t.Error("Overrides says no")
			}
			env := corev1.EnvVar{Name: variable, Value: ""}
			for _, limits := range []string{"gpu=1 gpumem=1", "gpu=1", "gpucores=5"} {
				app := podOf(t, limits, corev1.EnvVar{Name: "A"}, env)
				init := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: app.Spec.Containers, Containers: []corev1.Container{{}}}}
				for where, pod := range map[string]*corev1.Pod{"app": app, "init": init} {
					_, err := newDevices(t, Config{}).Admit(pod)
					if err == nil || !strings.Contains(err.Error(), `container "main": env `+variable+`: want it unset`) {
						t.Errorf("%s container with %s: %v", where, limits, err)
					}
				}
			}
		})
	}
	for _, variable := range []string{"HSA_ENABLE_SDMA", "HIP_DEVICE_MEMORY", "AMD_TASK_PRIORITY", "LD_AUDIT", "hsa_cu_mask"} {
		if Overrides(variable) {
			t.Errorf("Overrides(%q), want only names the runtime or the hook reads", variable)
		}
	}
}
