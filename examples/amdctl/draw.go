package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw"
)

// drawFlags are the inputs of draw.
type drawFlags struct {
	cluster    clusterFlags
	config, at string
	options    draw.Options
	width      int
	ascii      bool
}

func newDraw(clock clock) *cobra.Command {
	var f drawFlags
	cmd := &cobra.Command{
		Use:   "draw",
		Short: "Draw who holds which compute units and how much VRAM",
		Long: `draw paints every GPU of a cluster: the map of its compute units, a row for each
XCC, its VRAM, the containers that hold parts of it with the CUs that are
effective in their masks, what is free, and what is wrong.

-o text is for a terminal, with colours if it is one and NO_COLOR is not set.
-o svg is one picture. -o html is one page that needs no network: it has a filter
and shows details, and can be sent as a file. -o json is what is drawn, for
programs.

` + clusterHelp,
		Example: `  kubectl get nodes,pods -A -o yaml > cluster.yaml
  amdctl draw --cluster cluster.yaml

  # A page of the live cluster
  amdctl draw --context production -o html > gpus.html

  # What is wrong on one node
  amdctl draw --cluster cluster.yaml --node n1 --problems`,
		Args: noArguments,
	}
	addClusterFlags(cmd, &f.cluster)
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", configHelp)
	flags.StringVar(&f.at, "at", "", "when the files were written, in RFC 3339; now if not given")
	flags.StringVar(&f.options.Node, "node", "", "draw this node alone")
	flags.BoolVar(&f.options.Problems, "problems", false, "draw only GPUs and nodes with a problem")
	flags.StringVar(&f.options.Title, "title", "", `heading ("AMD GPUs" if not given)`)
	flags.IntVar(&f.width, "width", 0, "columns of text or pixels of svg; 0 is the terminal's, or enough")
	flags.BoolVar(&f.ascii, "ascii", false, "text without other characters; so it is where the locale has none")
	out := addFormat(cmd, "text", "svg", "html", "json")

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		options, err := inspectOptions(f.config, f.at, clock)
		if err != nil {
			return err
		}
		if f.width < 0 {
			return fmt.Errorf("--width: want 0 or more, found %d", f.width)
		}
		nodes, pods, err := f.cluster.read(cmd)
		if err != nil {
			return err
		}
		cluster := inspect.New(nodes, pods, options)
		if f.options.Node != "" && !hasNode(cluster, f.options.Node) {
			return fmt.Errorf("--node: want a node with AMD GPUs, found %q", f.options.Node)
		}
		f.options.Time = options.Now
		switch out.value {
		case "json":
			return printJSON(cmd.OutOrStdout(), newDrawn(cluster, f.options))
		case "svg":
			return draw.SVG(cmd.OutOrStdout(), cluster, draw.SVGOptions{Options: f.options, Width: f.width})
		case "html":
			return draw.HTML(cmd.OutOrStdout(), cluster, draw.HTMLOptions{Options: f.options})
		}
		return draw.Text(cmd.OutOrStdout(), cluster, f.text(cmd, os.LookupEnv))
	}
	return cmd
}

func hasNode(c *inspect.Cluster, name string) bool {
	for _, n := range c.Nodes {
		if n.Name == name {
			return true
		}
	}
	return false
}

// plainWidth is for files and pipes: the legend of an MI300X with the masks.
const plainWidth = 110

// text is what the terminal can show: its width, and colours unless NO_COLOR
// (no-color.org) or TERM=dumb says otherwise. A file or pipe is plain, and as
// wide as COLUMNS says.
func (f *drawFlags) text(cmd *cobra.Command, env func(string) (string, bool)) draw.TextOptions {
	o := draw.TextOptions{Options: f.options, Width: f.width, ASCII: f.ascii || !utf8Locale(env)}
	width := plainWidth
	if file, ok := cmd.OutOrStdout().(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		noColor, _ := env("NO_COLOR")
		kind, _ := env("TERM")
		o.Color = noColor == "" && kind != "dumb"
		if n, _, err := term.GetSize(int(file.Fd())); err == nil && n > 0 {
			width = n
		}
	} else if columns, ok := env("COLUMNS"); ok {
		if n, err := strconv.Atoi(columns); err == nil && n > 0 {
			width = n
		}
	}
	if o.Width == 0 {
		o.Width = width
	}
	return o
}
