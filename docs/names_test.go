package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/plugin"
)

var code = regexp.MustCompile("`([^`\n]+)`")

// codeOf are the words in code style of all documents, with those of their
// commands, by document.
func codeOf(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, d := range documents(t) {
		for _, m := range code.FindAllStringSubmatch(d.prose, -1) {
			out[d.name] = append(out[d.name], m[1])
		}
		for _, b := range d.blocks {
			if b.language == "sh" {
				out[d.name] = append(out[d.name], b.text)
			}
		}
	}
	return out
}

// check looks at all that a pattern finds in code style. At least so many
// different ones have to be found.
func check(t *testing.T, pattern string, least int, exists func(name string) bool) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	seen := map[string]bool{}
	for file, words := range codeOf(t) {
		for _, word := range words {
			for _, name := range re.FindAllString(word, -1) {
				seen[name] = true
				if !exists(name) {
					t.Errorf("%s names %s, which does not exist", file, name)
				}
			}
		}
	}
	if len(seen) < least {
		t.Errorf("%d names found, want %d at least", len(seen), least)
	}
}

func TestValuesExist(t *testing.T) {
	source, err := os.ReadFile(root + "/examples/deviceplugin/chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(source, &values); err != nil {
		t.Fatal(err)
	}
	check(t, `\b(dp|monitor)\.[a-zA-Z]+(\.[a-zA-Z]+)*`, 15, func(name string) bool {
		var at any = values
		for part := range strings.SplitSeq(name, ".") {
			inner, ok := at.(map[string]any)
			if !ok {
				return false
			}
			if at, ok = inner[part]; !ok {
				return false
			}
		}
		return true
	})
}

// keys are the annotations and labels of the protocol.
var keys = []string{
	annotations.NodeRegisterKey, annotations.NodeLockKey, annotations.DeviceCordonKey, annotations.OperatingModeKey,
	annotations.ComputePartitionKey, annotations.ToAllocateKey, annotations.AllocatedKey, annotations.CUAllocatedKey,
	annotations.CUContainersKey, annotations.VGPUNodeKey, annotations.VGPUTimeKey, annotations.BindTimeKey,
	annotations.BindPhaseKey, annotations.GPUSchedulerPolicyKey, annotations.NodeSchedulerPolicyKey,
	annotations.ScoringWeightsKey, annotations.UseTypeKey, annotations.NoUseTypeKey, annotations.UseUUIDKey,
	annotations.NoUseUUIDKey, annotations.NUMABindKey, amd.GPUIndexKey,
}

// resources are those of a container, and a partition's own.
var resources = []string{
	amd.DefaultCountName, amd.DefaultMemoryName, amd.DefaultMemoryPercentageName, amd.DefaultCoreName, amd.DefaultPriorityName,
	"amd.com/cpx_nps4",
}

