package hami

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// sidecarReason is the refusal of a pod with a GPU on a sidecar that came past
// the admission webhook. HAMi makes an event of any word.
const sidecarReason = "SidecarGPUNotSupported"

// Fit picks devices for a container's request on one node, under the key of the
// request's type, or says why it cannot be done in the form of HAMi's events. The
// best device is the last. See amd.Devices.Fit.
//
// allocated is what the pod's containers before this one got; it counts towards
// a ResourceQuota, which nobody checks for whole GPUs and percentages before.
// Nothing that is given is changed.
func (d *Devices) Fit(devices []*device.DeviceUsage, request device.ContainerDeviceRequest, pod *corev1.Pod, nodeInfo *device.NodeInfo, allocated *device.PodDevices) (bool, map[string]device.ContainerDevices, string) {
	if len(pod.Spec.InitContainers) > 0 && d.sidecarAsks(pod) {
		return false, nil, fmt.Sprintf("%d/%[1]d %s", len(devices), sidecarReason)
	}
	policy := amd.ParsePolicy(pod.Annotations, device.GPUSchedulerPolicy)
	policy.Quota = d.quota(pod, request, allocated)
	cordon, allCordoned := cordonOf(nodeInfo)
	grants, reasons := d.amd.Fit(fromHAMi(request), policy, len(devices), func(i int, u *amd.Usage) {
		usageOf(devices[i], u)
		u.Cordoned = allCordoned || cordon.Has(u.ID)
	})
	if reasons.Refused() {
		return false, nil, reasons.String()
	}
	chosen := make(device.ContainerDevices, len(grants))
	for i, g := range grants {
		chosen[i] = device.ContainerDevice{
			Idx: indexOf(devices, g.UUID), UUID: g.UUID, Type: g.Type, Usedmem: g.MemoryMiB, Usedcores: g.CUs,
		}
	}
	return true, map[string]device.ContainerDevices{request.Type: chosen}, ""
}

// indexOf is the registered index of a device.
func indexOf(devices []*device.DeviceUsage, id string) int {
	for _, d := range devices {
		if d.ID == id {
			return int(d.Index)
		}
	}
	return 0
}

// cordonOf is the node's cordoned devices: all where the list cannot be read.
func cordonOf(info *device.NodeInfo) (cordon annotations.Cordon, all bool) {
	if info == nil || info.Node == nil {
		return nil, false
	}
	value, ok := info.Node.Annotations[annotations.DeviceCordonKey]
	if !ok {
		return nil, false
	}
	cordon, err := annotations.ParseCordon(value)
	return cordon, err != nil
}

// appendGrants translates a container's devices.
func appendGrants(grants []annotations.Grant, devices device.ContainerDevices) []annotations.Grant {
	for i := range devices {
		c := &devices[i]
		grants = append(grants, annotations.Grant{UUID: c.UUID, Type: c.Type, MemoryMiB: c.Usedmem, CUs: c.Usedcores})
	}
	return grants
}
