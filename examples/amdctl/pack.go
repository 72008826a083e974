package main

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/spf13/cobra"
)

// packed is the answer of pack.
type packed struct {
	CUs       string `json:"cus"`
	Count     int    `json:"count"`
	PerXCC    []int  `json:"perXCC"`
	Effective int    `json:"effective"`
	HSACUMask string `json:"hsaCUMask"`
}

func newPack() *cobra.Command {
	var (
		g    cumask.Geometry
		used string
		want int
	)
	cmd := &cobra.Command{
		Use:   "pack --cus N --want N",
		Short: "Choose the compute units of a slice",
		Long: `pack chooses CUs for a slice as the device plugin would, on a GPU where some CUs
are held already.

On a GPU with several XCCs, CU i belongs to XCC i mod XCCs, and work groups go
round-robin over the XCCs: the XCC with the fewest CUs sets the pace. "effective"
is what a slice is worth, XCCs x the fewest CUs on any of them. No XCC is ever
left without a CU, which would hang the queue. On RDNA, CUs come in pairs (WGPs).`,
		Example: `  # A quarter of an idle MI300X
  amdctl pack --cus 304 --xccs 8 --want 76

  # The same when others hold 150 CUs
  amdctl pack --cus 304 --xccs 8 --used 0-99,200-249 --want 76

  # 8 CUs of an RX 9060 XT
  amdctl pack --cus 32 --cus-per-wgp 2 --want 8`,
		Args: noArguments,
	}
	flags := cmd.Flags()
	flags.IntVar(&g.CUs, "cus", 0, "CUs of the GPU (required)")
	flags.IntVar(&g.XCCs, "xccs", 1, "XCCs of the GPU")
	flags.IntVar(&g.CUsPerWGP, "cus-per-wgp", 1, "CUs that work only together: 2 on RDNA")
	flags.StringVar(&used, "used", "", `CUs that are held, such as "0-75,80"`)
	flags.IntVar(&want, "want", 0, "CUs of the slice (required)")
	out := addFormat(cmd, "json", "text")
	_ = cmd.MarkFlagRequired("cus") // the flags exist
	_ = cmd.MarkFlagRequired("want")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		answer, err := pack(g, used, want)
		if err != nil {
			return err
		}
		if out.value == "json" {
			return printJSON(cmd.OutOrStdout(), answer)
		}
		return printText(cmd, func(p *page) {
			p.line("CUs %s (%d)", answer.CUs, answer.Count)
			p.line("per XCC %v, effective %d", answer.PerXCC, answer.Effective)
			p.line("HSA_CU_MASK=%s", answer.HSACUMask)
		})
	}
	return cmd
}

func pack(g cumask.Geometry, used string, want int) (packed, error) {
	if err := g.Validate(); err != nil {
		return packed{}, err
	}
	held := cumask.Set{}
	if used != "" {
		var err error
		if held, err = cumask.ParseSet(used); err != nil {
			return packed{}, fmt.Errorf("--used: %w", err)
		}
		if over := held.Minus(g.All()); !over.Empty() {
			return packed{}, fmt.Errorf("--used: CUs %s are beyond the GPU's last, %d", over, g.CUs-1)
		}
	}
	set, err := cumask.Pack(g, held, want)
	if err != nil {
		return packed{}, err
	}
	mask, err := cumask.FormatHSAMask([]cumask.DeviceMask{{Device: 0, CUs: set}})
	if err != nil {
		return packed{}, err
	}
	spread := g.Spread(set)
	return packed{CUs: set.String(), Count: set.Len(), PerXCC: spread.PerXCC, Effective: spread.Effective, HSACUMask: mask}, nil
}
