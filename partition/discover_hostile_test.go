package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

func TestDiscoverRoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]string{"absent": file + "-absent", "a file": file, "empty name": ""} {
		t.Run(name, func(t *testing.T) {
			inv, err := Discover(root)
			if err == nil || inv != nil {
				t.Fatalf("want an error, found %+v", inv)
			}
			if !strings.HasPrefix(err.Error(), "discover gpus: open sysfs: ") {
				t.Errorf("found %v", err)
			}
		})
	}
	if _, err := Discover(file + "-absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want fs.ErrNotExist, found %v", err)
	}
	t.Run("an empty folder", func(t *testing.T) {
		root := t.TempDir()
		inv := discoverTree(t, root)
		want := &Inventory{Notes: []string{root + ": neither class/kfd nor bus/pci nor class/drm below it: is it a sysfs mount?"}}
		if diff := cmp.Diff(want, inv); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// outside is a machine of its own beside the root, whose GPU must never be
// seen: a link that leads there stands for one to the host's real /sys.
func outside(tb testing.TB) string {
	tb.Helper()
	root := fixturetest.Machine(tb, "rx7900xtx")
	fixturetest.Write(tb, root, "bus/pci/devices/0000:03:00.0/product_name", "OUTSIDE\n")
	fixturetest.SetLine(tb, root, nodeFile(1, "properties"), "device_id", "29857") // an MI300X, to fit in
	fixturetest.SetLine(tb, root, nodeFile(1, "properties"), "unique_id", "3735928559")
	return root
}

func TestLinksOutOfTheRootAreRefused(t *testing.T) {
	const function = "bus/pci/devices/0000:05:00.0"
	out := outside(t)
	for name, test := range map[string]struct {
		link, target string
		gpus         int    // that stay of the eight
		fails        string // part of the error instead
	}{
		"kfd":                    {link: "class/kfd/kfd", target: out + "/devices/virtual/kfd/kfd", fails: "escapes"},
		"kfd, relative":          {link: "class/kfd/kfd", target: "../../../../../../../../" + out + "/class/kfd/kfd", fails: "escapes"},
		"list of nodes":          {link: "devices/virtual/kfd/kfd/topology/nodes", target: out + "/class/kfd/kfd/topology/nodes", fails: "escapes"},
		"node":                   {link: topologyDir + "/nodes/2", target: out + "/class/kfd/kfd/topology/nodes/1", gpus: 7},
		"node, inside":           {link: topologyDir + "/nodes/2", target: "3", gpus: 7},
		"properties":             {link: nodeFile(2, "properties"), target: out + "/class/kfd/kfd/topology/nodes/1/properties", gpus: 7},
		"memory banks":           {link: nodeFile(2, "mem_banks"), target: out + "/class/kfd/kfd/topology/nodes/1/mem_banks", gpus: 8},
		"memory bank":            {link: nodeFile(2, "mem_banks/0"), target: out + "/class/kfd/kfd/topology/nodes/1/mem_banks/0", gpus: 8},
		"pci function":           {link: function, target: out + "/bus/pci/devices/0000:03:00.0", gpus: 7},
		"pci function, relative": {link: function, target: strings.Repeat("../", 12) + out + "/bus/pci/devices/0000:03:00.0", gpus: 7},
		"product name":           {link: function + "/product_name", target: out + "/bus/pci/devices/0000:03:00.0/product_name", gpus: 8},
		"pci functions":          {link: "bus/pci/devices", target: out + "/bus/pci/devices", fails: "escapes"},
		"drm minors":             {link: function + "/drm", target: out + "/bus/pci/devices/0000:03:00.0/drm", gpus: 8},
		"platform devices":       {link: "devices/platform", target: out + "/devices", gpus: 8},
		"itself":                 {link: function, target: "0000:05:00.0", gpus: 7},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "mi300x-spx-8")
			fixturetest.Link(t, root, test.link, test.target)
			inv, err := Discover(root)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("want an error with %q, found %v", test.fails, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(inv.GPUs) != test.gpus || (len(inv.Skipped) == 0) != (test.gpus == 8) {
				t.Errorf("want %d GPUs, found %d and %v skipped", test.gpus, len(inv.GPUs), skippedLines(inv))
			}
			for _, g := range inv.GPUs {
				size := vramMiB(g.VRAMBytes)
				if g.Name != "AMD Instinct MI300X" || g.UniqueID == 3735928559 || size != 196592 && size != -1 {
					t.Errorf("%s is from outside: %s, %x, %d MiB", g.BDF, g.Name, g.UniqueID, size)
				}
			}
		})
	}
}

