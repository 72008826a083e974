package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

func allocateArgs(pod string, more ...string) []string {
	return append([]string{"allocate", "--node", nodesFile, "--pods", podsFile, "--pod", pod}, more...)
}

func TestAllocate(t *testing.T) {
	sysfs := fixturetest.Machine(t, "mi300x-spx-8")
	golden(t, "allocate", ok(t, "", allocateArgs(podFiles+"05-prepare-then-train.yaml")...))
	golden(t, "allocate-sysfs", ok(t, "", allocateArgs(podFiles+"07-two-half-gpus.yaml", "--sysfs", sysfs)...))
	golden(t, "allocate-whole", ok(t, "", allocateArgs(podFiles+"08-whole-gpu.yaml", "--sysfs", sysfs)...))
	golden(t, "allocate-json", ok(t, "", allocateArgs(podFiles+"04-two-services.yaml", "--sysfs", sysfs, "-o", "json")...))
}

// running is the pod of the file pods.yaml that runs with 76 CUs.
const running = `
apiVersion: v1
kind: Pod
metadata:
  name: chat-7d9f
  namespace: team-a
  uid: 0e1d2c3b-4a59-4687-8776-655443322110
  annotations:
    hami.io/amd-devices-allocated: "c8ff74a1-0000-1000-801e-70b95fd3a426,AMD Instinct MI300X,49152,76:;"
    hami.io/amd-cu-allocated: '{"c8ff74a1-0000-1000-801e-70b95fd3a426":"100-175"}'
spec:
  nodeName: mi300x-1
  containers:
  - name: vllm
    image: i
    resources: {limits: {amd.com/gpu: "1", amd.com/gpumem: "49152", amd.com/gpucores: "25"}}
`

func TestAllocateGivesARunningPodTheSameAgain(t *testing.T) {
	r := ok(t, running, allocateArgs("-", "-o", "json")...)
	var a allocated
	if err := json.Unmarshal([]byte(r.stdout), &a); err != nil {
		t.Fatal(err)
	}
	if got := a.Containers[0].Env["HSA_CU_MASK"]; got != "0:100-175" {
		t.Errorf("HSA_CU_MASK=%s, want the recorded 0:100-175", got)
	}
	if got := a.Containers[0].Mounts[1].HostPath; !strings.Contains(got, "0e1d2c3b-4a59-4687-8776-655443322110_vllm") {
		t.Errorf("mounts %s, want the directory of the pod's uid", got)
	}
}

func TestAllocateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		words []string
	}{
		"fits nowhere": {"", allocateArgs(podFiles + "12-too-large.yaml"), []string{"default/too-large", "CardInsufficientMemory"}},
		"asks for none": {"kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n",
			allocateArgs("-"), []string{"default/p", "no AMD GPU"}},
		"on another node": {strings.Replace(running, "mi300x-1", "elsewhere", 1), allocateArgs("-"), []string{`"elsewhere"`}},
		"device is gone":  {strings.Replace(running, "c8ff74a1-0000-1000-801e-70b95fd3a426,AMD", "gone,AMD", 1), allocateArgs("-"), []string{`"gone"`, "not registered"}},
		"spec overrides the mask": {strings.Replace(running, "    image: i\n", "    image: i\n    env: [{name: HSA_CU_MASK, value: \"0:0-303\"}]\n", 1),
			allocateArgs("-"), []string{`"vllm"`, "HSA_CU_MASK"}},
		"broken grants":              {strings.Replace(running, ",49152,76:;", ",48g,76:;", 1), allocateArgs("-"), []string{"hami.io/amd-devices-allocated", "48g"}},
		"sysfs of another machine":   {running, allocateArgs("-", "--sysfs", fixturetest.Machine(t, "rx9060xt")), []string{"not registered"}},
		"hook path that is relative": {running, allocateArgs("-", "--hook-path", "hami"), []string{`"hami"`}},
		"log level of no meaning":    {running, allocateArgs("-", "--hook-log-level", "9"), []string{"9"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := amdctl(t, tc.stdin, tc.args...)
			lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
			last := lines[len(lines)-1] // notes may come before
			if r.code != 1 || r.stdout != "" || !strings.HasPrefix(last, "amdctl: ") {
				t.Fatalf("exit code %d, output %q, standard error %q, want an error", r.code, r.stdout, r.stderr)
			}
			for _, word := range tc.words {
				if !strings.Contains(last, word) {
					t.Errorf("error %q does not name %q", last, word)
				}
			}
		})
	}
}

// A node of 64 partitions is one note, not 64.
func TestNamelessDevicesAreOneNote(t *testing.T) {
	const serial = "1aff74a1-0000-1000-8072-f0c33b95e8d1"
	for name, tc := range map[string]struct {
		ids  []string
		want []string
	}{
		"all have names": {[]string{serial}, nil},
		"one has none":   {[]string{serial, "A"}, []string{`device "A": its ROCr name is not in the register annotation, an index stands in for it`}},
		"three have none": {[]string{"A", serial, "B", "C"},
			[]string{`device "A" and 2 more: their ROCr names are not in the register annotation, indices stand in for them`}},
	} {
		var devices []annotations.Device
		for _, id := range tc.ids {
			devices = append(devices, annotations.Device{ID: id, Devcore: 304})
		}
		registered, notes := fromAnnotation(devices)
		if diff := cmp.Diff(tc.want, notes); diff != "" || len(registered) != len(devices) {
			t.Errorf("%s: %d devices, notes (-want +got):\n%s", name, len(registered), diff)
		}
	}
}
