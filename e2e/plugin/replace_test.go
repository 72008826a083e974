package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/hook"
)

// A second plugin starts before the first has gone, as when a pod is deleted by
// force: it takes the node over, and the first has it back when it is killed.
// They do not know of each other, and nothing is handed out twice.
func TestTwoPlugins(t *testing.T) {
	n := lab.Start(t, node.Options{})
	place := func(name string) {
		t.Helper()
		// Kubelet may ask the one that is just losing its connection.
		n.CheckPlaced(n.Place(onOneGPU(n.Pod(name, node.Slice("app", 1, 10, 8192)))))
	}
	place("before")
	first := n.Plugin
	n.LaunchPlugin()
	second := n.Plugin
	n.Eventually("the first plugin stands by", func() error { return saysOf(n, first.PID(), "standing by") })
	n.Eventually("the second plugin has the node", func() error { return saysOf(n, second.PID(), "Registered with kubelet") })
	n.WaitReady()
	for i := range 2 {
		place(fmt.Sprintf("second-%d", i))
	}
	second.Kill()
	n.Plugin = first
	n.Eventually("kubelet has seen its end", func() error {
		if _, healthy := n.Kubelet.Capacity("amd.com/gpu"); healthy > 0 {
			return errNotYet
		}
		return nil
	})
	n.WaitReady() // within ten seconds
	for i := range 2 {
		place(fmt.Sprintf("first-%d", i))
	}

	n.LaunchPlugin()
	third := n.Plugin
	n.Eventually("the third plugin has the node", func() error { return saysOf(n, third.PID(), "Registered with kubelet") })
	n.Plugin = first
	n.TerminatePlugin()
	n.Plugin = third
	n.WaitReady()
	for i := range 2 {
		place(fmt.Sprintf("third-%d", i))
	}
}

// saysOf is nil once a process of the plugin has logged a text. klog's header has
// the process id.
func saysOf(n *node.Node, pid int, text string) error {
	n.Helper()
	for line := range strings.Lines(n.PluginLog()) {
		if header, rest, ok := strings.Cut(line, "]"); ok && strings.Contains(header, fmt.Sprintf(" %d ", pid)) && strings.Contains(rest, text) {
			return nil
		}
	}
	return fmt.Errorf("it does not say %q", text)
}

// The memory hook keeps its books of a container's processes in a folder of the
// container's own, which is empty whenever the container starts, and is removed
// with the pod.
func TestHookFolders(t *testing.T) {
	n := lab.Start(t, node.Options{})
	pod := n.Pod("pod", node.Slice("app", 1, 25, 16384), node.Slice("other", 1, 10, 1024))
	pod.Spec.InitContainers = []corev1.Container{node.Slice("init", 1, 20, 1024)}
	s := n.MustPlace(pod)
	folders := make(map[string]string)
	for name, c := range s.Containers {
		for _, m := range c.Mounts {
			if m.Container == hook.ContainerCacheDir {
				folders[name] = m.Host
			}
		}
	}
	if len(folders) != 3 || folders["app"] == folders["init"] {
		t.Fatalf("folders %v, want one for each container", folders)
	}
	for _, dir := range folders {
		n.Write(filepath.Join(dir, "hipdevshr.cache"), "of an earlier run")
	}
	n.Rerun(s) // as after a crash of the whole pod
	for name, dir := range folders {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("container %s starts again with %v, %v", name, entries, err)
		}
	}
	n.Check()
	n.Delete(s.Pod)
	n.Eventually("the folders are removed", func() error {
		left, err := filepath.Glob(filepath.Join(n.HookPath(), "vgpu", "containers", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%q are left", left)
		}
		return err
	})
}

// A pod that was bound is deleted before kubelet sees it, and one of the same
// name takes its place: it is another pod.
func TestPodOfTheSameName(t *testing.T) {
	n := lab.Start(t, node.Options{})
	first := n.Bind(n.Pod("pod", node.Slice("app", 1, 25, 1000)))
	n.Delete(first)
	s := n.MustPlace(n.Pod("pod", node.Slice("app", 1, 50, 2000)))
	if got := s.Containers["app"].Env[hook.LimitEnv]; got != "2000m" || s.Pod.UID == first.UID {
		t.Errorf("limit %q, want the second pod's 2000m", got)
	}
	n.Settle()
	n.Check()

	// The same with a pod that ran.
	n.Delete(s.Pod)
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 75, 3000))))
}
