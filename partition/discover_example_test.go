package partition_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// unpack puts a machine of testdata where a real node has /sys.
func unpack(machine string) (sysfs string, done func()) {
	dir, err := fixture.MkdirTemp()
	if err != nil {
		log.Fatal(err)
	}
	archive, err := testdata.Machine(machine)
	if err == nil {
		err = fixture.Unpack(archive, dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	return filepath.Join(dir, "sys"), func() { os.RemoveAll(dir) }
}

func ExampleDiscover() {
	sysfs, done := unpack("mi355x-qpx-8")
	defer done()

	inv, err := partition.Discover(sysfs)
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range inv.GPUs[:2] {
		fmt.Printf("%s %s %s %s/%s, %d MiB, %s\n", g.BDF, g.Name, g.GFX, g.Compute, g.Memory, *g.VRAMBytes>>20, g.UUID())
		for _, n := range g.Nodes {
			fmt.Printf("  partition %d: renderD%d, %d CUs on %d XCCs, %d MiB, %s\n",
				n.Partition, n.RenderMinor, n.Geometry.CUs, n.Geometry.XCCs, *n.VRAMBytes>>20, n.ROCrID())
		}
	}
	// Output:
	// 0000:05:00.0 AMD Instinct MI355X gfx950 qpx/nps1, 294912 MiB, c6ff75a3-0000-1000-802a-c130ee448403
	//   partition 0: renderD136, 64 CUs on 2 XCCs, 73728 MiB, GPU-ddfc3ae3616e483f
	//   partition 1: renderD137, 64 CUs on 2 XCCs, 73728 MiB, GPU-7c33b49ce0b8c454
	//   partition 2: renderD138, 64 CUs on 2 XCCs, 73728 MiB, GPU-1a6b2e5660034069
	//   partition 3: renderD139, 64 CUs on 2 XCCs, 73728 MiB, GPU-b8a2a80fdf4dbc7e
	// 0000:15:00.0 AMD Instinct MI355X gfx950 qpx/nps1, 294912 MiB, f3ff75a3-0000-1000-802c-b37ceef6feb5
	//   partition 0: renderD152, 64 CUs on 2 XCCs, 73728 MiB, GPU-5409768da8f490d9
	//   partition 1: renderD153, 64 CUs on 2 XCCs, 73728 MiB, GPU-f240f047283f0cee
	//   partition 2: renderD154, 64 CUs on 2 XCCs, 73728 MiB, GPU-90786a00a7898903
	//   partition 3: renderD155, 64 CUs on 2 XCCs, 73728 MiB, GPU-2eafe3ba26d40518
}

// A machine whose GPU has no serial number: the UUID alone is not enough of an
// identity there, and ROCr can address the GPU by index only.
func ExampleDiscover_apu() {
	sysfs, done := unpack("apu-8060s")
	defer done()

	inv, err := partition.Discover(sysfs)
	if err != nil {
		log.Fatal(err)
	}
	g := inv.GPUs[0]
	fmt.Println(g.Name, g.UUID(), g.APU)
	fmt.Printf("%d CUs in WGPs of %d, ROCr id %q\n", g.Nodes[0].Geometry.CUs, g.Nodes[0].Geometry.CUsPerWGP, g.Nodes[0].ROCrID())
	fmt.Println(inv.Notes[0])
	// Output:
	// AMD Radeon 8060S 00ff1586-0000-1000-8000-000000000000 true
	// 40 CUs in WGPs of 2, ROCr id ""
	// 0000:c2:00.0: APU: its 112640 MiB are shared with the host; carve-out: 512 MiB
}
