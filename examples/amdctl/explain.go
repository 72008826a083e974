package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/inspect"
)

func newExplain(clock clock) *cobra.Command {
	var cluster clusterFlags
	var config, at, namespace string
	var options amd.ScheduleOptions
	var all bool
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Say why a pod is pending or where it landed, and what would fit",
		Long: `explain asks every node about a pod of the cluster, as HAMi's scheduler would.
For a pod that is pending it prints the reason of each node, what is free of each
GPU, and what smaller request would fit now; for one that is placed what its
containers hold, and what verify finds wrong with it. The exit code is 0 either
way.

POD is NAMESPACE/NAME, or NAME with -n, or NAME alone if there is one such pod.
Only AMD GPUs are looked at, beside what keeps pods off a node most often (ready,
cordon, taints, nodeSelector, node lock); a quota of the namespace is not.

` + clusterHelp,
		Example: `  kubectl get nodes,pods -A -o yaml > cluster.yaml
  amdctl explain team/train-0 --cluster cluster.yaml

  # The live cluster
  amdctl explain train-0 -n team --context production`,
		Args: wantArguments("one POD"),
	}
	addClusterFlags(cmd, &cluster)
	addSchedulerFlags(cmd, &config, &options)
	flags := cmd.Flags()
	flags.StringVarP(&namespace, "namespace", "n", "", "the pod's namespace")
	flags.StringVar(&at, "at", "", "when the files were written, in RFC 3339; now if not given")
	flags.BoolVar(&all, "all", false, "print the GPUs of all nodes, not of the first few")
	out := addFormat(cmd, "text", "json")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		read, err := inspectOptions(config, at, clock)
		if err != nil {
			return err
		}
		namespace, name, err := splitPod(args[0], namespace)
		if err != nil {
			return err
		}
		nodes, pods, err := cluster.read(cmd)
		if err != nil {
			return err
		}
		pod, err := findPod(pods, namespace, name)
		if err != nil {
			return err
		}
		answer, err := inspect.New(nodes, pods, read).Explain(pod.Namespace, pod.Name, options)
		if err != nil {
			return err
		}
		if out.value == "json" {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return printText(cmd, func(p *page) { printExplanation(p, answer, all) })
	}
	return cmd
}

// splitPod reads NAMESPACE/NAME or NAME. "pod/NAME", as kubectl prints it, is
// NAME.
func splitPod(arg, flag string) (namespace, name string, err error) {
	namespace, name, slash := strings.Cut(arg, "/")
	switch {
	case !slash:
		namespace, name = flag, arg
	case namespace == "pod" || namespace == "pods":
		namespace = flag
	case namespace == "" || strings.Contains(name, "/"):
		return "", "", fmt.Errorf("pod %.80q: want NAMESPACE/NAME or NAME", arg)
	case flag != "" && flag != namespace:
		return "", "", fmt.Errorf("pod %.80q: want one namespace, found %.80q too (--namespace)", arg, flag)
	}
	if name == "" {
		return "", "", fmt.Errorf("pod %.80q: want NAMESPACE/NAME or NAME", arg)
	}
	return namespace, name, nil
}

// findPod finds the pod that is meant.
func findPod(pods []*corev1.Pod, namespace, name string) (*corev1.Pod, error) {
	var found []*corev1.Pod
	var namespaces []string
	for _, pod := range pods {
		if pod.Name == name && (namespace == "" || pod.Namespace == namespace) && !slices.Contains(namespaces, pod.Namespace) {
			found = append(found, pod)
			namespaces = append(namespaces, pod.Namespace)
		}
	}
	slices.Sort(namespaces)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		const most = 8
		if len(namespaces) > most {
			namespaces = append(namespaces[:most:most], "...")
		}
		return nil, fmt.Errorf("pod %.80q: there are %d of that name: want a namespace (-n), one of %s", name, len(found), strings.Join(namespaces, ", "))
	case namespace != "":
		return nil, fmt.Errorf("pod %.80q: no such pod among the %d of the cluster", namespace+"/"+name, len(pods))
	}
	return nil, fmt.Errorf("pod %.80q: no such pod in any namespace, among the %d of the cluster", name, len(pods))
}