func TestKeysAndResourcesExist(t *testing.T) {
	known := slices.Concat(keys, resources, []string{"hami.io/webhook"})
	// jsonpath wants a backslash before the dots of a key.
	check(t, `\b(hami|amd)\\?\.(io|com)/[a-z0-9_.-]*[a-z0-9]`, 25, func(name string) bool {
		name = strings.ReplaceAll(name, `\`, "")
		return slices.Contains(known, name) || name == "amd.com/gpu="
	})
}

// Each key, resource and variable is in protocol.md.
func TestProtocolIsWhole(t *testing.T) {
	text, err := os.ReadFile("protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(keys, resources, []string{
		hook.LimitEnv, hook.LimitEnvPrefix + "0", hook.CacheEnv, hook.OversubscribeEnv, hook.LogLevelEnv, hook.AuditEnv, amd.TaskPriorityEnv,
		"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "HSA_CU_MASK",
	}) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("protocol.md does not have %s", name)
		}
	}
}

// Variables are those that the plugin sets, reads or refuses, and kubelet's.
func TestVariablesExist(t *testing.T) {
	known := slices.Concat(hook.ReservedEnv(), []string{
		hook.LimitEnv, hook.LimitEnvPrefix + "0", hook.CacheEnv, hook.LogLevelEnv, hook.AuditEnv, amd.TaskPriorityEnv,
		"CONFIG_CGROUP_DMEM", // the kernel's
	})
	for _, s := range plugin.Settings() {
		known = append(known, s.Variable)
	}
	check(t, `\b[A-Z][A-Z0-9]+(_[A-Z0-9]+)+\b`, 12, func(name string) bool { return slices.Contains(known, name) })
}

// Flags are amdctl's in its commands, the plugin's and the monitor's elsewhere.
func TestFlagsExist(t *testing.T) {
	known := []string{"o"} // of amdctl and kubectl
	for _, s := range plugin.Settings() {
		known = append(known, s.Flag)
	}
	for _, words := range codeOf(t) {
		for _, word := range words {
			name, ok := strings.CutPrefix(strings.Fields(word)[0], "-")
			if ok && !strings.HasPrefix(name, "-") && !slices.Contains(known, name) {
				t.Errorf("-%s is no flag of the plugin", name)
			}
		}
	}
}

// The flags of amdctl that the text names exist; those in commands are run.
func TestAmdctlFlagsExist(t *testing.T) {
	bin, err := amdctl()
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	for _, command := range []string{"discover", "decode", "pack", "fit", "allocate", "simulate", "verify", "explain", "draw"} {
		out, err := exec.Command(bin, command, "-h").Output()
		if err != nil {
			t.Fatal(err)
		}
		help.Write(out)
	}
	for file, words := range codeOf(t) {
		for _, word := range words {
			if name, ok := strings.CutPrefix(word, "--"); ok && !strings.Contains(word, "\n") && !strings.Contains(help.String(), "--"+strings.Fields(name)[0]) {
				t.Errorf("%s names --%s, which no command of amdctl has", file, name)
			}
		}
	}
}

// Metrics are those in the dashboard or the documentation of package monitor.
func TestMetricsExist(t *testing.T) {
	source, err := os.ReadFile(root + "/monitor/descs.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`"(hami_[a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
	var metrics []string
	for _, m := range all {
		metrics = append(metrics, m[1])
	}
	check(t, `\bhami_[a-z_]+`, len(metrics), func(name string) bool { return slices.Contains(metrics, name) })
}

// The rows of the register annotation name members that an entry has.
func TestRegisterMembersExist(t *testing.T) {
	value, err := annotations.EncodeDevices([]annotations.Device{{
		ID: "i", Index: 1, Count: 1, Devmem: 1, Devcore: 1, Type: "t", Numa: 1, Mode: "m", Health: true,
		CustomInfo: annotations.CustomInfo{
			PCIBDF: "p", CUsPerWGP: 1, NumXCC: 1, ComputeQueues: 1, XGMIPeers: []string{"x"}, PartitionProfile: "p",
			PartitionProfiles: []annotations.PartitionProfile{{}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	protocol, err := os.ReadFile("protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	if err := json.Unmarshal([]byte(value), &entries); err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	members := entries[0]
	custom, _ := members["custominfo"].(map[string]any)
	if len(members) < 9 || len(custom) < 7 {
		t.Fatalf("%d members, %d of custominfo: %s", len(members), len(custom), value)
	}
	for _, m := range []map[string]any{members, custom} {
		for name := range m {
			if !strings.Contains(string(protocol), "`"+name+"`") {
				t.Errorf("protocol.md does not name the member %s", name)
			}
		}
	}
}

// Kinds of problems are those that amdctl verify knows.
func TestProblemsExist(t *testing.T) {
	bin, err := amdctl()
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command(bin, "verify", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, d := range documents(t) {
		for _, m := range regexp.MustCompile("`((?:Mask|Grant|Lock|Bind|Unknown|Unlimited)[A-Za-z]+)`").FindAllStringSubmatch(d.prose, -1) {
			if m[1] == "BindingFailed" { // HAMi's event
				continue
			}
			found++
			if !regexp.MustCompile(`(?m)^` + m[1] + ` `).Match(list) {
				t.Errorf("%s names %s, which verify does not report", d.name, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no kind of problem found")
	}
}
