package main

import "github.com/spf13/cobra"

func newRoot(clock clock) *cobra.Command {
	root := &cobra.Command{
		Use:   "amdctl",
		Short: "Look at AMD GPUs shared under HAMi",
		Long: `amdctl shows what HAMi's scheduler and an AMD node make of GPUs, annotations
and pods. It works on files and on sysfs and talks to no cluster.

Every subcommand takes -o json. Answers go to standard output, notes and skipped
devices to standard error; bad input ends with one line and exit code 1.`,
		Example: `  # What would this node register?
  amdctl discover

  # Why is my pod pending?
  kubectl get nodes -o yaml > nodes.yaml
  kubectl get pods -A -o yaml > pods.yaml
  amdctl fit --nodes nodes.yaml --pods pods.yaml --pod my-pod.yaml

  # What does this annotation say?
  kubectl get node n1 -o jsonpath='{.metadata.annotations.hami\.io/node-amd-register}' |
    amdctl decode hami.io/node-amd-register -`,
		Args:          cobra.NoArgs, // also refuses unknown subcommands
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newDiscover(),
		newDecode(),
		newPack(),
		newFit(clock),
		newAllocate(clock),
		newSimulate(),
	)
	return root
}
