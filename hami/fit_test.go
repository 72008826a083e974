package hami_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/device/common"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestFit(t *testing.T) {
	const model = "AMD Instinct MI300X"
	d := newBackend(t, hami.Config{})
	for name, test := range map[string]struct {
		devices []annotations.Device
		change  func([]*device.DeviceUsage)
		pod     *corev1.Pod
		node    map[string]string // annotations
		want    device.ContainerDevices
		reason  string
	}{
		"the last candidate": {
			devices: hamitest.MI300X("GPU-"), pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			want: device.ContainerDevices{{Idx: 7, UUID: "GPU-7", Type: model, Usedmem: 16384, Usedcores: 76}},
		},
		"CUs for each XCC": {
			devices: hamitest.MI300X("GPU-"), pod: hamitest.Pod("p", nil, hamitest.Container("c", "1", "1024", "1")),
			want: device.ContainerDevices{{Idx: 7, UUID: "GPU-7", Type: model, Usedmem: 1024, Usedcores: 8}},
		},
		"two whole GPUs": {
			devices: hamitest.MI300X("GPU-"), pod: hamitest.Pod("p", nil, hamitest.Container("c", "2", "", "")),
			want: device.ContainerDevices{
				{Idx: 7, UUID: "GPU-7", Type: model, Usedmem: 196288, Usedcores: 304},
				{Idx: 6, UUID: "GPU-6", Type: model, Usedmem: 196288, Usedcores: 304},
			},
		},
		"a hard partition is granted whole": {
			devices: hamitest.MI300XCPX("GPU-"), pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			want: device.ContainerDevices{{Idx: 63, UUID: "GPU-7-p7", Type: model, Usedmem: 24536, Usedcores: 38}},
		},
		"by the pod's annotation": {
			devices: hamitest.MI300X("GPU-"), pod: hamitest.Annotated(hamitest.Pod("p", nil, hamitest.Slice("c")), annotations.UseUUIDKey, "GPU-1"),
			want: device.ContainerDevices{{Idx: 1, UUID: "GPU-1", Type: model, Usedmem: 16384, Usedcores: 76}},
		},
		"cordoned are left out": {
			devices: hamitest.MI300X("GPU-")[:2], pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			node: map[string]string{annotations.DeviceCordonKey: "GPU-1, GPU-x"},
			want: device.ContainerDevices{{Idx: 0, UUID: "GPU-0", Type: model, Usedmem: 16384, Usedcores: 76}},
		},
		"all cordoned": {
			devices: hamitest.MI300X("GPU-")[:2], pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			node:   map[string]string{annotations.DeviceCordonKey: "GPU-1,GPU-0"},
			reason: "2/2 CardCordoned",
		},
		"a cordon that cannot be read": {
			devices: hamitest.MI300X("GPU-")[:2], pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			node:   map[string]string{annotations.DeviceCordonKey: strings.Repeat(",", annotations.MaxBytes+1)},
			reason: "2/2 CardCordoned",
		},
		"counted by reason": {
			devices: hamitest.MI300X("GPU-")[:3], pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			change: func(u []*device.DeviceUsage) {
				u[0].Health, u[1].Usedmem, u[2].Usedmem, u[1].Used, u[2].Used = false, 190000, 190000, 1, 1
			},
			reason: "1/3 CardNotHealth, 2/3 CardInsufficientMemory",
		},
		"usage that wrapped": {
			devices: hamitest.MI300X("GPU-")[:1], pod: hamitest.Pod("p", nil, hamitest.Slice("c")),
			change: func(u []*device.DeviceUsage) { u[0].Usedmem = -2 },
			reason: "1/1 CardInsufficientMemory",
		},
		"more than there are": {
			devices: hamitest.MI300X("GPU-")[:2], pod: hamitest.Pod("p", nil, hamitest.Container("c", "3", "", "")),
			reason: "2/2 NodeInsufficientDevice",
		},
		"a GPU on a sidecar": {
			devices: hamitest.MI300X("GPU-")[:2], pod: hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Slice("s"))}, hamitest.Slice("c")),
			reason: "2/2 SidecarGPUNotSupported",
		},
		"a sidecar without a GPU": {
			devices: hamitest.MI300X("GPU-")[:1], pod: hamitest.Pod("p", []corev1.Container{hamitest.Sidecar(hamitest.Plain("s"))}, hamitest.Slice("c")),
			want: device.ContainerDevices{{Idx: 0, UUID: "GPU-0", Type: model, Usedmem: 16384, Usedcores: 76}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			usage := hamitest.Candidates(t, d, test.devices)
			if test.change != nil {
				test.change(usage)
			}
			before := deepCopy(usage)
			info := &device.NodeInfo{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: test.node}}}
			fits, got, reason := d.Fit(usage, request(t, d, test.pod.Spec.Containers[0]), test.pod, info, &device.PodDevices{})
			if fits != (test.reason == "") || reason != test.reason {
				t.Fatalf("fits %v, %q, want %q", fits, reason, test.reason)
			}
			want := map[string]device.ContainerDevices{"AMD": test.want}
			if !fits {
				want = nil
				if len(common.ParseReason(reason)) == 0 {
					t.Errorf("HAMi makes no event of %q", reason)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, deepCopy(usage)); diff != "" {
				t.Errorf("the devices were changed (-before +after):\n%s", diff)
			}
		})
	}
}

