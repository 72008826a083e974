package partition

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// The captures hold KFD's nodes and nothing else: no gpu_id, no memory, no
// names, no DRM. The figures are those of their README.

func TestDiscoverCapturedMI210(t *testing.T) {
	inv, err := Discover(fixturetest.Captured(t, "mi210-xgmi-pcie"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range inv.GPUs {
		n := g.Nodes[0]
		got = append(got, fmt.Sprintf("%s %s %s %04x hive %d, %d nodes: %d renderD%d, %d CUs/%d XCC, %d queues, %s",
			g.BDF, g.Name, g.GFX, g.DeviceID, g.HiveID, len(g.Nodes), n.ID, n.RenderMinor, n.Geometry.CUs, n.Geometry.XCCs, n.ComputeQueues, n.ROCrID()))
		if g.VRAMBytes != nil || n.VRAMBytes != nil || g.NUMANode != nil || g.Card != nil || g.Revision != nil || g.Compute != "" {
			t.Errorf("%s: something that was not captured is not absent: %+v", g.BDF, g)
		}
	}
	want := []string{
		"0000:03:00.0 AMD Instinct MI210 gfx90a 740f hive 12609507387757274807, 1 nodes: 4 renderD130, 104 CUs/1 XCC, 24 queues, GPU-93bb3629c01aea1c",
		"0000:26:00.0 AMD Instinct MI210 gfx90a 740f hive 12609507387757274807, 1 nodes: 5 renderD131, 104 CUs/1 XCC, 24 queues, GPU-4344e78b718814cd",
		"0000:43:00.0 AMD Instinct MI210 gfx90a 740f hive 12609507387757274807, 1 nodes: 3 renderD129, 104 CUs/1 XCC, 24 queues, GPU-51276ac12ce05db3",
		"0000:63:00.0 AMD Instinct MI210 gfx90a 740f hive 12609507387757274807, 1 nodes: 2 renderD128, 104 CUs/1 XCC, 24 queues, GPU-1901ead3a2ecd4a6",
		"0000:83:00.0 AMD Instinct MI210 gfx90a 740f hive 18091350218769748594, 1 nodes: 8 renderD134, 104 CUs/1 XCC, 24 queues, GPU-f83f06efb714e6cf",
		"0000:a3:00.0 AMD Instinct MI210 gfx90a 740f hive 18091350218769748594, 1 nodes: 9 renderD135, 104 CUs/1 XCC, 24 queues, GPU-c34ec50444dd0a6d",
		"0000:c3:00.0 AMD Instinct MI210 gfx90a 740f hive 18091350218769748594, 1 nodes: 7 renderD133, 104 CUs/1 XCC, 24 queues, GPU-a3781b5a10fcf54a",
		"0000:e3:00.0 AMD Instinct MI210 gfx90a 740f hive 18091350218769748594, 1 nodes: 6 renderD132, 104 CUs/1 XCC, 24 queues, GPU-aea834aa2723eb57",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(inv.Skipped) != 0 || len(inv.Notes) != 0 {
		t.Errorf("found skipped %v and notes %q", inv.Skipped, inv.Notes)
	}
	// The UUID comes from KFD's unique_id where the PCI function's is missing.
	if got, want := gpuAt(t, inv, "0000:63:00.0").UUID(), "19ff740f-0000-1000-8001-ead3a2ecd4a6"; got != want {
		t.Errorf("want UUID %s, found %s", want, got)
	}
	want2 := []Link{
		{To: 0, Type: LinkPCIe, Weight: 20, MinMBps: 312, MaxMBps: 32000},
		{To: 3, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 4, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 5, Type: LinkXGMI, Weight: 15, MinMBps: 50000, MaxMBps: 50000},
		{To: 1, Type: LinkPCIe, Weight: 52, Peer: true},
		{To: 6, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 7, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 8, Type: LinkPCIe, Weight: 72, Peer: true},
		{To: 9, Type: LinkPCIe, Weight: 72, Peer: true},
	}
	if diff := cmp.Diff(want2, gpuAt(t, inv, "0000:63:00.0").Nodes[0].Links); diff != "" {
		t.Errorf("links of node 2 (-want +got):\n%s", diff)
	}
}

func TestDiscoverCapturedMI300XInCPX(t *testing.T) {
	inv, err := DiscoverWith(fixturetest.Captured(t, "mi300-cpx"), DiscoverOptions{AllLinks: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	nodes := 0
	for _, g := range inv.GPUs {
		first, last := g.Nodes[0], g.Nodes[len(g.Nodes)-1]
		got = append(got, fmt.Sprintf("%s %s %s, partitions %d-%d on renderD%d-%d, one id %t",
			g.BDF, g.Name, g.GFX, first.Partition, last.Partition, first.RenderMinor, last.RenderMinor, first.UniqueID == last.UniqueID))
		for _, n := range g.Nodes {
			nodes++
			if n.Geometry.CUs != 38 || n.Geometry.XCCs != 1 || len(n.Links) != 63 || g.HiveID != 15188982192727901047 {
				t.Errorf("node %d: %+v with %d links in hive %d", n.ID, n.Geometry, len(n.Links), g.HiveID)
			}
		}
	}
	// The last partition has no render minor on that host, and no node.
	want := []string{
		"0000:05:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD128-135, one id true",
		"0000:27:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD136-143, one id true",
		"0000:47:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD144-151, one id true",
		"0000:65:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD152-159, one id true",
		"0000:85:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD160-167, one id true",
		"0000:a7:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD168-175, one id true",
		"0000:c7:00.0 AMD Instinct MI300X gfx942, partitions 0-7 on renderD176-183, one id true",
		"0000:e5:00.0 AMD Instinct MI300X gfx942, partitions 0-6 on renderD184-190, one id true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if nodes != 63 {
		t.Errorf("want 63 nodes, found %d", nodes)
	}
	// 16404946649897475633 does not fit a signed number.
	if got, want := gpuAt(t, inv, "0000:05:00.0").UUID(), "e3ff74a1-0000-1000-80aa-140f9a5f9e31"; got != want {
		t.Errorf("want UUID %s, found %s", want, got)
	}
}
