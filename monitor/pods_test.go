package monitor

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// The metrics of containers.
const (
	usedBytes  = "hami_vgpu_memory_used_bytes"
	limitBytes = "hami_vgpu_memory_limit_bytes"
	grantBytes = "hami_vgpu_memory_granted_bytes"
	heldCUs    = "hami_vgpu_compute_units"
	effective  = "hami_vgpu_effective_compute_units"
)

// lines joins lines of an exposition.
func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

// labels are those of a container metric in their short form.
func labels(pod, container, index, device string) string {
	return `{container="` + container + `",device_uuid="` + device + `",namespace="ns",pod="` + pod + `",vdevice_index="` + index + `"} `
}

// Two GPUs of one container, each with its own numbers, and a second container
// of the same pod on one of them.
func TestContainersWithSeveralGPUs(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	pod := r.pod("p",
		[]annotations.Grant{r.grant(3, 16384, 76), r.grant(1, 16384, 76)},
		[]annotations.Grant{r.grant(1, 8192, 38)})
	r.masks(pod, map[string]map[string]cumask.Set{
		"c0": {r.devices[3].ID: cumask.Range(0, 75), r.devices[1].ID: cumask.Range(100, 175)},
		"c1": {r.devices[1].ID: cumask.Range(0, 37)},
	})
	r.start(pod)
	r.limit(podCgroupOf(pod), r.region(3), 16*gib)
	r.limit(podCgroupOf(pod), r.region(1), 24*gib)
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(3), 3*gib))
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(1), gib))
	r.must(r.kernel.Charge(scopeOf(pod, 1), r.region(1), 5*gib))
	r.wantSeries(lines(
		heldCUs+labels("p", "c0", "1", "D1")+"76",
		heldCUs+labels("p", "c0", "0", "D3")+"76",
		heldCUs+labels("p", "c1", "0", "D1")+"38",
		effective+labels("p", "c0", "1", "D1")+"72",
		effective+labels("p", "c0", "0", "D3")+"72",
		effective+labels("p", "c1", "0", "D1")+"32",
		limitBytes+labels("p", "c0", "1", "D1")+"1.7179869184e+10",
		limitBytes+labels("p", "c0", "0", "D3")+"1.7179869184e+10",
		limitBytes+labels("p", "c1", "0", "D1")+"8.589934592e+09",
		usedBytes+labels("p", "c0", "1", "D1")+"1.073741824e+09",
		usedBytes+labels("p", "c0", "0", "D3")+"3.221225472e+09",
		usedBytes+labels("p", "c1", "0", "D1")+"5.36870912e+09",
	), heldCUs, effective, limitBytes, usedBytes)
	r.wantProblems()
}

// Partitions are told apart, but for memory that the kernel counts together.
func TestPartitions(t *testing.T) {
	r := newRig(t, "mi355x-qpx-8", partition.ModePartition)
	const each = 73728 // MiB
	pod := r.pod("p", []annotations.Grant{r.whole(1), r.whole(4), r.whole(2)}, []annotations.Grant{r.whole(3)})
	all := cumask.Range(0, 63)
	r.masks(pod, map[string]map[string]cumask.Set{
		"c0": {r.devices[1].ID: all, r.devices[4].ID: all, r.devices[2].ID: all},
		"c1": {r.devices[3].ID: all},
	})
	r.start(pod)
	r.limit(podCgroupOf(pod), r.region(1), 3*each*mib)
	r.limit(podCgroupOf(pod), r.region(4), each*mib)
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(1), 7))
	r.must(r.kernel.Charge(scopeOf(pod, 1), r.region(1), 11))
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(4), 13))
	r.wantSeries(lines(
		heldCUs+labels("p", "c0", "0", "D1")+"64",
		heldCUs+labels("p", "c0", "2", "D2")+"64",
		heldCUs+labels("p", "c0", "1", "D4")+"64",
		heldCUs+labels("p", "c1", "0", "D3")+"64",
		limitBytes+labels("p", "c0", "0", "G0")+"1.54618822656e+11",
		limitBytes+labels("p", "c0", "1", "D4")+"7.7309411328e+10",
		limitBytes+labels("p", "c1", "0", "D3")+"7.7309411328e+10",
		usedBytes+labels("p", "c0", "0", "G0")+"7",
		usedBytes+labels("p", "c0", "1", "D4")+"13",
		usedBytes+labels("p", "c1", "0", "D3")+"11",
	), heldCUs, limitBytes, usedBytes)
	r.wantProblems()
}

