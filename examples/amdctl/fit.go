package main

import (
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/inspect"
)

// fitted is the answer of fit.
type fitted struct {
	Pod string `json:"pod"`
	// Node is empty when no node fits or the pod asks for no GPU.
	Node        string            `json:"node"`
	Asks        bool              `json:"asks"`
	Containers  []fittedContainer `json:"containers"`
	Annotations map[string]string `json:"annotations"`
	// Reason is why the pod is not placed, in one line.
	Reason   string    `json:"reason"`
	Refusals []refusal `json:"refusals"`
}

type fittedContainer struct {
	Name   string              `json:"name"`
	Grants []annotations.Grant `json:"grants"`
}

type refusal struct {
	Node      string `json:"node"`
	Container string `json:"container,omitempty"`
	Reason    string `json:"reason"`
}

func newFit(clock clock) *cobra.Command {
	var cluster clusterFlags
	var podFile, configFile string
	var options amd.ScheduleOptions
	cmd := &cobra.Command{
		Use:   "fit --pod FILE",
		Short: "Say where a pod would be scheduled, or why nowhere",
		Long: `fit does with a pod what HAMi's webhook and scheduler would do: admission, the
request, the choice of GPUs on each node and the choice of a node. It answers
with the node and the annotations the scheduler would write, or with the reasons
of each node; the exit code is 0 either way.

Reasons count a node's devices in HAMi's words, those of the scheduler's events:
  CardInsufficientMemory            less memory free, or a whole GPU asked for
  CardInsufficientCore              fewer compute units free
  CardTimeSlicingExhausted          all shares taken
  CardTypeMismatch                  amd.com/use-gputype or nouse-gputype
  CardUuidMismatch                  amd.com/use-gpu-uuid or nouse-gpu-uuid
  CardNotFoundCustomFilterRule      amd.com/gpu-index
  CardNotHealth, CardCordoned       the node or an administrator says no
  ExclusiveDeviceAllocateConflict   the mutex policy wants an idle device
  NumaNotFit                        no NUMA node has enough of them
  AllocatedCardsInsufficientRequest would do, but too few of them
  NodeInsufficientDevice            the node has fewer devices than asked for

The pod's file is what kubectl prints or a user writes, YAML or JSON; it need not
be in the cluster. For one that is, explain says more.

` + clusterHelp,
		Example: `  kubectl get nodes -o yaml > nodes.yaml
  kubectl get pods -A -o yaml > pods.yaml
  amdctl fit --nodes nodes.yaml --pods pods.yaml --pod my-pod.yaml

  # In the live cluster
  amdctl fit --context production --pod my-pod.yaml

  # The same for a pod that is pending in the cluster
  kubectl get pod -n team my-pod -o yaml | amdctl fit --nodes nodes.yaml --pods pods.yaml --pod -`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	addClusterFlags(cmd, &cluster)
	flags.StringVar(&podFile, "pod", "", "file with the pod to place (required)")
	addSchedulerFlags(cmd, &configFile, &options)
	out := addFormat(cmd, "text", "json")
	_ = cmd.MarkFlagRequired("pod") // the flag exists

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		devices, err := newDevices(configFile)
		if err != nil {
			return err
		}
		nodes, pods, err := cluster.read(cmd)
		if err != nil {
			return err
		}
		pod, err := readPod(cmd, podFile)
		if err != nil {
			return err
		}
		options.Now = clock()
		answer, notes, err := fit(devices, pod, nodes, pods, options)
		if err != nil {
			return err
		}
		unknown := inspect.New(nodes, nil, inspect.Options{Devices: devices}).UnknownResources(pod)
		for _, n := range append(notes, unknown...) {
			note(cmd, n)
		}
		if out.value == "json" {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return printText(cmd, func(p *page) { printFit(p, answer) })
	}
	return cmd
}

// addSchedulerFlags are the scheduler's own settings.
func addSchedulerFlags(cmd *cobra.Command, config *string, options *amd.ScheduleOptions) {
	flags := cmd.Flags()
	flags.StringVar(config, "config", "", configHelp)
	options.GPUPolicy, options.NodePolicy = annotations.PolicySpread, annotations.PolicyBinpack
	flags.Var(policy{&options.GPUPolicy, annotations.GPUSchedulerPolicyKey}, "gpu-policy", "the scheduler's --gpu-scheduler-policy")
	flags.Var(policy{&options.NodePolicy, annotations.NodeSchedulerPolicyKey}, "node-policy", "the scheduler's --node-scheduler-policy")
}

// fit answers for one pod. A pod that admission refuses is answered too.
func fit(devices *amd.Devices, pod *corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod, options amd.ScheduleOptions) (fitted, []string, error) {
	answer := fitted{
		Pod: pod.Namespace + "/" + pod.Name, Containers: []fittedContainer{},
		Annotations: map[string]string{}, Refusals: []refusal{},
	}
	if _, err := devices.Admit(pod.DeepCopy()); err != nil {
		answer.Asks = true
		answer.Reason = "admission refuses the pod: " + err.Error()
		return answer, nil, nil
	}
	decision, err := devices.Schedule(pod, nodes, pods, options)
	if err != nil {
		return fitted{}, nil, err
	}
	answer.Node, answer.Asks, answer.Reason = decision.Node, decision.Asks, decision.Reason()
	maps.Copy(answer.Annotations, decision.Annotations)
	for i, name := range containerNames(decision.Pod) {
		if i < len(decision.Grants) {
			grants := append([]annotations.Grant{}, decision.Grants[i]...)
			answer.Containers = append(answer.Containers, fittedContainer{Name: name, Grants: grants})
		}
	}
	for _, r := range decision.Refusals {
		answer.Refusals = append(answer.Refusals, refusal{Node: r.Node, Container: r.Container, Reason: r.String()})
	}
	return answer, decision.Notes, nil
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	return names
}

func printFit(p *page, f fitted) {
	switch {
	case !f.Asks:
		p.line("pod %s asks for no AMD GPU", f.Pod)
	case f.Node != "":
		p.line("pod %s goes to node %s", f.Pod, f.Node)
		p.line("")
		var rows [][]string
		for _, c := range f.Containers {
			for _, g := range c.Grants {
				rows = append(rows, []string{c.Name, strconv.Itoa(int(g.CUs)), strconv.Itoa(int(g.MemoryMiB)), g.Type, g.UUID})
			}
		}
		p.table([]string{"CONTAINER", "CUS", "MIB", "TYPE", "DEVICE"}, rows)
		p.line("")
		for _, key := range slices.Sorted(maps.Keys(f.Annotations)) {
			p.line("%s: %s", key, f.Annotations[key])
		}
	case len(f.Refusals) > 0:
		p.line("pod %s fits on no node", f.Pod)
	default:
		p.line("pod %s is not placed: %s", f.Pod, f.Reason)
	}
	if len(f.Refusals) > 0 {
		var rows [][]string
		for _, r := range f.Refusals {
			rows = append(rows, []string{r.Node, unknownIf(r.Container == "", r.Container), r.Reason})
		}
		p.line("")
		p.table([]string{"REFUSED BY", "CONTAINER", "REASON"}, rows)
	}
}
