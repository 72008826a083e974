package plugin

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// The plugin caps the VRAM of a pod with slices once its cgroup is there, and of
// a pod with whole GPUs never. No kernel here has the controller: a folder with
// its files stands in, and takes every limit.
func TestVRAMIsCapped(t *testing.T) {
	var kernel *dmemtest.Kernel
	n := lab.Start(t, node.Options{Prepare: func(n *node.Node) {
		var err error
		if kernel, err = dmemtest.New(n.Cgroup(), dmemtest.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kernel.Close() })
		for _, gpu := range n.Inventory().GPUs {
			if err := kernel.AddRegion("drm/"+string(gpu.BDF)+"/vram", *gpu.VRAMBytes); err != nil {
				t.Fatal(err)
			}
		}
		// Kubelet's part, down to the pods without requests of CPU and memory.
		if err := kernel.Mkdir(besteffort); err != nil {
			t.Fatal(err)
		}
		if err := kernel.Delegate(besteffort); err != nil {
			t.Fatal(err)
		}
	}})
	slices := n.MustPlace(onOneGPU(n.Pod("slices", node.Slice("a", 1, 25, 16384), node.Slice("b", 1, 25, 8192))))
	whole := n.MustPlace(n.Pod("whole", node.Whole("app", 1)))
	for _, s := range []*node.Served{slices, whole} {
		if err := kernel.Mkdir(podCgroup(t, s)); err != nil {
			t.Fatal(err)
		}
	}
	limits := func(s *node.Served) string {
		data, err := os.ReadFile(filepath.Join(n.Cgroup(), podCgroup(t, s), "dmem.max"))
		if err != nil {
			t.Fatal(err)
		}
		var limited []string
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); !strings.HasSuffix(line, " max") {
				limited = append(limited, line)
			}
		}
		return strings.Join(limited, ", ")
	}
	const want = "drm/" + lastBDF + "/vram 25769803776" // 16384 and 8192 MiB
	n.Eventually("the limit of the slices", func() error {
		if got := limits(slices); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
	if got := limits(whole); got != "" {
		t.Errorf("the pod with a whole GPU is limited: %s", got)
	}

	// The cgroup is made anew at a reboot, and the limit with it.
	n.KillPlugin()
	if err := kernel.Remove(podCgroup(t, slices)); err != nil {
		t.Fatal(err)
	}
	if err := kernel.Mkdir(podCgroup(t, slices)); err != nil {
		t.Fatal(err)
	}
	n.StartPlugin()
	n.Eventually("the limit after a restart", func() error {
		if got := limits(slices); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
	n.Check()
}

var besteffort = path.Join(dmem.KubepodsSlice, "kubepods-besteffort.slice")

func podCgroup(t *testing.T, s *node.Served) string {
	t.Helper()
	dir, err := dmem.PodPath(dmem.Systemd, dmem.Pod{UID: string(s.Pod.UID), QoS: dmem.BestEffort})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