// Who counts a container's memory, and who holds it to its grant.
func TestMemory(t *testing.T) {
	const grant = 4096 // MiB
	full := regionFile{limits: []uint64{grant * mib}, slots: [][]uint64{{gib}, {1}}}
	used := func(n string) string { return usedBytes + labels("p", "c0", "0", "D0") + n + "\n" }
	limit := func(n string) string { return limitBytes + labels("p", "c0", "0", "D0") + n + "\n" }
	for name, tt := range map[string]struct {
		set  func(r *rig, pod *corev1.Pod)
		want string
	}{
		"the kernel both": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.limit(podCgroupOf(pod), r.region(0), grant*mib)
			r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), 5))
		}, limit("4.294967296e+09") + used("5")},
		"the kernel both, beside the hook": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.limit(podCgroupOf(pod), r.region(0), grant*mib)
			r.loadHook(pod, "c0", full)
		}, limit("4.294967296e+09") + used("0")},
		"the kernel before the limit is set": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
		}, used("0")},
		"the kernel counts, the hook limits": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), 5))
			r.loadHook(pod, "c0", full)
		}, limit("4.294967296e+09") + used("5")},
		"the hook both": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.RemoveRegion(r.region(0)))
			r.loadHook(pod, "c0", full)
		}, limit("4.294967296e+09") + used("1.073741825e+09")},
		"the hook, the kernel counts other GPUs only": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.RemoveRegion(r.region(0)))
			r.must(r.kernel.AddRegion(regionOf("0000:ff:00.0"), gib))
			r.start(pod)
			r.loadHook(pod, "c0", full)
		}, limit("4.294967296e+09") + used("1.073741825e+09")},
		"the hook, the controller is not delegated": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.Mkdir(scopeOf(pod, 0)))
			r.loadHook(pod, "c0", full)
		}, limit("4.294967296e+09") + used("1.073741825e+09")},
		"the hook without a limit": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.RemoveRegion(r.region(0)))
			r.loadHook(pod, "c0", regionFile{slots: [][]uint64{{3}}})
		}, used("3")},
		"the hook with a larger limit": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.RemoveRegion(r.region(0)))
			r.loadHook(pod, "c0", regionFile{limits: []uint64{grant*mib + 1}})
		}, used("0")},
		"a limit of the container's own": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.limit(scopeOf(pod, 0), r.region(0), grant*mib)
		}, limit("4.294967296e+09") + used("0")},
		"a lower limit": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.limit(podCgroupOf(pod), r.region(0), mib)
		}, limit("1.048576e+06") + used("0")},
		"a limit above what was granted": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.limit(podCgroupOf(pod), r.region(0), grant*mib+1)
		}, used("0")},
		"nobody": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.RemoveRegion(r.region(0)))
		}, ""},
		"a container that does not run": {func(r *rig, pod *corev1.Pod) {
			r.start(pod)
			r.loadHook(pod, "c0", full)
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "rx9060xt", partition.ModeCU)
			tt.set(r, r.pod("p", []annotations.Grant{r.grant(0, grant, 8)}))
			r.wantSeries(tt.want, limitBytes, usedBytes)
			r.wantProblems()
		})
	}
}

// What a container was granted is its own before it runs, and while it does not.
func TestGrantOfContainerThatDoesNotRun(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.grant(0, 4096, 8)})
	pod.Status.ContainerStatuses = nil
	r.wantSeries(lines(
		heldCUs+labels("p", "c0", "0", "D0")+"8",
		grantBytes+labels("p", "c0", "0", "D0")+"4.294967296e+09",
	), heldCUs, grantBytes, limitBytes, usedBytes)
	r.wantProblems()
}

// A GPU that is held whole has no limit; what is used of it counts all the same.
func TestWholeGPU(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.whole(0)})
	r.masks(pod, map[string]map[string]cumask.Set{"c0": {r.devices[0].ID: cumask.Range(0, 303)}})
	r.start(pod)
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), 9))
	r.wantSeries(lines(
		heldCUs+labels("p", "c0", "0", "D0")+"304",
		effective+labels("p", "c0", "0", "D0")+"304",
		usedBytes+labels("p", "c0", "0", "D0")+"9",
	), heldCUs, effective, limitBytes, usedBytes)
	r.wantProblems()
}

