package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// allocateFlags are the inputs of allocate.
type allocateFlags struct {
	node, pods, pod, config string
	scheduler               amd.ScheduleOptions
	sysfs                   sysfsFlags
	hookPath                string
	hookLogLevel            int
	strict                  bool
}

func newAllocate(clock clock) *cobra.Command {
	var f allocateFlags
	cmd := &cobra.Command{
		Use:   "allocate --node FILE [--pods FILE] --pod FILE",
		Short: "Show what the containers of a pod would be handed",
		Long: `allocate plans a pod on a node as the device plugin does: the compute units of
each slice, and the environment, device nodes and mounts of each container.

CUs that the node's other pods hold (annotation hami.io/amd-cu-allocated) are
avoided, and a pod that holds some already gets the same again. A pod the
scheduler has not placed yet is placed on the node first.

The register annotation holds neither DRM device nodes, nor the order in which
KFD counts GPUs, nor their shader engines. Give --sysfs with the node's /sys, or
a copy of it, to see the device nodes and exactly the CUs the node would choose.`,
		Example: `  kubectl get node n1 -o yaml > node.yaml
  kubectl get pods -A -o yaml > pods.yaml
  amdctl allocate --node node.yaml --pods pods.yaml --pod my-pod.yaml

  # On the node itself
  amdctl allocate --node node.yaml --pods pods.yaml --pod my-pod.yaml --sysfs /sys`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "file with the node, or with several to choose from (required)")
	flags.StringVar(&f.pods, "pods", "", "file with the pods that may hold GPUs; none if not given")
	flags.StringVar(&f.pod, "pod", "", "file with the pod (required)")
	flags.StringVar(&f.hookPath, "hook-path", hook.DefaultHostPath, "host directory that holds vgpu/")
	flags.IntVar(&f.hookLogLevel, "hook-log-level", 0, "the memory hook's log level in containers, 1 to 4; 0 leaves its own")
	flags.BoolVar(&f.strict, "strict", false, "refuse a slice whose container has envFrom")
	addSchedulerFlags(cmd, &f.config, &f.scheduler)
	f.sysfs.add(cmd, "")
	out := addFormat(cmd, "text", "json")
	_ = cmd.MarkFlagRequired("node") // the flags exist
	_ = cmd.MarkFlagRequired("pod")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.scheduler.Now = clock()
		answer, err := f.run(cmd)
		if err != nil {
			return err
		}
		if out.value == "json" {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return printText(cmd, func(p *page) { printAllocation(p, answer) })
	}
	return cmd
}

// run reads the files and plans the pod.
func (f *allocateFlags) run(cmd *cobra.Command) (allocated, error) {
	if _, err := f.sysfs.registerOptions(); err != nil { // also without --sysfs, where few of them matter
		return allocated{}, err
	}
	devices, err := newDevices(f.config)
	if err != nil {
		return allocated{}, err
	}
	pod, err := readPod(cmd, f.pod)
	if err != nil {
		return allocated{}, err
	}
	nodes, err := readObjects(cmd, "node", f.node)
	if err != nil {
		return allocated{}, err
	}
	pods, err := readPods(cmd, f.pods)
	if err != nil {
		return allocated{}, err
	}
	pods = without(pods, pod)
	if _, placed := pod.Annotations[annotations.AllocatedKey]; !placed {
		if pod, err = place(cmd, devices, pod, nodes.Nodes, pods, f.scheduler); err != nil {
			return allocated{}, err
		}
	}
	at := slices.IndexFunc(nodes.Nodes, func(n corev1.Node) bool { return n.Name == podspec.On(pod) })
	if at < 0 {
		return allocated{}, fmt.Errorf("--node: %s: want node %q, which the pod is on", f.node, podspec.On(pod))
	}
	node := &nodes.Nodes[at]
	planned, err := podspec.Pod(devices, pod)
	if err != nil {
		return allocated{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if planned.UID == "" {
		planned.UID = "pod-uid"
		note(cmd, `the pod has no uid yet: "pod-uid" stands for it in host paths`)
	}
	on, err := f.allocateNode(cmd, devices, node, pods)
	if err != nil {
		return allocated{}, err
	}
	plan, err := allocate.Plan(planned, on)
	if err != nil {
		return allocated{}, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	for _, n := range plan.Notes {
		note(cmd, n)
	}
	return newAllocated(pod, node.Name, plan, f.sysfs.root != ""), nil
}

// place schedules a pod that has no grants yet.
func place(cmd *cobra.Command, devices *amd.Devices, pod *corev1.Pod, nodes []corev1.Node, pods []corev1.Pod, options amd.ScheduleOptions) (*corev1.Pod, error) {
	decision, err := devices.Schedule(pod, pointers(nodes), pointers(pods), options)
	if err != nil {
		return nil, err
	}
	for _, n := range decision.Notes {
		note(cmd, n)
	}
	switch {
	case !decision.Asks:
		return nil, fmt.Errorf("pod %s/%s asks for no AMD GPU", pod.Namespace, pod.Name)
	case decision.Node == "":
		return nil, fmt.Errorf("pod %s/%s is not placed: %s", pod.Namespace, pod.Name, decision.Reason())
	}
	note(cmd, "the pod is not scheduled yet: planned with the grants the scheduler would write")
	return decision.Apply(), nil
}

// allocateNode is the node's devices and what its pods hold of them.
func (f *allocateFlags) allocateNode(cmd *cobra.Command, devices *amd.Devices, node *corev1.Node, pods []corev1.Pod) (allocate.Node, error) {
	on := allocate.Node{
		HookPath: f.hookPath, HookLogLevel: f.hookLogLevel, MemoryScaling: f.sysfs.options.MemoryScaling, Strict: f.strict,
	}
	registered, err := devices.NodeDevices(node)
	if err != nil {
		return on, err
	}
	if f.sysfs.root == "" {
		note(cmd, "device nodes are not in the register annotation: give --sysfs to see them")
		var notes []string
		on.Devices, notes = fromAnnotation(registered)
		for _, n := range notes {
			note(cmd, n)
		}
	} else {
		if f.sysfs.options.NodeName == "" {
			f.sysfs.options.NodeName = node.Name
		}
		registration, err := f.sysfs.register(cmd)
		if err != nil {
			return on, err
		}
		on.Devices = registration.Devices
	}
	held, problems := podspec.Occupancy(devices, node.Name, registered, pods)
	for _, err := range problems {
		note(cmd, err.Error())
	}
	on.Held = make(map[string]cumask.Set, len(held))
	for id, o := range held {
		on.Held[id] = o.Used()
	}
	return on, nil
}

// without is all pods but this one.
func without(pods []corev1.Pod, pod *corev1.Pod) []corev1.Pod {
	var others []corev1.Pod
	for _, p := range pods {
		if p.Namespace != pod.Namespace || p.Name != pod.Name {
			others = append(others, p)
		}
	}
	return others
}
