package main

import (
	"github.com/spf13/cobra"

	"github.com/Project-HAMi/hami-amd/internal/version"
)

func newRoot(clock clock) *cobra.Command {
	root := &cobra.Command{
		Use:   "amdctl",
		Short: "Look at AMD GPUs shared under HAMi",
		Long: `amdctl shows what HAMi's scheduler and an AMD node make of GPUs, annotations
and pods. It works on files and on sysfs; verify, explain, draw and fit also read
a live cluster, through kubectl. It changes nothing anywhere. Installed on the
PATH as kubectl-amd it is kubectl's subcommand: kubectl amd verify.

Every subcommand takes -o json. Answers go to standard output, notes and skipped
devices to standard error; bad input ends with one line and exit code 1.`,
		Example: `  # What would this node register?
  amdctl discover

  # Is anything inconsistent in the cluster?
  amdctl verify --context production

  # Why is my pod pending, and what would fit?
  kubectl get nodes,pods -A -o yaml > cluster.yaml
  amdctl explain team/my-pod --cluster cluster.yaml

  # What does this annotation say?
  kubectl get node n1 -o jsonpath='{.metadata.annotations.hami\.io/node-amd-register}' |
    amdctl decode hami.io/node-amd-register -`,
		Args:          cobra.NoArgs, // also refuses unknown subcommands
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.String(),
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newDiscover(),
		newDecode(),
		newPack(),
		newFit(clock),
		newAllocate(clock),
		newSimulate(),
		newDraw(clock),
		newVerify(clock),
		newExplain(clock),
	)
	return root
}
