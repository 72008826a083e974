package partition

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// gpuAt finds a GPU of an inventory.
func gpuAt(tb testing.TB, inv *Inventory, bdf BDF) *GPU {
	tb.Helper()
	for i := range inv.GPUs {
		if inv.GPUs[i].BDF == bdf {
			return &inv.GPUs[i]
		}
	}
	tb.Fatalf("no GPU %s in the inventory", bdf)
	return nil
}

func TestLinksOfWholeGPUs(t *testing.T) {
	inv, err := Discover(fixturetest.Machine(t, "mi210-8"))
	if err != nil {
		t.Fatal(err)
	}
	// Node 5 is in the hive of nodes 2 to 5, beside CPU 0.
	want := []Link{
		{To: 0, Type: LinkPCIe, Weight: 20, MinMBps: 312, MaxMBps: 32000},
		{To: 2, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 3, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 4, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 1, Type: LinkPCIe, Weight: 52, Peer: true},
		{To: 6, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 7, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 8, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 9, Type: LinkPCIe, Weight: 72, Peer: true},
	}
	if diff := cmp.Diff(want, gpuAt(t, inv, "0000:26:00.0").Nodes[0].Links); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLinksOfPartitions(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-cpx-8")
	for name, test := range map[string]struct {
		opts  DiscoverOptions
		later int // links of the nodes after a GPU's first
	}{
		"one node per GPU by default": {DiscoverOptions{}, 0},
		"all on request":              {DiscoverOptions{AllLinks: true}, 65},
	} {
		t.Run(name, func(t *testing.T) {
			inv, err := DiscoverWith(root, test.opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range inv.GPUs {
				for i, n := range g.Nodes {
					want := test.later
					if i == 0 {
						want = 65 // 63 partitions, both CPUs
					}
					if len(n.Links) != want {
						t.Errorf("node %d: want %d links, found %d", n.ID, want, len(n.Links))
					}
				}
			}
			// Node 10 is partition 0 of the second GPU: siblings 11 to 17.
			weights := map[int]int{}
			for _, l := range gpuAt(t, inv, "0000:27:00.0").Nodes[0].Links {
				weights[l.Weight]++
			}
			want := map[int]int{20: 1, 52: 1, 13: 7, 41: 56}
			if diff := cmp.Diff(want, weights); diff != "" {
				t.Errorf("links by weight (-want +got):\n%s", diff)
			}
		})
	}
}

// A broken record costs that record, and says so.
func TestLinksThatAreBroken(t *testing.T) {
	const dir = "class/kfd/kfd/topology/nodes/1/io_links/0"
	for name, test := range map[string]struct {
		edit func(tb testing.TB, root string)
		want string // part of the note
	}{
		"to a node that is not there": {func(tb testing.TB, root string) {
			fixturetest.SetLine(tb, root, dir+"/properties", "node_to", "7")
		}, "node_to 7 is no node"},
		"without a target": {func(tb testing.TB, root string) {
			fixturetest.DropLine(tb, root, dir+"/properties", "node_to")
		}, "is no node"},
		"weight beyond reason": {func(tb testing.TB, root string) {
			fixturetest.SetLine(tb, root, dir+"/properties", "weight", "18446744073709551615")
		}, "a value beyond"},
		"no number": {func(tb testing.TB, root string) {
			fixturetest.SetLine(tb, root, dir+"/properties", "weight", "heavy")
		}, `weight "heavy"`},
		"empty": {func(tb testing.TB, root string) {
			fixturetest.Write(tb, root, dir+"/properties", "")
		}, "empty file"},
		"no file": {func(tb testing.TB, root string) {
			fixturetest.Remove(tb, root, dir+"/properties")
		}, "no such file"},
		"a link out of the tree": {func(tb testing.TB, root string) {
			elsewhere := tb.TempDir()
			fixturetest.Write(tb, elsewhere, "properties", "type 11\nnode_to 0\nweight 1\n")
			fixturetest.Link(tb, root, dir, elsewhere)
		}, "symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "rx7900xtx")
			test.edit(t, root)
			inv, err := Discover(root)
			if err != nil {
				t.Fatal(err)
			}
			if got := inv.GPUs[0].Nodes[0].Links; len(got) != 0 {
				t.Errorf("want no link, found %+v", got)
			}
			if len(inv.Notes) != 1 || !strings.Contains(inv.Notes[0], test.want) || !strings.HasPrefix(inv.Notes[0], "node 1: io_links: ") {
				t.Errorf("want one note with %q, found %q", test.want, inv.Notes)
			}
		})
	}
}

func TestLinksAreBounded(t *testing.T) {
	root := fixturetest.Machine(t, "rx7900xtx")
	dir := filepath.Join(root, "class/kfd/kfd/topology/nodes/1/p2p_links")
	for i := range maxLinks + 1 {
		if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inv, err := Discover(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := inv.GPUs[0].Nodes[0].Links; len(got) != 1 {
		t.Errorf("want the io_link alone, found %d links", len(got))
	}
	if len(inv.Notes) != 1 || !strings.Contains(inv.Notes[0], "1025 records, want at most 1024") {
		t.Errorf("found notes %q", inv.Notes)
	}
}
