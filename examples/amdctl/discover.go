package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/spf13/cobra"
)

// sysfsFlags say which GPUs a node has and how it offers them. discover and
// allocate share them.
type sysfsFlags struct {
	root    string
	exclude string
	mode    string
	naming  string
	options partition.RegisterOptions
}

func (f *sysfsFlags) add(cmd *cobra.Command, root string) {
	flags := cmd.Flags()
	flags.StringVar(&f.root, "sysfs", root, "a sysfs mount or copy, or a machine archive")
	flags.StringVar(&f.mode, "mode", "cu", "operating mode: cu or partition")
	flags.StringVar(&f.naming, "naming", "single", "resource names: single or mixed")
	flags.StringVar(&f.options.NodeName, "node-name", "", "node name, part of the IDs of GPUs without a serial number")
	flags.IntVar(&f.options.SplitCount, "split-count", 0, "containers that may share a GPU; 0 is 2 on gfx12 and 10 otherwise")
	flags.Float64Var(&f.options.MemoryScaling, "memory-scaling", 1, "multiplies the VRAM a GPU registers")
	flags.StringVar(&f.exclude, "exclude", "", "GPUs to leave out, such as 0000:06:00.0,card1")
	for name, values := range map[string][]cobra.Completion{"mode": {"cu", "partition"}, "naming": {"single", "mixed"}} {
		// The error is a second registration of the same flag.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// registerOptions reads the flags, or says which of them cannot be.
func (f *sysfsFlags) registerOptions() (partition.RegisterOptions, error) {
	options := f.options
	var err error
	if options.Mode, err = partition.ParseOperatingMode(f.mode); err != nil {
		return options, fmt.Errorf("--mode: %w", err)
	}
	if options.Naming, err = partition.ParseNamingStrategy(f.naming); err != nil {
		return options, fmt.Errorf("--naming: %w", err)
	}
	if !(options.MemoryScaling > 0) { // false for NaN too
		return options, fmt.Errorf("--memory-scaling: want a number above 0, have %v", options.MemoryScaling)
	}
	if f.exclude != "" {
		options.Exclude = strings.Split(f.exclude, ",")
	}
	return options, options.Validate()
}

// register discovers and registers, and writes what was skipped or noticed to
// standard error.
func (f *sysfsFlags) register(cmd *cobra.Command) (*partition.Registration, error) {
	options, err := f.registerOptions()
	if err != nil {
		return nil, err
	}
	if f.root == "" {
		return nil, errors.New("--sysfs: want a directory or a machine archive")
	}
	inventory, err := f.discover()
	if err != nil {
		return nil, err
	}
	registration, err := inventory.Register(options)
	if err != nil {
		return nil, err
	}
	for _, s := range inventory.Skipped {
		note(cmd, fmt.Sprintf("skipped %s: %v", s.Device, s.Reason))
	}
	for _, n := range append(inventory.Notes, registration.Notes...) {
		note(cmd, n)
	}
	for _, d := range registration.Devices {
		if d.Unhealthy != "" {
			note(cmd, fmt.Sprintf("unhealthy %s: %s", d.GPU.BDF, d.Unhealthy))
		}
	}
	return registration, nil
}

// discover reads a folder where it is, and a machine archive from a temporary
// copy.
func (f *sysfsFlags) discover() (_ *partition.Inventory, err error) {
	if info, err := os.Stat(f.root); err != nil || !info.Mode().IsRegular() {
		return partition.Discover(f.root)
	}
	archive, err := readArchive(f.root)
	if err != nil {
		return nil, fmt.Errorf("--sysfs: %w", err)
	}
	dir, err := fixture.MkdirTemp()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fixture.Unpack(archive, dir); err != nil {
		return nil, fmt.Errorf("--sysfs %s: %w", f.root, err)
	}
	return partition.Discover(filepath.Join(dir, "sys"))
}

// readArchive reads no more of a file than an archive may have.
func readArchive(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, fixture.MaxArchiveBytes+1))
}

// discovered is one device in the JSON of discover: the register entry's
// members, then what only the node knows.
type discovered struct {
	ID         string                 `json:"id"`
	Index      uint                   `json:"index"`
	Count      int32                  `json:"count"`
	DevmemMiB  int32                  `json:"devmem"`
	Devcore    int32                  `json:"devcore"`
	Type       string                 `json:"type"`
	NUMA       *int                   `json:"numa"` // null where the kernel knows none
	Mode       string                 `json:"mode"`
	Health     bool                   `json:"health"`
	Unhealthy  string                 `json:"unhealthy,omitempty"`
	CustomInfo annotations.CustomInfo `json:"custominfo"`

	BDF        partition.BDF `json:"bdf"`
	Partition  *int          `json:"partition,omitempty"`
	GFX        string        `json:"gfx,omitempty"`
	Hard       bool          `json:"hard"`
	Resource   string        `json:"resource"`
	KubeletIDs []string      `json:"kubeletIDs"`
	Nodes      []kfdNode     `json:"nodes"`
}

