package amd

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestParsePolicyWords(t *testing.T) {
	for name, test := range map[string]struct {
		pod      map[string]string
		fallback string
		want     string
	}{
		"nothing":                    {nil, "", ""},
		"the scheduler's":            {nil, "topology-aware", "topology"},
		"the pod's over that":        {map[string]string{annotations.GPUSchedulerPolicyKey: "numa"}, "topology-aware", "numa"},
		"an empty one over that":     {map[string]string{annotations.GPUSchedulerPolicyKey: ""}, "mutex", ""},
		"a list":                     {map[string]string{annotations.GPUSchedulerPolicyKey: "binpack, mutex ,numa,topology-aware"}, "", "mutex topology numa"},
		"sort keys alone":            {map[string]string{annotations.GPUSchedulerPolicyKey: "binpack"}, "", ""},
		"words in another case":      {map[string]string{annotations.GPUSchedulerPolicyKey: "Mutex,NUMA"}, "", ""},
		"bound to a NUMA node":       {map[string]string{annotations.NUMABindKey: "true"}, "", "bind"},
		"bound, as Go reads it":      {map[string]string{annotations.NUMABindKey: "T"}, "", "bind"},
		"bound to what is no answer": {map[string]string{annotations.NUMABindKey: "yes"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := ParsePolicy(test.pod, test.fallback)
			var got []string
			for word, on := range map[string]bool{"mutex": p.Mutex, "topology": p.TopologyAware, "numa": p.NUMA, "bind": p.NUMABind} {
				if on != strings.Contains(test.want, word) {
					got = append(got, fmt.Sprintf("%s %v", word, on))
				}
			}
			if len(got) > 0 {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// The lists follow HAMi's CheckType and CheckUUID.
func TestPolicyLists(t *testing.T) {
	for name, test := range map[string]struct {
		key, value string
		want       bool // for a MI300X with id GPU-a and index 3
	}{
		"use type, part of it":              {annotations.UseTypeKey, "MI300", true},
		"use type, any case":                {annotations.UseTypeKey, "instinct mi300x", true},
		"use type, another":                 {annotations.UseTypeKey, "MI250", false},
		"use type, one of two":              {annotations.UseTypeKey, "MI250 , MI300", true},
		"use type, empty":                   {annotations.UseTypeKey, "", true},
		"use type, spaces":                  {annotations.UseTypeKey, "   ", true},
		"use type, commas":                  {annotations.UseTypeKey, ", ", false},
		"use type, trailing comma":          {annotations.UseTypeKey, "MI250,", false},
		"avoid type, part of it":            {annotations.NoUseTypeKey, "MI300", false},
		"avoid type, another":               {annotations.NoUseTypeKey, "MI250", true},
		"avoid type, empty":                 {annotations.NoUseTypeKey, "", true},
		"avoid type, commas":                {annotations.NoUseTypeKey, ", ", true},
		"avoid type, leading comma":         {annotations.NoUseTypeKey, ",MI250", true},
		"use id":                            {annotations.UseUUIDKey, "GPU-b, GPU-a", true},
		"use id, another case":              {annotations.UseUUIDKey, "gpu-a", false},
		"use id, part of it":                {annotations.UseUUIDKey, "GPU-", false},
		"use id, more than it":              {annotations.UseUUIDKey, "GPU-aa", false},
		"use id, commas":                    {annotations.UseUUIDKey, ",", false},
		"use id, empty":                     {annotations.UseUUIDKey, "", true},
		"avoid id":                          {annotations.NoUseUUIDKey, "GPU-b,GPU-a", false},
		"avoid id, another":                 {annotations.NoUseUUIDKey, "GPU-b", true},
		"index":                             {GPUIndexKey, "0, 3", true},
		"index, another":                    {GPUIndexKey, "0,1", false},
		"index, no number":                  {GPUIndexKey, "three", false},
		"index, a number beside":            {GPUIndexKey, "three,3", true},
		"index, negative":                   {GPUIndexKey, "-3", false},
		"index, beyond all":                 {GPUIndexKey, "4294967299", false},
		"index, empty":                      {GPUIndexKey, "", true},
		"index, commas":                     {GPUIndexKey, ",", false},
		"a list too long to use":            {annotations.UseUUIDKey, strings.Repeat("GPU-b,", 2000) + "GPU-a", false},
		"a list too long to avoid":          {annotations.NoUseUUIDKey, strings.Repeat("GPU-b,", 2000) + "GPU-a", false},
		"a list of types too long to avoid": {annotations.NoUseTypeKey, strings.Repeat("MI250,", 2000), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := ParsePolicy(map[string]string{test.key: test.value}, "")
			got := p.allowsType("AMD Instinct MI300X") && p.allowsUUID("GPU-a") && p.allowsIndex(3)
			if got != test.want {
				t.Errorf("allowed %v, want %v", got, test.want)
			}
		})
	}
}

// Whatever a pod says, the policy is read without harm, and a device that is
// avoided by name is never allowed.
func FuzzParsePolicy(f *testing.F) {
	f.Add("binpack,mutex", "MI300X,", "GPU-a", "1,2", "true", "GPU-a")
	f.Add(",", ",", ",", ",", ",", ",")
	f.Add("", "", "", "99999999999999999999", "", "\x00")
	f.Fuzz(func(t *testing.T, policy, types, ids, indexes, bind, avoided string) {
		p := ParsePolicy(map[string]string{
			annotations.GPUSchedulerPolicyKey: policy, annotations.UseTypeKey: types, annotations.UseUUIDKey: ids,
			annotations.NoUseUUIDKey: avoided, GPUIndexKey: indexes, annotations.NUMABindKey: bind,
		}, policy)
		p.allowsType("AMD Instinct MI300X")
		p.allowsIndex(1)
		for id := range strings.SplitSeq(avoided, ",") {
			if id = strings.TrimSpace(id); id != "" && p.allowsUUID(id) {
				t.Errorf("%q is allowed, though avoided by %q", id, avoided)
			}
		}
		parseOrdering(policy, annotations.ScoringWeights{Slot: 1, Core: 1, Memory: 1})
	})
}

// A wish that HAMi ignores is not kept quiet about, and strict admission refuses
// the pod.
func TestUnknownPoliciesAreNoted(t *testing.T) {
	for name, test := range map[string]struct {
		key, value, want string
	}{
		"a GPU policy":             {annotations.GPUSchedulerPolicyKey, "binpack, best", `want binpack or spread or mutex or topology-aware or numa, found "best"`},
		"a node policy":            {annotations.NodeSchedulerPolicyKey, "foo", `want binpack or spread, found "foo"`},
		"a GPU's as the node's":    {annotations.NodeSchedulerPolicyKey, "mutex", `want binpack or spread, found "mutex"`},
		"no truth":                 {annotations.NUMABindKey, "yes please", `want true or false, found "yes please"`},
		"GPU policies that are":    {annotations.GPUSchedulerPolicyKey, "binpack,mutex, numa", ""},
		"a node policy that is":    {annotations.NodeSchedulerPolicyKey, "spread", ""},
		"a policy of no words":     {annotations.GPUSchedulerPolicyKey, " ,", ""},
		"a NUMA binding that is":   {annotations.NUMABindKey, "false", ""},
		"a wish that is no policy": {annotations.UseTypeKey, "foo", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, "gpumem=100 gpucores=25")
			pod.Annotations = map[string]string{test.key: test.value}
			var want []string
			refused := ""
			if test.want != "" {
				refused = "pod annotation " + test.key + ": " + test.want
				want = []string{refused + ", which is ignored"}
			}
			admission, err := newDevices(t, Config{}).Admit(pod.DeepCopy())
			if diff := cmp.Diff(want, admission.Notes); diff != "" || err != nil {
				t.Errorf("admitted with %v, notes (-want +got):\n%s", err, diff)
			}
			admission, err = newDevices(t, Config{}).AdmitContainer(pod, &pod.Spec.Containers[0])
			if diff := cmp.Diff(want, admission.Notes); diff != "" || err != nil {
				t.Errorf("container admitted with %v, notes (-want +got):\n%s", err, diff)
			}
			_, err = newDevices(t, Config{StrictAdmission: true}).Admit(pod)
			if (err == nil) != (refused == "") || err != nil && err.Error() != refused {
				t.Errorf("strict admission says %v, want %q", err, refused)
			}
			none := podOf(t, "")
			none.Annotations = pod.Annotations
			if admission, _ = newDevices(t, Config{}).Admit(none); len(admission.Notes) > 0 {
				t.Errorf("a pod without GPUs has notes %q", admission.Notes)
			}
		})
	}
}

// The scheduler's own settings are noted with each decision.
func TestUnknownSchedulerPoliciesAreNoted(t *testing.T) {
	nodes := []*corev1.Node{newNode(t, "node", mi300x("g"))}
	devices := newDevices(t, Config{})
	decision, err := devices.Schedule(podOf(t, "gpumem=100 gpucores=25"), nodes, nil, ScheduleOptions{GPUPolicy: "best", NodePolicy: "foo", Now: noon})
	if err != nil || decision.Node != "node" {
		t.Fatalf("%+v, %v, want a decision all the same", decision, err)
	}
	want := []string{
		`the scheduler's GPU policy: want binpack or spread or mutex or topology-aware or numa, found "best", which is ignored`,
		`the scheduler's node policy: want binpack or spread, found "foo", which is ignored`,
	}
	if diff := cmp.Diff(want, decision.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for _, opts := range []ScheduleOptions{{}, {GPUPolicy: "mutex,spread", NodePolicy: "binpack"}} {
		if decision, err = devices.Schedule(podOf(t, "gpumem=100"), nodes, nil, opts); err != nil || len(decision.Notes) > 0 {
			t.Errorf("%+v: notes %q, %v", opts, decision.Notes, err)
		}
	}
}
