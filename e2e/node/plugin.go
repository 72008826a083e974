package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/process"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Command is the plugin's command line on this node and its environment. extra
// flags come last.
func (n *Node) Command(extra ...string) (args, environ []string) {
	n.Helper()
	args = append(args, n.chart.args...)
	args = append(args,
		"-sysfs_root="+n.Sysfs(), "-dev_root="+n.Dev(), "-cgroup_root="+n.Cgroup(),
		"-exporter_socket="+n.Exporter(), "-kubeconfig="+n.kubeconfig())
	if n.o.CDI {
		args = append(args, "-cdi_spec_dir="+n.CDIDir())
	}
	if n.o.Settings != "" {
		args = append(args, "-node_config_file="+n.Dir+"/config.yaml")
	}
	args = append(args, n.o.Flags...)
	override := map[string]string{"HOST_HOOK_PATH": n.HookPath()}
	for name, value := range n.o.Env {
		override[name] = value
	}
	environ, err := n.chart.environ(n.Name, override)
	if err != nil {
		n.Fatal(err)
	}
	return append(args, extra...), environ
}

// LaunchPlugin starts the plugin's process and does not wait for anything.
func (n *Node) LaunchPlugin(extra ...string) {
	n.Helper()
	args, environ := n.Command(extra...)
	p, err := process.Start(process.Options{Name: "plugin", Path: n.Lab.Binary, Args: args, Env: environ, Log: n.log()})
	if err != nil {
		n.Fatal(err)
	}
	first := n.Plugin == nil
	n.Plugin = p
	if first {
		n.Cleanup(func() {
			if n.running() {
				n.StopPlugin()
			}
			if n.Failed() {
				n.Logf("plugin:\n%s", n.Plugin.Tail(60))
			}
		})
	}
}

func (n *Node) running() bool {
	select {
	case <-n.Plugin.Done():
		return false
	default:
		return true
	}
}

// StartPlugin starts the plugin and waits until kubelet has its devices and the
// scheduler can see them. extra flags outrank those of the node.
func (n *Node) StartPlugin(extra ...string) {
	n.Helper()
	n.LaunchPlugin(extra...)
	n.WaitReady()
}

// WaitReady waits until kubelet has the devices that Options.Want says and the
// node is registered.
func (n *Node) WaitReady() {
	n.Helper()
	n.wait(n.o.Want)
}

// WaitDevices waits until kubelet has this many healthy devices of a resource,
// and syncs the node.
func (n *Node) WaitDevices(resource corev1.ResourceName, healthy int64) {
	n.Helper()
	n.wait(map[corev1.ResourceName]int64{resource: healthy})
}

// wait waits until kubelet has the devices, nil for some, and then syncs the
// node. Where there are some for HAMi the node must be registered too.
func (n *Node) wait(want map[corev1.ResourceName]int64) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	hami := false
	err := n.Plugin.WaitReady(ctx, func(context.Context) error {
		if want == nil {
			if _, healthy := n.Kubelet.Capacity(partition.ResourceGPU); healthy == 0 {
				return errors.New("kubelet has no healthy device")
			}
			hami = true
		}
		for resource, count := range want {
			if total, healthy := n.Kubelet.Capacity(resource); healthy != count {
				return fmt.Errorf("kubelet has %d healthy of %d %s, want %d", healthy, total, resource, count)
			}
			hami = hami || resource == partition.ResourceGPU && count > 0
		}
		if !hami || slices.Contains(n.o.Flags, "-standalone") {
			return nil
		}
		if _, there := n.Object().Annotations[annotations.NodeRegisterKey]; !there {
			return errors.New("the node is not registered")
		}
		return nil
	})
	if err != nil {
		n.Fatal(err)
	}
	if err := n.Kubelet.SyncNode(ctx); err != nil {
		n.Fatal(err)
	}
}

// StopPlugin is TerminatePlugin, and expects that the plugin takes its sockets
// with it.
func (n *Node) StopPlugin() {
	n.Helper()
	n.TerminatePlugin()
	if left := n.Sockets(); len(left) > 0 {
		n.Errorf("the plugin left sockets %q", left)
	}
}

// TerminatePlugin stops the plugin as kubelet stops a pod, and expects that it
// ends at once and without an error.
func (n *Node) TerminatePlugin() {
	n.Helper()
	if err := n.Plugin.Signal(syscall.SIGTERM); err != nil {
		n.Fatal(err)
	}
	select {
	case <-n.Plugin.Done():
	case <-time.After(patience / 2):
		n.Plugin.Kill()
		n.Fatalf("the plugin runs on after SIGTERM:\n%s", n.Plugin.Tail(30))
	}
	if err := n.Plugin.Err(); err != nil {
		n.Errorf("the plugin was asked to stop: %v", err)
	}
}

// KillPlugin ends the plugin as kill -9 does, and gives kubelet the time to see
// that, which it does at once: else it would still count the devices as healthy
// when the next plugin is waited for.
func (n *Node) KillPlugin() {
	n.Plugin.Kill()
	for range 100 {
		if _, healthy := n.Kubelet.Capacity(partition.ResourceGPU); healthy == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// PluginLog is all that the plugin's processes on this node have written.
func (n *Node) PluginLog() string {
	n.Helper()
	data, err := os.ReadFile(n.log())
	if err != nil {
		n.Fatal(err)
	}
	return string(data)
}
