package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// registered are the devices of the node's register annotation, nil if it has
// none.
func registered(n *node.Node) map[string]annotations.Device {
	n.Helper()
	text, there := n.Object().Annotations[annotations.NodeRegisterKey]
	if !there {
		return nil
	}
	list, err := annotations.DecodeDevices(text)
	if err != nil {
		n.Fatal(err)
	}
	devices := make(map[string]annotations.Device)
	for _, d := range list {
		devices[d.ID] = d
	}
	return devices
}

// waitRegistered waits until the node is registered with this many devices; 0
// is no annotation at all.
func waitRegistered(n *node.Node, want int) {
	n.Helper()
	n.Eventually("the register annotation", func() error {
		text, there := n.Object().Annotations[annotations.NodeRegisterKey]
		if got := len(registered(n)); got != want || there != (want > 0) {
			return fmt.Errorf("%d devices in %q, want %d", got, text, want)
		}
		return nil
	})
}

// waitEvent waits for an event with a reason whose message has all the words,
// about an object in a namespace.
func waitEvent(n *node.Node, namespace, about, reason string, words ...string) {
	n.Helper()
	n.Eventually("event "+reason, func() error {
		ctx, cancel := n.Timeout()
		defer cancel()
		list, err := n.Lab.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + about})
		if err != nil {
			return err
		}
		var found []string
		for _, e := range list.Items {
			all := e.Reason == reason
			for _, word := range words {
				all = all && strings.Contains(e.Message, word)
			}
			if all {
				return nil
			}
			found = append(found, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("want %q in its message, found %q", words, found)
	})
}

// GPUs the node keeps for itself, by both names; then all of them: nothing stays
// registered, and kubelet has no device left.
func TestExcludedGPUs(t *testing.T) {
	n := lab.Start(t, node.Options{
		Flags: []string{"-exclude_gpus=card1, 0000:e5:00.0"}, Want: map[corev1.ResourceName]int64{"amd.com/gpu": 60},
	})
	waitRegistered(n, 6)
	for _, id := range []string{"1aff74a1-0000-1000-8072-f0c33b95e8d1", lastGPU} {
		if _, there := registered(n)[id]; there {
			t.Errorf("excluded GPU %s is registered", id)
		}
	}
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 25, 16384))))

	var all []string
	for _, gpu := range n.Inventory().GPUs {
		all = append(all, string(gpu.BDF))
	}
	n.StopPlugin()
	n.LaunchPlugin("-exclude_gpus=" + strings.Join(all, ","))
	waitRegistered(n, 0)
	n.Eventually("kubelet has no device", func() error {
		if total, _ := n.Kubelet.Capacity("amd.com/gpu"); total != 0 {
			return fmt.Errorf("it has %d", total)
		}
		return nil
	})
	n.WaitDevices("amd.com/gpu", 0)
	if got := n.Object().Status.Capacity["amd.com/gpu"]; !got.IsZero() {
		t.Errorf("the node's capacity is %s", got.String())
	}
	if _, err := n.Place(n.Pod("late", node.Slice("app", 1, 25, 16384))); err == nil {
		t.Error("a pod was placed on a node without GPUs")
	}
	n.StopPlugin()
	n.LaunchPlugin("-exclude_gpus=")
	n.WaitDevices("amd.com/gpu", 80)
	waitRegistered(n, 8)
}

// capacity is what the node's status says of the resources the plugin itself
// writes there.
func capacity(n *node.Node) map[string]string {
	n.Helper()
	found := make(map[string]string)
	status := n.Object().Status
	for list, resources := range map[string]corev1.ResourceList{"capacity": status.Capacity, "allocatable": status.Allocatable} {
		for _, name := range []corev1.ResourceName{"amd.com/gpumem", "amd.com/gpucores"} {
			if q, there := resources[name]; there {
				found[list+" "+string(name)] = q.String()
			}
		}
	}
	return found
}

