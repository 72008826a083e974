package hami_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/amd/amdtest"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
)

// adapter looks at the backend through HAMi's interface.
type adapter struct{ device.Devices }

func (a adapter) Request(ctr *corev1.Container) (amd.Request, error) {
	r, err := generate(a.Devices, ctr)
	return amd.Request{Count: r.Nums, MemoryMiB: r.Memreq, MemoryPercent: r.MemPercentagereq, Cores: r.Coresreq}, err
}

func (a adapter) NodeDevices(node *corev1.Node) ([]annotations.Device, error) {
	infos, err := a.GetNodeDevices(*node)
	devices := make([]annotations.Device, len(infos))
	for i, info := range infos {
		devices[i].ID = info.ID
	}
	return devices, err
}

func (a adapter) Fit(usage []amd.Usage, req amd.Request, pod *corev1.Pod) ([]annotations.Grant, string, bool) {
	devices, node := toDevices(usage)
	r := device.ContainerDeviceRequest{
		Nums: req.Count, Type: hami.CommonWord, Memreq: req.MemoryMiB, MemPercentagereq: req.MemoryPercent, Coresreq: req.Cores,
	}
	fits, placed, reason := a.Devices.Fit(devices, r, pod, &device.NodeInfo{Node: node}, &device.PodDevices{})
	var grants []annotations.Grant
	for _, d := range placed[hami.CommonWord] {
		grants = append(grants, annotations.Grant{UUID: d.UUID, Type: d.Type, MemoryMiB: d.Usedmem, CUs: d.Usedcores})
	}
	return grants, reason, fits
}

func (a adapter) Score(usage []amd.Usage, grants []annotations.Grant) float32 {
	devices, node := toDevices(usage)
	var placed device.ContainerDevices
	for _, g := range grants {
		placed = append(placed, device.ContainerDevice{UUID: g.UUID, Type: g.Type, Usedmem: g.MemoryMiB, Usedcores: g.CUs})
	}
	return a.ScoreNode(node, device.PodSingleDevice{placed}, devices, "binpack")
}

// toDevices are the usages as HAMi would have them.
func toDevices(usage []amd.Usage) ([]*device.DeviceUsage, *corev1.Node) {
	node := &corev1.Node{}
	node.Annotations = map[string]string{annotations.DeviceCordonKey: ""}
	devices := make([]*device.DeviceUsage, len(usage))
	for i, u := range usage {
		if u.Cordoned {
			node.Annotations[annotations.DeviceCordonKey] += u.ID + ","
		}
		devices[i] = &device.DeviceUsage{
			ID: u.ID, Index: u.Index, Type: u.Type, Mode: u.Mode, Numa: u.NUMA, Health: u.Health,
			Count: u.Count, Used: u.Used, Totalmem: u.MemoryMiB, Usedmem: u.UsedMiB, Totalcore: u.CUs, Usedcores: u.UsedCUs,
			CustomInfo: map[string]any{"hami-amd": &annotations.Device{CustomInfo: annotations.CustomInfo{
				NumXCC: int(u.XCCs), CUsPerWGP: int(u.CUsPerWGP), PCIBDF: u.PCIBDF, XGMIPeers: u.XGMIPeers,
			}}},
		}
	}
	return devices, node
}

func TestConformance(t *testing.T) {
	for name, config := range map[string]hami.Config{"default": {}, "without score": {DisableScore: true}} {
		t.Run(name, func(t *testing.T) { amdtest.Run(t, adapter{newBackend(t, config)}) })
	}
}
