package amd

import (
	"fmt"
	"strings"
	"testing"

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