type kfdNode struct {
	ID          int    `json:"id"`
	ROCr        string `json:"rocr,omitempty"`
	Card        *int   `json:"card"`
	RenderMinor int    `json:"renderMinor"`
	CUs         int    `json:"cus"`
	XCCs        int    `json:"xccs"`
}

func describe(r partition.Registered) discovered {
	d := discovered{
		ID: r.ID, Index: r.Index, Count: r.Count, DevmemMiB: r.Devmem, Devcore: r.Devcore, Type: r.Type,
		NUMA: r.GPU.NUMANode, Mode: r.Mode, Health: r.Health, Unhealthy: r.Unhealthy, CustomInfo: r.CustomInfo,
		BDF: r.GPU.BDF, GFX: r.GPU.GFX, Hard: r.Hard, Resource: r.Resource, KubeletIDs: r.KubeletIDs,
	}
	if r.Partition >= 0 {
		d.Partition = &r.Partition
	}
	for _, n := range r.Nodes {
		card := n.Card
		if card == nil && r.Partition < 0 {
			card = r.GPU.Card
		}
		d.Nodes = append(d.Nodes, kfdNode{
			ID: n.ID, ROCr: n.ROCrID(), Card: card, RenderMinor: n.RenderMinor,
			CUs: n.Geometry.CUs, XCCs: max(n.Geometry.XCCs, 1),
		})
	}
	return d
}

func newDiscover() *cobra.Command {
	var flags sysfsFlags
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "List a node's GPUs as it would register them",
		Long: `discover reads the GPUs of a node from sysfs, without ROCm or any library, and
shows the devices the node would register with HAMi.

In operating mode cu whole GPUs are sliced by compute units and memory. In mode
partition the hardware compute partitions of Instinct GPUs are registered.

-o annotation prints the value of the node annotation hami.io/node-amd-register.
-o json adds what the annotation does not hold: the KFD nodes with their DRM
devices and ROCr names, and the device IDs kubelet would see.

Devices that cannot be used are named on standard error with the reason.`,
		Example: `  # This machine
  amdctl discover

  # A copy of another machine's /sys, as hardware partitions
  amdctl discover --sysfs ./node7/sys --mode partition

  # A recorded machine of this repository
  amdctl discover --sysfs testdata/machines/mi300x-cpx-8.txt --mode partition

  # What would be registered without two GPUs and with 20 shares each?
  amdctl discover --exclude 0000:06:00.0,card1 --split-count 20 -o annotation`,
		Args: noArguments,
	}
	flags.add(cmd, "/sys")
	out := addFormat(cmd, "table", "annotation", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		registration, err := flags.register(cmd)
		if err != nil {
			return err
		}
		switch out.value {
		case "annotation":
			value, err := annotations.EncodeDevices(registration.Entries())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), value)
			return err
		case "json":
			devices := make([]discovered, 0, len(registration.Devices))
			for _, r := range registration.Devices {
				devices = append(devices, describe(r))
			}
			return printJSON(cmd.OutOrStdout(), devices)
		}
		if len(registration.Devices) == 0 {
			note(cmd, noGPUs)
			return nil
		}
		return printText(cmd, func(p *page) { printDevices(p, registration.Devices) })
	}
	return cmd
}

// noGPUs is what a node without GPUs is told. partition reads KFD's topology.
const noGPUs = "no AMD GPUs found: want the kernel's amdgpu driver loaded with KFD (lsmod | grep amdgpu, ls /dev/kfd, dmesg | grep -e amdgpu -e kfd)"

func printDevices(p *page, devices []partition.Registered) {
	header := []string{"INDEX", "BDF", "TYPE", "CUS", "XCCS", "VRAM MIB", "NUMA", "SHARES", "MODE", "HEALTH", "ID"}
	mixed := slices.ContainsFunc(devices, func(r partition.Registered) bool { return r.Resource != partition.ResourceGPU })
	if mixed {
		header = append(header, "RESOURCE")
	}
	var rows [][]string
	for _, r := range devices {
		bdf := string(r.GPU.BDF)
		if r.Partition >= 0 {
			bdf += "-p" + strconv.Itoa(r.Partition)
		}
		row := []string{
			strconv.Itoa(int(r.Index)), bdf, r.Type, strconv.Itoa(int(r.Devcore)), strconv.Itoa(max(r.CustomInfo.NumXCC, 1)),
			unknownIf(r.Devmem == 0, strconv.Itoa(int(r.Devmem))), optional(r.GPU.NUMANode), strconv.Itoa(int(r.Count)),
			unknownIf(r.Mode == "", r.Mode), map[bool]string{true: "ok", false: "unhealthy"}[r.Health], r.ID,
		}
		if mixed {
			row = append(row, r.Resource)
		}
		rows = append(rows, row)
	}
	p.table(header, rows)
}

func optional(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func unknownIf(unknown bool, s string) string {
	if unknown {
		return "-"
	}
	return s
}
