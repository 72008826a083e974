package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// modes are what the GPUs' mode files say now.
func modes(n *node.Node) (found []string) {
	n.Helper()
	for _, gpu := range n.Inventory().GPUs {
		data, err := os.ReadFile(filepath.Join(n.Sysfs(), "bus/pci/devices", string(gpu.BDF), "current_compute_partition"))
		if err != nil {
			n.Fatal(err)
		}
		found = append(found, string(bytes.TrimSpace(data)))
	}
	return found
}

// becomes puts another machine's sysfs in place of the node's, as the kernel
// does with the topology when the mode of the GPUs changes.
func becomes(n *node.Node, machine string) {
	n.Helper()
	archive, err := testdata.Machine(machine)
	if err != nil {
		n.Fatal(err)
	}
	next := filepath.Join(n.Dir, "next")
	err = errors.Join(os.Mkdir(next, 0o755), fixture.Unpack(archive, next),
		os.Rename(n.Sysfs(), filepath.Join(n.Dir, "old")), os.Rename(filepath.Join(next, "sys"), n.Sysfs()))
	if err != nil {
		n.Fatal(err)
	}
	n.MakeDeviceFiles()
}

// The idle GPUs of a node are switched when the plugin starts. A GPU that a pod
// holds stays as it is, whoever wants what.
func TestPartitionsAreSwitchedAtStart(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-pulse=1"}})
	s := n.MustPlace(n.Pod("busy", node.Slice("app", 1, 25, 16384)))
	partition, cpx := "partition", "cpx"
	n.Annotate(map[string]*string{annotations.OperatingModeKey: &partition, annotations.ComputePartitionKey: &cpx})
	n.StopPlugin()
	n.LaunchPlugin()
	n.Eventually("the idle GPUs are switched", func() error {
		if got := strings.Join(modes(n), " "); got != "CPX CPX CPX CPX CPX CPX CPX SPX" {
			return fmt.Errorf("modes are %s", got)
		}
		return nil
	})
	n.Eventually("the log says why one is not", func() error {
		if !strings.Contains(n.PluginLog(), lastBDF+": busy: ") {
			return errNotYet
		}
		return nil
	})

	n.StopPlugin()
	n.Delete(s.Pod)
	n.LaunchPlugin()
	n.Eventually("all GPUs are switched", func() error {
		if got := strings.Join(modes(n), " "); strings.Contains(got, "SPX") {
			return fmt.Errorf("modes are %s", got)
		}
		return nil
	})
	n.WaitDevices("amd.com/gpu", 8)
	becomes(n, "mi300x-cpx-8")
	n.WaitDevices("amd.com/gpu", 64)
	waitRegistered(n, 64)
	for i := range 8 {
		n.CheckPlaced(n.Place(n.Pod(fmt.Sprintf("partitions-%d", i), node.Whole("app", 8))))
	}
}