func deepCopy(usage []*device.DeviceUsage) []*device.DeviceUsage {
	out := make([]*device.DeviceUsage, len(usage))
	for i, u := range usage {
		out[i] = u.DeepCopy()
		delete(out[i].CustomInfo, "hami-amd")
	}
	return out
}

// HAMi has no node, or none yet, in some of its calls.
func TestFitWithoutANode(t *testing.T) {
	d := newBackend(t, hami.Config{})
	pod := hamitest.Pod("p", nil, hamitest.Slice("c"))
	for _, info := range []*device.NodeInfo{nil, {}} {
		if fits, _, reason := d.Fit(hamitest.Candidates(t, d, hamitest.MI300X("GPU-")), request(t, d, hamitest.Slice("c")), pod, info, nil); !fits {
			t.Error(reason)
		}
	}
}

// Devices that did not come from GetNodeDevices have custominfo as encoding/json
// decodes it.
func TestFitReadsPlainCustomInfo(t *testing.T) {
	d := newBackend(t, hami.Config{})
	usage := []*device.DeviceUsage{{
		ID: "a", Count: 4, Totalmem: 24560, Totalcore: 96, Type: "AMD Radeon RX 7900 XTX", Health: true,
		CustomInfo: map[string]any{"cuPerWGP": float64(2), "numXCC": float64(1), "pciBDF": "0000:03:00.0"},
	}}
	pod := hamitest.Pod("p", nil, hamitest.Container("c", "1", "1024", "4"))
	_, got, reason := d.Fit(usage, request(t, d, pod.Spec.Containers[0]), pod, nil, nil)
	if reason != "" || got["AMD"][0].Usedcores != 4 { // floor(3.84) in whole WGPs
		t.Errorf("%v, %q, want 4 CUs", got, reason)
	}
}

// The policy of the scheduler's flag holds for pods that name none.
func TestFitFollowsTheFlag(t *testing.T) {
	device.GPUSchedulerPolicy = "mutex"
	t.Cleanup(func() { device.GPUSchedulerPolicy = "" })
	d := newBackend(t, hami.Config{})
	usage := hamitest.Candidates(t, d, hamitest.MI300X("GPU-")[:1])
	usage[0].Used, usage[0].Usedmem, usage[0].Usedcores = 1, 16384, 76
	pod := hamitest.Pod("p", nil, hamitest.Slice("c"))
	if _, _, reason := d.Fit(usage, request(t, d, hamitest.Slice("c")), pod, nil, nil); reason != "1/1 ExclusiveDeviceAllocateConflict" {
		t.Errorf("reason %q", reason)
	}
	hamitest.Annotated(pod, annotations.GPUSchedulerPolicyKey, "binpack")
	if fits, _, reason := d.Fit(usage, request(t, d, hamitest.Slice("c")), pod, nil, nil); !fits {
		t.Errorf("reason %q, want the pod's own policy", reason)
	}
}