func TestNodesAreBounded(t *testing.T) {
	root := fixturetest.Machine(t, "rx7900xtx")
	for i := range maxNodes {
		if err := os.Mkdir(filepath.Join(root, topologyDir, "nodes", fmt.Sprint(10+i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Discover(root)
	const want = "discover gpus: list kfd nodes: 1026 nodes, want at most 1024"
	if err == nil || err.Error() != want {
		t.Errorf("want %q, found %v", want, err)
	}
}

// What is no node is passed over: names the kernel would not give.
func TestOddNodeNames(t *testing.T) {
	root := fixturetest.Machine(t, "rx7900xtx")
	for _, name := range []string{"01", "-1", "+1", "1x", "99999999999999999999", "x"} {
		fixturetest.Write(t, root, topologyDir+"/nodes/"+name+"/properties", "simd_count 64\nsimd_per_cu 2\nvendor_id 4098\n")
	}
	if diff := cmp.Diff([]string{"0000:03:00.0 p0: node 1"}, placed(discoverTree(t, root))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettled(t *testing.T) {
	sick := errors.New("node vanished")
	first, second := &Inventory{Notes: []string{"first"}}, &Inventory{Notes: []string{"second"}}
	for name, test := range map[string]struct {
		generations []string // one before and one after each read
		reads       []*Inventory
		errs        []error
		want        *Inventory
		wantErr     error
	}{
		"still":                       {[]string{"7", "7"}, []*Inventory{first}, []error{nil}, first, nil},
		"no generation":               {[]string{"", ""}, []*Inventory{first}, []error{nil}, first, nil},
		"still, with an error":        {[]string{"7", "7"}, []*Inventory{nil}, []error{sick}, nil, sick},
		"changed once":                {[]string{"7", "8", "8", "8"}, []*Inventory{first, second}, []error{nil, nil}, second, nil},
		"changed once, with an error": {[]string{"7", "8", "8", "8"}, []*Inventory{nil, second}, []error{sick, nil}, second, nil},
		"appeared":                    {[]string{"", "1", "1", "1"}, []*Inventory{first, second}, []error{nil, nil}, second, nil},
		"keeps changing": {[]string{"1", "2", "2", "3", "3", "4", "4", "5"},
			[]*Inventory{first, first, first, first}, []error{nil, nil, nil, nil}, nil, ErrTopologyChanged},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := 0, 0
			got, err := settled(
				func() string { g++; return test.generations[g-1] },
				func() (*Inventory, error) { r++; return test.reads[r-1], test.errs[r-1] },
			)
			if got != test.want || !errors.Is(err, test.wantErr) {
				t.Errorf("want %v, %v; found %v, %v", test.want, test.wantErr, got, err)
			}
			if r != len(test.reads) {
				t.Errorf("want %d reads, found %d", len(test.reads), r)
			}
		})
	}
}

// A tree that changes while it is read: whatever comes out, no device is
// another one. The minors of a GPU are known here, so a mixture shows.
func TestDiscoverWhileTheTreeChanges(t *testing.T) {
	root := fixturetest.Machine(t, "mi300x-spx-8")
	want := map[BDF]int{}
	for _, g := range wantMachines()["mi300x-spx-8"].GPUs {
		want[g.BDF] = g.Nodes[0].RenderMinor
	}
	nodes := filepath.Join(root, topologyDir, "nodes")
	whole, err := os.ReadFile(filepath.Join(nodes, "5", "properties"))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for generation := 100; ; generation++ {
			select {
			case <-stop:
				return
			default:
			}
			// Each error only means that the tree is a little different.
			os.WriteFile(filepath.Join(root, topologyDir, "generation_id"), fmt.Appendln(nil, generation/8), 0o644)
			os.Rename(filepath.Join(nodes, "9"), filepath.Join(nodes, "10"))
			os.WriteFile(filepath.Join(nodes, "5", "properties"), whole[:generation*37%len(whole)], 0o644)
			os.Rename(filepath.Join(nodes, "10"), filepath.Join(nodes, "9"))
			os.WriteFile(filepath.Join(nodes, "5", "properties"), whole, 0o644)
			runtime.Gosched()
		}
	})
	for range 40 {
		inv, err := Discover(root)
		if err != nil {
			continue
		}
		for _, g := range inv.GPUs {
			if len(g.Nodes) != 1 || g.Nodes[0].RenderMinor != want[g.BDF] {
				t.Errorf("%s: %+v", g.BDF, g.Nodes)
			}
		}
	}
	close(stop)
	changing.Wait()
	if diff := cmp.Diff(placed(wantMachines()["mi300x-spx-8"]), placed(discoverTree(t, root))); diff != "" {
		t.Errorf("at rest again (-want +got):\n%s", diff)
	}
}
