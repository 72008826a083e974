package plugin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

func TestAllocateOfOneSlice(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 49152, 76)}))
	pending := r.Pending(t.Context(), partition.ResourceGPU, []int{1})
	if diff := cmp.Diff([][]string{{r.device(0).ID}}, pending.granted); diff != "" {
		t.Errorf("Pending (-want +got):\n%s", diff)
	}
	answer := r.mustAllocate(r.share(0, 3))

	if got := r.mask(answer, 0); got != cumask.Range(0, 75) {
		t.Errorf("mask %s, want 0-75", got)
	}
	for name, want := range map[string]string{
		"HIP_VISIBLE_DEVICES":       "0",
		"HIP_DEVICE_MEMORY_LIMIT":   "49152m",
		"HIP_DEVICE_MEMORY_LIMIT_0": "49152m",
		"LD_AUDIT":                  "/usr/local/vgpu/libamvgpu.so",
		"ROCR_VISIBLE_DEVICES":      r.device(0).Nodes[0].ROCrID(),
	} {
		if got := answer.Envs[name]; got != want {
			t.Errorf("env %s = %q, want %q", name, got, want)
		}
	}
	want := map[string]string{
		annotations.ToAllocateKey:   ";",
		annotations.CUAllocatedKey:  `{"` + r.device(0).ID + `":"0-75"}`,
		annotations.CUContainersKey: `{"c0":{"ids":["` + r.share(0, 3) + `"],"cus":{"` + r.device(0).ID + `":"0-75"}}}`,
		annotations.BindPhaseKey:    "success",
	}
	got := make(map[string]string)
	for key := range want {
		got[key] = r.annotation("ns/p", key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if lock := r.lockText(); lock != "" {
		t.Errorf("node lock %q, want none", lock)
	}
	calls := []string{
		"GET /api/v1/nodes/gpu-node", "GET /api/v1/pods",
		"PATCH /api/v1/namespaces/ns/pods/p", "PATCH /api/v1/nodes/gpu-node",
	}
	if diff := cmp.Diff(calls, callsOf(r.server.reset())); diff != "" {
		t.Errorf("API calls, at most 5 wanted (-want +got):\n%s", diff)
	}
}

// What is decoded of the annotations is for level 5.
func TestDecodedGrantsAreLoggedAtLevel5(t *testing.T) {
	for level, want := range map[int]int{4: 0, 5: 1} {
		r := newRig(t, snapshotOf(t, "rx7900xtx", partition.RegisterOptions{}))
		log := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(level)))
		r.hamiAllocator.log = log
		r.bind(r.pod("p", []annotations.Grant{r.grant(0, 4096, 48)}))
		r.mustAllocate(r.share(0, 0))
		logs := log.GetSink().(ktesting.Underlier).GetBuffer()
		if got := countOf(logs, "Decoded grants"); got != want {
			t.Errorf("level %d: %d lines, want %d:\n%s", level, got, want, logs)
		}
	}
}
