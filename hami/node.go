package hami

import (
	"context"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// registeredKey is where in a device's CustomInfo HAMi carries the
// *annotations.Device it comes from, from GetNodeDevices to Fit and ScoreNode.
// HAMi copies the map for each device and each pod it schedules, so that one
// entry is cheaper than the members of custominfo, and the devices are shared
// and never written to.
const registeredKey = "hami-amd"

// GetNodeDevices returns the AMD GPUs the node has registered. A node that
// registers none has none, upon which HAMi forgets those it had. A list that
// cannot be read is an error, upon which HAMi keeps them.
func (d *Devices) GetNodeDevices(n corev1.Node) ([]*device.DeviceInfo, error) {
	registered, err := d.amd.NodeDevices(&n)
	if err != nil {
		return []*device.DeviceInfo{}, err
	}
	infos := make([]device.DeviceInfo, len(registered))
	pointers := make([]*device.DeviceInfo, len(registered))
	for i := range registered {
		infos[i] = deviceInfo(&registered[i])
		pointers[i] = &infos[i]
	}
	return pointers, nil
}

func deviceInfo(d *annotations.Device) device.DeviceInfo {
	typ := d.Type
	if !strings.HasPrefix(typ, CommonWord) {
		// HAMi offers an AMD pod only devices whose type has "AMD" in it.
		typ = annotations.SanitizeType(typ)
	}
	return device.DeviceInfo{
		ID: d.ID, Index: d.Index, Count: d.Count, Devmem: d.Devmem, Devcore: d.Devcore,
		Type: typ, Numa: d.Numa, Mode: d.Mode, Health: d.Health, DeviceVendor: CommonWord,
		CustomInfo: map[string]any{registeredKey: d},
	}
}

// usageOf translates a device and what is in use of it.
func usageOf(d *device.DeviceUsage, u *amd.Usage) {
	u.ID, u.Type, u.Mode, u.Index, u.NUMA, u.Health = d.ID, d.Type, d.Mode, d.Index, d.Numa, d.Health
	u.Count, u.MemoryMiB, u.CUs = d.Count, d.Totalmem, d.Totalcore
	u.Used, u.UsedMiB, u.UsedCUs = inUse(d.Used), inUse(d.Usedmem), inUse(d.Usedcores)
	if r, ok := d.CustomInfo[registeredKey].(*annotations.Device); ok {
		u.XCCs, u.CUsPerWGP = int32(r.CustomInfo.NumXCC), int32(r.CustomInfo.CUsPerWGP)
		u.PCIBDF, u.XGMIPeers = r.CustomInfo.PCIBDF, r.CustomInfo.XGMIPeers
		return
	}
	// Not from GetNodeDevices: the members of custominfo as encoding/json has them.
	xccs, _ := d.CustomInfo["numXCC"].(float64)
	perWGP, _ := d.CustomInfo["cuPerWGP"].(float64)
	u.XCCs, u.CUsPerWGP = int32(xccs), int32(perWGP)
	u.PCIBDF, _ = d.CustomInfo["pciBDF"].(string)
}

// inUse believes no negative usage, which comes of a pod's annotation that
// counts backwards or sums beyond int32: nothing is free then.
func inUse(n int32) int32 {
	if n < 0 {
		return math.MaxInt32
	}
	return n
}

// NodeCleanUp takes the list of devices off a node that no longer offers any.
func (d *Devices) NodeCleanUp(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), apiTimeout)
	defer cancel()
	d.amd.ForgetNode(name)
	err := patchNode(ctx, name, "", annotations.NodeRegisterKey, nil)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