// An init container asked for more than the app container may use. The limit of
// the pod is the larger, so it does not hold the app container to its grant.
func TestInitContainersGrantRaisesThePodsLimit(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.grant(0, 8192, 8)}, []annotations.Grant{r.grant(0, 4096, 8)})
	r.start(pod)
	pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers[:1], pod.Spec.Containers[1:]
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1], pod.Status.ContainerStatuses[1:]
	pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{}
	r.limit(podCgroupOf(pod), r.region(0), 8*gib)
	r.wantSeries(usedBytes+labels("p", "c1", "0", "D0")+"0\n", limitBytes, usedBytes)
	r.loadHook(pod, "c1", regionFile{limits: []uint64{4 * gib}})
	r.wantSeries(limitBytes+labels("p", "c1", "0", "D0")+"4.294967296e+09\n", limitBytes)
	r.wantProblems()
}

// The memory of an APU is GTT, which dmem does not count.
func TestAPU(t *testing.T) {
	r := newRig(t, "apu-8060s", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.grant(0, 4096, 8)})
	r.start(pod)
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), 5))
	hook := regionFile{limits: []uint64{4 * gib}, slots: [][]uint64{{7}}}
	r.loadHook(pod, "c0", hook)
	want := lines(
		`hami_host_gpu_memory_total_bytes{device_index="0",device_type="`+r.devices[0].Type+`",device_uuid="D0",node="gpu-node"} 1.1811160064e+11`,
		limitBytes+labels("p", "c0", "0", "D0")+"4.294967296e+09",
		usedBytes+labels("p", "c0", "0", "D0")+"7",
	)
	r.wantSeries(want, "hami_host_gpu_memory_total_bytes", limitBytes, usedBytes)

	// Where KFD hides it, its sensors say what it is.
	bdf := r.devices[0].GPU.BDF
	fixturetest.Write(t, r.sysfs, hwmonOf(t, r.sysfs, bdf)+"/in1_label", "vddnb\n")
	fixturetest.Remove(t, r.sysfs, "devices/virtual/kfd/kfd/topology/nodes")
	fixturetest.Write(t, r.sysfs, "devices/virtual/kfd/kfd/topology/nodes/0/gpu_id", "0\n")
	r.wantSeries(want, "hami_host_gpu_memory_total_bytes", limitBytes, usedBytes)
	r.wantProblems()
}

// One tenant's broken region costs its own numbers.
func TestBrokenRegion(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	r.must(r.kernel.RemoveRegion(r.region(0)))
	for _, name := range []string{"a", "b", "c"} {
		pod := r.pod(name, []annotations.Grant{r.grant(0, 1024, 4)})
		r.loadHook(pod, "c0", regionFile{limits: []uint64{gib}, slots: [][]uint64{{3}}})
	}
	r.must(os.WriteFile(r.hookFile(r.cluster.pods[1], "c0"), []byte("garbage"), 0o644))
	r.wantSeries(lines(
		heldCUs+labels("a", "c0", "0", "D0")+"4",
		heldCUs+labels("b", "c0", "0", "D0")+"4",
		heldCUs+labels("c", "c0", "0", "D0")+"4",
		usedBytes+labels("a", "c0", "0", "D0")+"3",
		usedBytes+labels("c", "c0", "0", "D0")+"3",
	), heldCUs, usedBytes)
	r.wantProblems(`pod "ns/b": container "c0": region of the memory hook`)
}

