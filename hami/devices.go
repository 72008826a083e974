package hami

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// CommonWord is the key of this backend in HAMi's device.DevicesMap and the two
// annotation maps. There must be no second key for the same annotations: HAMi
// walks all of them and would count every GPU twice.
const CommonWord = amd.Vendor

// Config is the "amd" block of HAMi's device configuration.
type Config = amd.Config

// Devices is the backend without a node score: HAMi's base score alone ranks
// the nodes.
type Devices struct {
	amd   *amd.Devices
	names device.ResourceNames
}

// ScoringDevices is the backend with a node score, of which more is better
// whatever the node policy.
//
// HAMi tells the two apart by the method PolicyNeutralScore, with which a backend
// says how its score is meant, so they are two types.
type ScoringDevices struct{ *Devices }

var (
	_ device.Devices = (*Devices)(nil)
	_ device.Devices = (*ScoringDevices)(nil)
)

// New returns the backend for a configuration, a *ScoringDevices or with
// Config.DisableScore a *Devices, or what is wrong with the configuration. It
// registers the annotations of this vendor with HAMi.
func New(config Config) (device.Devices, error) {
	devices, err := amd.New(config)
	if err != nil {
		return nil, err
	}
	register(device.InRequestDevices, annotations.ToAllocateKey)
	register(device.SupportDevices, annotations.AllocatedKey)
	config = devices.Config()
	d := &Devices{amd: devices, names: device.ResourceNames{
		ResourceCountName:  config.ResourceCountName,
		ResourceMemoryName: config.ResourceMemoryName,
	}}
	if config.QuotaCores {
		d.names.ResourceCoreName = config.ResourceCoreName
	}
	if config.DisableScore {
		return d, nil
	}
	return &ScoringDevices{d}, nil
}

// register writes only what is not there yet: by then somebody may be reading.
func register(keys map[string]string, key string) {
	if keys[CommonWord] != key {
		keys[CommonWord] = key
	}
}

// ParseDeviceConfig reads the "amd" block out of HAMi's device configuration, the
// file of its flag --device-config-file. HAMi's own reader knows three of the
// block's keys and skips the others. A file without the block is the zero
// Config.
func ParseDeviceConfig(file []byte) (Config, error) {
	var blocks struct {
		AMD json.RawMessage `json:"amd"`
	}
	if err := yaml.Unmarshal(file, &blocks); err != nil {
		return Config{}, fmt.Errorf("device config: %w", err)
	}
	return amd.ParseConfig(blocks.AMD)
}

// CommonWord returns the key of this backend.
func (d *Devices) CommonWord() string { return CommonWord }

// GetResourceNames returns the names a ResourceQuota may limit as
// "limits.<name>". Cores are not among them unless Config.QuotaCores is set:
// HAMi would compare the CUs of running pods with the percentages of new ones.
func (d *Devices) GetResourceNames() device.ResourceNames { return d.names }

// AddResourceUsage counts what Fit returned as one more share of the device.
func (d *Devices) AddResourceUsage(_ *corev1.Pod, n *device.DeviceUsage, ctr *device.ContainerDevice) error {
	u := amd.Usage{Used: n.Used, UsedMiB: n.Usedmem, UsedCUs: n.Usedcores}
	u.Add(annotations.Grant{MemoryMiB: ctr.Usedmem, CUs: ctr.Usedcores})
	n.Used, n.Usedmem, n.Usedcores = u.Used, u.UsedMiB, u.UsedCUs
	return nil
}

// ScoreNode returns 0.
func (d *Devices) ScoreNode(*corev1.Node, device.PodSingleDevice, []*device.DeviceUsage, string) float32 {
	return 0
}

// PolicyNeutralScore tells HAMi to turn the score over for the node policy
// spread, which takes the node with the lowest.
func (d *ScoringDevices) PolicyNeutralScore() {}

// ScoreNode says from 0 to 1 how little a placement strands on a node, see
// amd.Devices.Score. HAMi does not say which entries are of init containers, so
// that all are judged as running at once.
func (d *ScoringDevices) ScoreNode(_ *corev1.Node, pod device.PodSingleDevice, previous []*device.DeviceUsage, _ string) float32 {
	var grants []annotations.Grant
	for _, container := range pod {
		grants = appendGrants(grants, container)
	}
	return d.amd.Score(grants, len(previous), func(i int, u *amd.Usage) { usageOf(previous[i], u) })
}
