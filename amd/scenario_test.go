package amd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// A scenario of testdata/fit: one pod, one node, and what comes of it. The whole
// way is gone: the node registers its devices in its annotation, the pods that
// run there hold theirs by their annotations, the pod is admitted and scheduled.
type scenario struct {
	// Name says what is to be seen.
	Name   string `json:"name"`
	Config Config `json:"config"`
	// Machine is one of those in machines_test.go.
	Machine string `json:"machine"`
	// Change overrides members of devices, by id. "*" is all of them.
	Change map[string]change `json:"change"`
	// Cordon is the node's hami.io/device-cordon.
	Cordon string `json:"cordon"`
	// Held lists "<device> <MiB> <CUs>", each held by a running pod of its own.
	Held []string `json:"held"`
	// QuotaMiB is what the namespace may still hold; 0 is no quota.
	QuotaMiB int64 `json:"quotaMiB"`

	Annotations map[string]string `json:"annotations"`
	// Limits are those of a pod with one container.
	Limits corev1.ResourceList `json:"limits"`
	// Init and Containers are those of any other pod.
	Init       []container `json:"init"`
	Containers []container `json:"containers"`

	// One of these is the outcome: the grants of each container, init containers
	// first, as "<device> <MiB> <CUs>, ..."; the reasons of the node; a part of
	// the message of admission.
	Grants   []string `json:"grants"`
	Refused  string   `json:"refused"`
	Rejected string   `json:"rejected"`
}

type change struct {
	Health  *bool   `json:"health"`
	Count   *int32  `json:"count"`
	Devmem  *int32  `json:"devmem"`
	Devcore *int32  `json:"devcore"`
	Numa    *int    `json:"numa"`
	Type    *string `json:"type"`
	NumXCC  *int    `json:"numXCC"`
}

type container struct {
	Limits   corev1.ResourceList `json:"limits"`
	Requests corev1.ResourceList `json:"requests"`
	Sidecar  bool                `json:"sidecar"`
}

func TestFitScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/fit/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var scenarios []scenario
		if err := yaml.UnmarshalStrict(data, &scenarios); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, s := range scenarios {
			if names[s.Name] {
				t.Errorf("%s: %q is there twice", file, s.Name)
			}
			names[s.Name] = true
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+"/"+s.Name, s.run)
		}
	}
	if len(names) < 60 {
		t.Errorf("%d scenarios, want at least 60", len(names))
	}
}

func (s scenario) run(t *testing.T) {
	d := newDevices(t, s.Config)
	node := newNode(t, "node", s.devices(t))
	node.Annotations[annotations.DeviceCordonKey] = s.Cordon
	var pods []*corev1.Pod
	for i, held := range s.Held {
		pods = append(pods, holder(t, fmt.Sprintf("holder-%d", i), "node", held))
	}
	opts := ScheduleOptions{}
	if s.QuotaMiB > 0 {
		opts.Quota = func(_ string, memMiB int64) bool { return memMiB <= s.QuotaMiB }
	}
	decision, err := d.Schedule(s.pod(), []*corev1.Node{node}, pods, opts)
	if err != nil {
		if s.Rejected == "" || !strings.Contains(err.Error(), s.Rejected) {
			t.Fatalf("rejected: %v, want %q", err, s.Rejected)
		}
		return
	}
	for _, note := range decision.Notes {
		if !strings.HasSuffix(note, "which is ignored") { // a scenario of policies that nobody knows
			t.Error("note:", note)
		}
	}
	var got []string
	for _, grants := range decision.Grants {
		got = append(got, formatGrants(grants))
	}
	if diff := cmp.Diff(s.Grants, got); diff != "" {
		t.Errorf("grants (-want +got):\n%s%s", diff, decision.Reason())
	}
	refused := ""
	if len(decision.Refusals) > 0 {
		refused = decision.Refusals[0].String()
	}
	if refused != s.Refused || s.Rejected != "" {
		t.Errorf("refused %q, want %q %s", refused, s.Refused, s.Rejected)
	}
}

func (s scenario) devices(t *testing.T) []annotations.Device {
	build, ok := machines[s.Machine]
	if !ok {
		t.Fatalf("machine %q: want one of %q", s.Machine, slices.Sorted(maps.Keys(machines)))
	}
	devices := build()
	changed := 0
	for i := range devices {
		for _, id := range []string{"*", devices[i].ID} {
			if c, ok := s.Change[id]; ok {
				c.apply(&devices[i])
				changed++
			}
		}
	}
	if changed < len(s.Change) {
		t.Fatal("a change names no device of the machine")
	}
	return devices
}

func (c change) apply(d *annotations.Device) {
	override(&d.Health, c.Health)
	override(&d.Count, c.Count)
	override(&d.Devmem, c.Devmem)
	override(&d.Devcore, c.Devcore)
	override(&d.Numa, c.Numa)
	override(&d.Type, c.Type)
	override(&d.CustomInfo.NumXCC, c.NumXCC)
}

func override[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

func (s scenario) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "new", Namespace: "default", UID: "new", Annotations: s.Annotations,
	}}
	containers := s.Containers
	if s.Limits != nil {
		containers = append(containers, container{Limits: s.Limits})
	}
	build := func(list []container, prefix string) (built []corev1.Container) {
		for i, c := range list {
			ctr := corev1.Container{
				Name:      fmt.Sprintf("%s%d", prefix, i),
				Resources: corev1.ResourceRequirements{Limits: c.Limits, Requests: c.Requests},
			}
			if c.Sidecar {
				always := corev1.ContainerRestartPolicyAlways
				ctr.RestartPolicy = &always
			}
			built = append(built, ctr)
		}
		return built
	}
	pod.Spec.InitContainers = build(s.Init, "init-")
	pod.Spec.Containers = build(containers, "app-")
	return pod
}

// holder is a running pod that holds "<device> <MiB> <CUs>".
func holder(t *testing.T, name, node, held string) *corev1.Pod {
	t.Helper()
	g := annotations.Grant{Type: "AMD Instinct MI300X"}
	if _, err := fmt.Sscanf(held, "%s %d %d", &g.UUID, &g.MemoryMiB, &g.CUs); err != nil {
		t.Fatalf("held %q: want <device> <MiB> <CUs>: %v", held, err)
	}
	pod := gpuPod(name, "1", "", "")
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	pod.UID = types.UID(name)
	value, err := annotations.EncodePod(annotations.PodGrants{{g}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Annotations = map[string]string{annotations.AllocatedKey: value}
	return pod
}

func formatGrants(grants []annotations.Grant) string {
	var parts []string
	for _, g := range grants {
		parts = append(parts, fmt.Sprintf("%s %d %d", g.UUID, g.MemoryMiB, g.CUs))
	}
	return strings.Join(parts, ", ")
}
