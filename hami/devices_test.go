package hami_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestNewRegistersTheAnnotationsOnce(t *testing.T) {
	device.InRequestDevices, device.SupportDevices = map[string]string{}, map[string]string{}
	for range 2 {
		if got := newBackend(t, hami.Config{}).CommonWord(); got != "AMD" {
			t.Errorf("CommonWord %q, want AMD", got)
		}
		if diff := cmp.Diff(map[string]string{"AMD": annotations.ToAllocateKey}, device.InRequestDevices); diff != "" {
			t.Errorf("InRequestDevices (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"AMD": annotations.AllocatedKey}, device.SupportDevices); diff != "" {
			t.Errorf("SupportDevices (-want +got):\n%s", diff)
		}
	}
}

func TestNewRefusesABrokenConfiguration(t *testing.T) {
	device.SupportDevices = map[string]string{}
	d, err := hami.New(hami.Config{ResourceCountName: "gpu"})
	if d != nil || err == nil || !strings.Contains(err.Error(), "resourceCountName") {
		t.Errorf("%v, %v, want an error that names the key", d, err)
	}
	if len(device.SupportDevices) > 0 {
		t.Errorf("a refused backend registered %v", device.SupportDevices)
	}
}

// HAMi asks whether a backend has the method, not what it returns.
func TestPolicyNeutralScoreUnlessScoreIsOff(t *testing.T) {
	type policyNeutral interface{ PolicyNeutralScore() }
	placed := device.PodSingleDevice{{{UUID: "GPU-0", Type: "AMD Instinct MI300X", Usedmem: 16384, Usedcores: 76}}}
	for name, test := range map[string]struct {
		config hami.Config
		scores bool
	}{
		"on by default": {hami.Config{}, true},
		"off":           {hami.Config{DisableScore: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBackend(t, test.config)
			if _, declares := d.(policyNeutral); declares != test.scores {
				t.Errorf("declares PolicyNeutralScore: %v, want %v", declares, test.scores)
			}
			score := d.ScoreNode(nil, placed, hamitest.Candidates(t, d, hamitest.MI300X("GPU-")), "spread")
			if (score != 0) != test.scores || score < 0 || score > 1 {
				t.Errorf("score %v, want one from 0 to 1, not 0: %v", score, test.scores)
			}
		})
	}
}

// A slice of an idle hive breaks it, one beside another slice does not.
func TestScoreNodePrefersWhatStrandsLess(t *testing.T) {
	d := newBackend(t, hami.Config{})
	placed := device.PodSingleDevice{{}, {{UUID: "GPU-0", Type: "AMD Instinct MI300X", Usedmem: 49072, Usedcores: 76}}}
	idle, used := hamitest.Candidates(t, d, hamitest.MI300X("GPU-")), hamitest.Candidates(t, d, hamitest.MI300X("GPU-"))
	used[0].Used, used[0].Usedmem, used[0].Usedcores = 1, 49072, 76
	for _, policy := range []string{"binpack", "spread"} {
		if a, b := d.ScoreNode(nil, placed, idle, policy), d.ScoreNode(nil, placed, used, policy); a >= b {
			t.Errorf("%s: score %v on an idle node, %v beside another slice, want less", policy, a, b)
		}
	}
}

func TestGetResourceNames(t *testing.T) {
	for name, test := range map[string]struct {
		config hami.Config
		want   device.ResourceNames
	}{
		"no quota of cores": {hami.Config{}, device.ResourceNames{ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem"}},
		"with QuotaCores": {hami.Config{QuotaCores: true}, device.ResourceNames{
			ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem", ResourceCoreName: "amd.com/gpucores",
		}},
		"own names": {hami.Config{ResourceCountName: "example.com/g", ResourceMemoryName: "example.com/m"}, device.ResourceNames{
			ResourceCountName: "example.com/g", ResourceMemoryName: "example.com/m",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, newBackend(t, test.config).GetResourceNames()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddResourceUsage(t *testing.T) {
	d := newBackend(t, hami.Config{})
	usage := &device.DeviceUsage{Count: 10, Used: 1, Totalmem: 1000, Usedmem: 100, Totalcore: 304, Usedcores: 76}
	if err := d.AddResourceUsage(nil, usage, &device.ContainerDevice{Usedmem: 200, Usedcores: 38}); err != nil {
		t.Fatal(err)
	}
	if usage.Used != 2 || usage.Usedmem != 300 || usage.Usedcores != 114 {
		t.Errorf("%+v", usage)
	}
	if err := d.AddResourceUsage(nil, usage, &device.ContainerDevice{Usedmem: math.MaxInt32}); err != nil {
		t.Fatal(err)
	}
	if usage.Usedmem != math.MaxInt32 {
		t.Errorf("%d MiB in use, want no wrap beyond int32", usage.Usedmem)
	}
}

func TestParseDeviceConfig(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want hami.Config
		err  string
	}{
		"empty":           {"", hami.Config{}, ""},
		"without a block": {"nvidia:\n  resourceCountName: nvidia.com/gpu\n", hami.Config{}, ""},
		"an empty block":  {"amd:\n", hami.Config{}, ""},
		"HAMi's chart": {
			"nvidia:\n  overwriteEnv: false\namd:\n  resourceCountName: \"amd.com/gpu\"\n  resourceCoreName: \"amd.com/gpucores\"\n  resourceMemoryName: \"amd.com/gpumem\"\n",
			hami.Config{ResourceCountName: "amd.com/gpu", ResourceCoreName: "amd.com/gpucores", ResourceMemoryName: "amd.com/gpumem"}, "",
		},
		"ours":             {"amd: {disableScore: true, rounding: balanced}\n", hami.Config{DisableScore: true, Rounding: "balanced"}, ""},
		"an unknown key":   {"amd: {resourceCuntName: amd.com/gpu}\n", hami.Config{}, `"resourceCuntName"`},
		"a wrong value":    {"amd: {defaultCores: 101}\n", hami.Config{}, "defaultCores"},
		"a list":           {"amd: [1]\n", hami.Config{}, "amd config"},
		"not YAML":         {"amd: {", hami.Config{}, "device config"},
		"not a map at all": {"- amd\n", hami.Config{}, "device config"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hami.ParseDeviceConfig([]byte(test.file))
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("%v, want an error with %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