func waitCapacity(n *node.Node, want map[string]string) {
	n.Helper()
	n.Eventually("the node's capacity", func() error {
		if diff := cmp.Diff(want, capacity(n)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestNodeCapacity(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-report_node_capacity=true"}})
	const memory, cores = "1572736", "2432" // 8 GPUs of 196592 MiB and 304 CUs
	reported := map[string]string{
		"capacity amd.com/gpumem": memory, "allocatable amd.com/gpumem": memory,
		"capacity amd.com/gpucores": cores, "allocatable amd.com/gpucores": cores,
	}
	waitCapacity(n, reported)
	n.WaitReady() // kubelet writes the status
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 25, 16384))))
	waitCapacity(n, reported)

	n.StopPlugin()
	n.StartPlugin("-report_node_capacity=false")
	waitCapacity(n, map[string]string{})
	n.WaitReady()
	if found := capacity(n); len(found) > 0 {
		t.Errorf("kubelet brought back %v", found)
	}
}

// Without the right to patch nodes/status the plugin works, and says what it
// cannot clean up.
func TestLeastRights(t *testing.T) {
	n := lab.Start(t, node.Options{Chart: "least"})
	ctx, cancel := n.Timeout()
	defer cancel()
	object := n.Object()
	object.Status.Capacity["amd.com/gpumem"] = resource.MustParse("1572736")
	if _, err := n.Lab.Client.CoreV1().Nodes().UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.StopPlugin()
	n.StartPlugin()
	n.Eventually("the log says what stays", func() error {
		if !strings.Contains(n.PluginLog(), "Capacity entries of an earlier configuration stay") {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 25, 16384))))
}

// The settings of one node outrank the chart's values.
func TestNodeSettings(t *testing.T) {
	n := lab.Start(t, node.Options{
		Settings: `
nodeconfig:
  - name: another
    splitcount: 1
  - name: NODE
    splitCount: 3
    memoryScaling: 1.5
    filterDevices:
      index: [0]
      id: [` + lastGPU + `]
`,
		Want: map[corev1.ResourceName]int64{"amd.com/gpu": 18},
	})
	waitRegistered(n, 6)
	for id, d := range registered(n) {
		if d.Count != 3 || d.Devmem != 294888 || d.Index == 0 || id == lastGPU {
			t.Errorf("device %d %s: %d shares, %d MiB; want 3 of 294888 each on the six GPUs in the middle", d.Index, id, d.Count, d.Devmem)
		}
	}
	s := n.MustPlace(n.Pod("pod", node.Slice("app", 1, 25, 200000)))
	if env := s.Containers["app"].Env; env["HIP_OVERSUBSCRIBE"] != "true" || env["HIP_DEVICE_MEMORY_LIMIT"] != "200000m" {
		t.Errorf("a slice of scaled memory has %v", env)
	}
	n.Check()
}

// Somebody deletes or forges what the plugin wrote: it is put back.
func TestWhatThePluginWroteIsPutBack(t *testing.T) {
	n := lab.Start(t, node.Options{})
	s := n.MustPlace(n.Pod("pod", node.Slice("app", 1, 25, 16384)))
	before := n.Notes(s.Pod)
	forged := `{"` + lastGPU + `":"0-7"}`
	n.AnnotatePod(s.Pod, map[string]*string{annotations.CUAllocatedKey: &forged, annotations.CUContainersKey: nil})
	n.Eventually("the pod's annotations", func() error {
		if diff := cmp.Diff(before, n.Notes(s.Pod)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	waitEvent(n, n.Namespace, "pod", "AMDGPUAnnotationRestored", "0-7")
	n.Check()
	n.CheckPlaced(n.Place(n.Pod("next", node.Slice("app", 1, 25, 16384))))

	text := n.Object().Annotations[annotations.NodeRegisterKey]
	n.Annotate(map[string]*string{annotations.NodeRegisterKey: nil})
	waitRegistered(n, 8) // within half a minute
	if got := n.Object().Annotations[annotations.NodeRegisterKey]; got != text {
		t.Errorf("registered again as %s, want %s", got, text)
	}
}