// One pod's broken annotation, or missing cgroup, costs its own numbers.
func TestBrokenPod(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(r *rig, pod *corev1.Pod)
		want string // series of the broken pod
		err  string
	}{
		"grants that cannot be read": {func(_ *rig, pod *corev1.Pod) {
			pod.Annotations[annotations.AllocatedKey] = "A,T,x,1:;"
		}, "", `pod "ns/b": annotation hami.io/amd-devices-allocated: `},
		"grants of another number of containers": {func(r *rig, pod *corev1.Pod) {
			pod.Annotations[annotations.AllocatedKey] += pod.Annotations[annotations.AllocatedKey]
		}, "", `pod "ns/b": annotation hami.io/amd-devices-allocated: `},
		"masks that cannot be read": {func(_ *rig, pod *corev1.Pod) {
			pod.Annotations[annotations.CUContainersKey] = "{"
		}, heldCUs + labels("b", "c0", "0", "D0") + "4\n" + usedBytes + labels("b", "c0", "0", "D0") + "0\n", `pod "ns/b": decode hami.io/amd-cu-containers: `},
		"a union that cannot be read": {func(_ *rig, pod *corev1.Pod) {
			pod.Annotations[annotations.CUAllocatedKey] = "[]"
		}, heldCUs + labels("b", "c0", "0", "D0") + "4\n" + usedBytes + labels("b", "c0", "0", "D0") + "0\n", `pod "ns/b": decode hami.io/amd-cu-allocated: `},
		"a device of no node": {func(r *rig, pod *corev1.Pod) {
			pod.Annotations[annotations.AllocatedKey] = "elsewhere,AMD X,1024,4:;"
		}, heldCUs + labels("b", "c0", "0", "elsewhere") + "4\n", `pod "ns/b": container "c0": the node has no device "elsewhere"`},
		"no cgroup": {func(r *rig, pod *corev1.Pod) {
			r.must(r.kernel.Remove(podCgroupOf(pod)))
		}, heldCUs + labels("b", "c0", "0", "D0") + "4\n", `pod "ns/b": container "c0": pod "uid-b" in`},
		"another container's cgroup": {func(r *rig, pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].ContainerID = "containerd://" + containerID("other", 0)
		}, heldCUs + labels("b", "c0", "0", "D0") + "4\n", "cgroup does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "rx9060xt", partition.ModeCU)
			for _, name := range []string{"a", "b", "c"} {
				r.start(r.pod(name, []annotations.Grant{r.grant(0, 1024, 4)}))
			}
			tt.edit(r, r.cluster.pods[1])
			cus, used, _ := strings.Cut(tt.want, usedBytes)
			if used != "" {
				used = usedBytes + used
			}
			r.wantSeries(
				heldCUs+labels("a", "c0", "0", "D0")+"4\n"+cus+heldCUs+labels("c", "c0", "0", "D0")+"4\n"+
					usedBytes+labels("a", "c0", "0", "D0")+"0\n"+used+usedBytes+labels("c", "c0", "0", "D0")+"0\n",
				heldCUs, usedBytes)
			r.wantProblems(tt.err)
		})
	}
}

// Pods that hold nothing here, or nothing any more.
func TestPodsThatHoldNothing(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	for name, edit := range map[string]func(*corev1.Pod){
		"elsewhere": func(p *corev1.Pod) { p.Spec.NodeName = "other" },
		"succeeded": func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"ungranted": func(p *corev1.Pod) { delete(p.Annotations, annotations.AllocatedKey) },
		"asks-not":  func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} },
	} {
		pod := r.pod(name, []annotations.Grant{r.grant(0, 1024, 4)})
		r.start(pod)
		r.loadHook(pod, "c0", regionFile{slots: [][]uint64{{1}}})
		edit(pod)
	}
	r.wantSeries("", heldCUs, effective, limitBytes, usedBytes)
	r.wantProblems()
}

// A container that was restarted has another cgroup, and a pod that was made
// again under its name is another pod.
func TestRestarts(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.grant(0, 1024, 4)})
	r.start(pod)
	want := func(n string) {
		t.Helper()
		r.wantSeries(usedBytes+labels("p", "c0", "0", "D0")+n+"\n", usedBytes)
		r.wantProblems()
	}
	r.must(r.kernel.Charge(scopeOf(pod, 0), r.region(0), 1))
	want("1")

	again := pod.DeepCopy()
	again.Status.ContainerStatuses[0].ContainerID = "cri-o://" + containerID("p", 7)
	r.must(r.kernel.Remove(scopeOf(pod, 0)))
	r.must(r.kernel.Mkdir(scopeOf(pod, 7)))
	r.must(r.kernel.Charge(scopeOf(pod, 7), r.region(0), 2))
	r.cluster.pods = []*corev1.Pod{again}
	want("2")

	anew := pod.DeepCopy()
	anew.UID = "uid-anew"
	r.start(anew)
	r.must(r.kernel.Charge(scopeOf(anew, 0), r.region(0), 3))
	r.cluster.pods = []*corev1.Pod{anew}
	want("3")
	if len(r.cgroups.pods) != 1 || len(r.decoded) != 1 {
		t.Errorf("%d and %d pods are remembered, want 1", len(r.cgroups.pods), len(r.decoded))
	}
}

// kubelet in a container (kind) has a cgroup root of its own.
func TestNestedKubelet(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	pod := r.pod("p", []annotations.Grant{r.grant(0, 1024, 4)})
	pod.Annotations[mirrorUID] = "0123456789abcdef0123456789abcdef" // of a static pod
	dir := "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod0123456789abcdef0123456789abcdef.slice"
	scope := dir + "/crio-" + containerID("p", 0) + ".scope"
	r.must(r.kernel.Mkdir(scope))
	r.must(r.kernel.Delegate(dir))
	r.must(r.kernel.Charge(scope, r.region(0), 4))
	for range 2 {
		r.wantSeries(usedBytes+labels("p", "c0", "0", "D0")+"4\n", usedBytes)
	}
	r.wantProblems()
}
