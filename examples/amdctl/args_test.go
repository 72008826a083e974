package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// A policy that the scheduler would ignore is a mistake on the command line.
func TestPoliciesThatNobodyKnowsAreRefused(t *testing.T) {
	pod := podFiles + "01-notebook.yaml"
	for _, command := range [][]string{fitArgs(pod), allocateArgs(pod), {"explain", "p", "--nodes", nodesFile}} {
		refused(t, "", append(command, "--gpu-policy", "best"), `"best" for "--gpu-policy"`, "want binpack or spread or mutex or topology-aware or numa")
		refused(t, "", append(command, "--node-policy", "mutex"), `"mutex" for "--node-policy"`, "want binpack or spread")
	}
	ok(t, "", fitArgs(pod, "--gpu-policy", "binpack,numa", "--node-policy", "spread")...)
	ok(t, "", fitArgs(pod, "--gpu-policy", "", "--node-policy", "")...)
}

// In a pod it is noted.
func TestPoliciesOfAPodThatNobodyKnowsAreNoted(t *testing.T) {
	pod := `{"kind":"Pod","metadata":{"name":"p","annotations":{"hami.io/node-scheduler-policy":"foo"}},
		"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":1}}}]}}`
	const says = `hami.io/node-scheduler-policy: want binpack or spread, found "foo", which is ignored`
	if r := ok(t, pod, "fit", "--nodes", nodesFile, "--pods", podsFile, "--pod", "-"); strings.Count(r.stderr, says) != 1 {
		t.Errorf("fit says %s", r.stderr)
	}
	cluster := file(t, "cluster.yaml", clean(t)+"---\n"+pod)
	if r := ok(t, "", "explain", "p", "--cluster", cluster); strings.Count(oneLine(r.stdout), says) != 1 {
		t.Errorf("explain says %s", r.stdout)
	}
}

// The configuration is the block, or the file that it stands in.
func TestConfigIsTheBlockOrAllOfTheFile(t *testing.T) {
	const block = "resourceCountName: example.com/gpu\n"
	for name, tc := range map[string]struct{ config, refused string }{
		"the block":                    {config: block},
		"the block under its key":      {config: "amd:\n  " + block},
		"HAMi's whole configuration":   {config: "nvidia:\n  resourceCountName: nvidia.com/gpu\namd:\n  " + block},
		"JSON":                         {config: `{"amd":{"resourceCountName":"example.com/gpu"}}`},
		"an unknown key in the block":  {"amd:\n  resourceCount: example.com/gpu\n", `unknown keys "resourceCount"`},
		"a key twice in the block":     {"amd:\n  " + block + "  " + block, "already set"},
		"a key beside the block":       {"amd:\n  " + block + "rounding: plain\n", `key "rounding": want it in the block "amd"`},
		"no block under its key":       {"amd: gpu\n", "amd config"},
		"another vendor's block alone": {"nvidia:\n  " + block, `unknown keys "nvidia"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"verify", "--cluster", "-", "--config", file(t, "config.yaml", tc.config)}
			if tc.refused != "" {
				refused(t, clean(t), args, "--config", "config.yaml", tc.refused)
			} else if r := found(t, clean(t), args...); !strings.Contains(r.stdout, string(inspect.AnnotationsForged)) {
				t.Errorf("the names in the block do not count: %s", r.stdout)
			}
		})
	}
}

func TestSubcommandsSayWhatTheyWant(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"an argument too many": {[]string{"discover", "extra"}, `discover: want no argument, found "extra" (see amdctl discover -h)`},
		"nothing to decode":    {[]string{"decode"}, "decode: want KEY and VALUE, found 0 arguments (see amdctl decode -h)"},
		"no pod to explain":    {[]string{"explain"}, "explain: want one POD, found 0 arguments (see amdctl explain -h)"},
		"CUs beyond any GPU":   {[]string{"pack", "--cus", "304", "--used", "2000", "--want", "8"}, `part "2000": want numbers up to 1023: invalid list or mask`},
		"fewer CUs than XCCs":  {[]string{"pack", "--cus", "304", "--xccs", "8", "--want", "4"}, "packing 4 cus: want 8 to 304, one or more on each of 8 xccs: not grantable on this gpu"},
		"half a WGP":           {[]string{"pack", "--cus", "32", "--cus-per-wgp", "2", "--want", "1"}, "want 2 to 32, in wgps of 2: not grantable on this gpu"},
		"another's key":        {[]string{"decode", "hami.io/nothing", "x"}, `decode "hami.io/nothing": want a key such as hami.io/node-amd-register or HSA_CU_MASK (see amdctl decode -h)`},
		"nodes without nodes":  {[]string{"fit", "--nodes", podsFile, "--pod", podFiles + "01-notebook.yaml"}, "want the nodes of the cluster, found 0 nodes and 4 pods"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", tc.args, tc.says) })
	}
	if r := asPlugin(t, "decode"); !strings.Contains(r.stderr, "(see kubectl amd decode -h)") {
		t.Errorf("under kubectl it says %s", r.stderr)
	}
	if r := ok(t, "", "discover", "--sysfs", "../../testdata/machines/empty.txt"); !strings.Contains(r.stderr, "/dev/kfd") {
		t.Errorf("a node without GPUs is told %s", r.stderr)
	}
}

func TestVersion(t *testing.T) {
	if got := ok(t, "", "--version").stdout; !strings.HasPrefix(got, "amdctl version ") || strings.Count(got, "\n") != 1 {
		t.Errorf("--version prints %q", got)
	}
	if r := asPlugin(t, "--version"); !strings.HasPrefix(r.stdout, "kubectl amd version ") {
		t.Errorf("under kubectl --version prints %q", r.stdout)
	}
}

// A live cluster was asked for its pods, so that it has none is known.
func TestLiveClusterWithoutPods(t *testing.T) {
	node, _, _ := strings.Cut(clean(t), "\n---")
	fakeKubectl(t, node)
	r := amdctl(t, "", "verify", "--context", "prod", "-o", "json")
	var answer verified
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || answer.Nodes == 0 || answer.Pods != 0 {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	if strings.Contains(r.stderr, "pods") {
		t.Errorf("notes %q", r.stderr)
	}
}
