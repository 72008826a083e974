package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// verified is the answer of verify.
type verified struct {
	Nodes    int               `json:"nodes"`
	GPUs     int               `json:"gpus"`
	Pods     int               `json:"pods"`
	Errors   int               `json:"errors"`
	Warnings int               `json:"warnings"`
	Problems []inspect.Problem `json:"problems"`
}

func newVerify(clock clock) *cobra.Command {
	var cluster clusterFlags
	var config, at string
	var lockTimeout time.Duration
	var list bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Find what is inconsistent in a cluster, with the remedy",
		Long: `verify compares what the nodes of a cluster register, what the scheduler granted
and what the device plugins handed out, and reports each inconsistency with what
to do about it: masks of two pods that overlap, a mask that starves an XCC, a
pod that runs without one, grants of devices that are gone, more granted than
there is, locks nobody releases, settings that have no effect and more; --list
prints all kinds. What is under way for less than a minute is no problem.

The exit code is 0 when no error was found, warnings or not, and 1 when one was
or when the input cannot be read.

` + clusterHelp,
		Example: `  kubectl get nodes,pods -A -o yaml > cluster.yaml
  amdctl verify --cluster cluster.yaml

  # The live cluster
  amdctl verify --context production

  # All errors of one node
  amdctl verify --cluster cluster.yaml -o json |
    jq -r '.problems[] | select(.severity == "error" and .node == "n1") | .detail'`,
		Args: noArguments,
	}
	addClusterFlags(cmd, &cluster)
	flags := cmd.Flags()
	flags.StringVar(&config, "config", "", configHelp)
	flags.StringVar(&at, "at", "", "when the files were written, in RFC 3339; now if not given")
	flags.DurationVar(&lockTimeout, "lock-timeout", 0, "the scheduler's --node-lock-timeout (5m if not given)")
	flags.BoolVar(&list, "list", false, "print what each kind of problem means and its remedy, and read no cluster")
	out := addFormat(cmd, "text", "json")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if list {
			return listCodes(cmd, out.value == "json")
		}
		options, err := inspectOptions(config, at, clock)
		if err != nil {
			return err
		}
		if lockTimeout < 0 {
			return fmt.Errorf("--lock-timeout: want more than 0, found %v", lockTimeout)
		}
		options.LockTimeout = lockTimeout
		nodes, pods, err := cluster.read(cmd)
		if err != nil {
			return err
		}
		answer := verify(inspect.New(nodes, pods, options))
		if out.value == "json" {
			err = printJSON(cmd.OutOrStdout(), answer)
		} else {
			err = printText(cmd, func(p *page) { printVerified(p, answer) })
		}
		if err == nil && answer.Errors > 0 {
			err = fmt.Errorf("%s found", count(answer.Errors, "error"))
		}
		return err
	}
	return cmd
}

// inspectOptions are those that all commands on a cluster have.
func inspectOptions(config, at string, clock clock) (inspect.Options, error) {
	devices, err := newDevices(config)
	if err != nil {
		return inspect.Options{}, err
	}
	now := clock()
	if at != "" {
		if now, err = time.Parse(time.RFC3339, at); err != nil {
			return inspect.Options{}, fmt.Errorf("--at: want a time such as 2026-08-21T12:00:00Z, found %.64q", at)
		}
	}
	return inspect.Options{Devices: devices, Now: now}, nil
}

func verify(c *inspect.Cluster) verified {
	answer := verified{Nodes: len(c.Nodes), Pods: len(c.Pods), Problems: []inspect.Problem{}}
	for _, n := range c.Nodes {
		answer.GPUs += len(n.GPUs)
	}
	for p := range c.All() {
		answer.Problems = append(answer.Problems, p)
		if p.Severity == inspect.Error {
			answer.Errors++
		} else {
			answer.Warnings++
		}
	}
	return answer
}

// printVerified writes the errors, then the warnings.
func printVerified(p *page, v verified) {
	looked := fmt.Sprintf("%s, %s, %s", count(v.Nodes, "node"), count(v.GPUs, "GPU"), count(v.Pods, "pod"))
	if len(v.Problems) == 0 {
		p.line("nothing is wrong: %s", looked)
		return
	}
	p.line("%s, %s: %s", count(v.Errors, "error"), count(v.Warnings, "warning"), looked)
	for _, severity := range []inspect.Severity{inspect.Error, inspect.Warning} {
		for _, problem := range v.Problems {
			if problem.Severity == severity {
				p.line("")
				printProblem(p, problem)
			}
		}
	}
}

func printProblem(p *page, problem inspect.Problem) {
	p.line("%-8s %s", problem.Severity, problem.Where())
	p.paragraph("         ", string(problem.Code)+": "+problem.Detail)
	p.paragraph("         ", "remedy: "+problem.Remedy)
}

// paragraph adds a text in lines of some 90 characters; a word is never broken.
func (p *page) paragraph(indent, text string) {
	const most = 90
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(indent)+len(line)+1+len(word) > most {
			p.line("%s%s", indent, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	p.line("%s%s", indent, line)
}

// kindOfProblem is one entry of verify --list.
type kindOfProblem struct {
	Code     inspect.Code     `json:"code"`
	Severity inspect.Severity `json:"severity"`
	Meaning  string           `json:"meaning"`
	Remedy   string           `json:"remedy"`
}

func listCodes(cmd *cobra.Command, asJSON bool) error {
	kinds := []kindOfProblem{}
	for _, code := range inspect.Codes() {
		kinds = append(kinds, kindOfProblem{code, code.Severity(), code.Meaning(), code.Remedy()})
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), kinds)
	}
	return printText(cmd, func(p *page) {
		for i, k := range kinds {
			if i > 0 {
				p.line("")
			}
			p.line("%s (%s)", k.Code, k.Severity)
			p.paragraph("  ", k.Meaning)
			p.paragraph("  ", "remedy: "+k.Remedy)
		}
	})
}

// count is "1 node", "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
