package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/cumask/simulate"
)

// simulateFlags are the inputs of simulate.
type simulateFlags struct {
	product  string
	cus      int
	xccs     int
	wgp      int
	rounding string
	policies []string
	config   simulate.Config
}

func newSimulate() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Compare ways to choose compute units over time",
		Long: `simulate lets pods arrive on one GPU, hold a share of its CUs for a while and
leave, and compares the masks that different policies hand out to the same pods:
how many of the granted CUs are effective, how many masks leave an XCC without a
CU and would hang their queue, how many pods are refused, and how useful what is
left free stays.

The rows of the table, one column for each policy:
  granted, refused      pods that got CUs, and that found too few free
  scattered, starved    refused although enough were free in all; masks that leave
  half WGP              an XCC without a CU; masks with one CU of a pair
  mean, p5              effective CUs of a mask in parts of those granted: mean,
                        and the value that one mask in twenty does not reach
  of bound              effective CUs in parts of what an idle GPU would give
  of possible           ... of what the CUs free at that moment could give
  ranges                ranges in a mask, mean
  free usable           effective CUs in parts of the free CUs, mean over time

The same flags give the same answer. -o csv and -o svg show it over time.

Products: ` + strings.Join(productNames(), ", ") + `
Policies: ` + strings.Join(allPolicyNames(), ", "),
		Example: `  amdctl simulate
  amdctl simulate --gpu mi355x --requests 100000 --min-percent 5 --max-percent 25
  amdctl simulate --cus 80 --xccs 4 --load 1.2 -o svg > plot.svg`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.product, "gpu", "mi300x", "product to simulate")
	flags.IntVar(&f.cus, "cus", 0, "CUs of another GPU, instead of --gpu")
	flags.IntVar(&f.xccs, "xccs", 1, "its XCCs")
	flags.IntVar(&f.wgp, "cus-per-wgp", 1, "its CUs that work only together: 2 on RDNA")
	flags.StringVar(&f.rounding, "rounding", cumask.RoundPlain.String(), "from percent to CUs: plain or balanced")
	flags.StringSliceVar(&f.policies, "policies", policyNames(), "policies to compare")
	flags.Uint64Var(&f.config.Seed, "seed", 1, "of the random numbers")
	flags.IntVar(&f.config.Requests, "requests", 20000, "pods that arrive")
	flags.IntVar(&f.config.MinPercent, "min-percent", 2, "smallest request")
	flags.IntVar(&f.config.MaxPercent, "max-percent", 50, "largest request")
	flags.Float64Var(&f.config.Load, "load", 1, "what pods would hold at once if none were refused, in GPUs")
	flags.Float64Var(&f.config.Lifetime, "lifetime", 0, "mean time a pod stays, in times between arrivals; 0 follows from --load")
	flags.IntVar(&f.config.Samples, "samples", 100, "points over time for csv, svg and json")
	out := addFormat(cmd, "table", "csv", "svg", "json")
	for name, values := range map[string][]string{"gpu": productNames(), "policies": allPolicyNames(), "rounding": {"plain", "balanced"}} {
		// The error is a second registration of the same flag.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := f.simulation(cmd.Flags().Changed)
		if err != nil {
			return err
		}
		report, err := simulate.Run(config)
		if err != nil {
			return err
		}
		switch out.value {
		case "json":
			return printJSON(cmd.OutOrStdout(), report)
		case "csv":
			return report.CSV(cmd.OutOrStdout())
		case "svg":
			return report.SVG(cmd.OutOrStdout())
		}
		return report.Table(cmd.OutOrStdout())
	}
	return cmd
}

// simulation is the flags as a Config; given tells which were given.
func (f *simulateFlags) simulation(given func(flag string) bool) (simulate.Config, error) {
	config := f.config
	// In a Config 0 means the default; who writes it means none.
	for _, f := range []struct {
		flag string
		zero bool
	}{
		{"requests", config.Requests == 0}, {"samples", config.Samples == 0}, {"load", config.Load == 0},
		{"min-percent", config.MinPercent == 0}, {"max-percent", config.MaxPercent == 0},
	} {
		if f.zero {
			return config, fmt.Errorf("--%s: want a number above 0", f.flag)
		}
	}
	if !given("samples") {
		config.Samples = 0 // as many as there are requests, if these are fewer
	}
	switch {
	case given("cus") && given("gpu"):
		return config, errors.New("--gpu and --cus: want one of them")
	case !given("cus") && (given("xccs") || given("cus-per-wgp")):
		return config, errors.New("--xccs and --cus-per-wgp: want --cus with them")
	case given("cus"):
		config.Geometry = cumask.Geometry{CUs: f.cus, XCCs: f.xccs, CUsPerWGP: f.wgp}
	default:
		product, err := productOf(f.product)
		if err != nil {
			return config, err
		}
		config.Name, config.Geometry = product.Name, product.Geometry
	}
	var err error
	if config.Rounding, err = cumask.ParseRounding(f.rounding); err != nil {
		return config, fmt.Errorf("--rounding: %w", err)
	}
	for _, name := range f.policies {
		policy, err := simulate.ParsePolicy(name)
		if err != nil {
			return config, fmt.Errorf("--policies: %w", err)
		}
		config.Policies = append(config.Policies, policy)
	}
	return config, nil
}

func productOf(name string) (simulate.Product, error) {
	for _, p := range simulate.Products() {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
	}
	return simulate.Product{}, fmt.Errorf("--gpu %q: want one of %s", name, strings.Join(productNames(), ", "))
}

func productNames() []string {
	var names []string
	for _, p := range simulate.Products() {
		names = append(names, p.Name)
	}
	return names
}

// allPolicyNames are those there are; policyNames is compared if none is named.
func allPolicyNames() []string {
	return []string{simulate.Pack().Name, simulate.PackBalanced().Name, simulate.LowestFirst().Name, simulate.LowestFirstWhole().Name}
}

func policyNames() []string {
	return []string{simulate.Pack().Name, simulate.LowestFirst().Name}
}
