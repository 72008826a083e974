package partition_test

import (
	"fmt"
	"log"

	"github.com/Project-HAMi/hami-amd/partition"
)

func ExampleInventory_Register() {
	sysfs, done := unpack("mi355x-qpx-8")
	defer done()

	inv, err := partition.Discover(sysfs)
	if err != nil {
		log.Fatal(err)
	}
	reg, err := inv.Register(partition.RegisterOptions{Mode: partition.ModePartition, Naming: partition.NamingMixed})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range reg.Devices[:4] {
		fmt.Printf("%s %s: %d MiB, %d CUs, kubelet knows it as %s of %s\n", d.Mode, d.ID, d.Devmem, d.Devcore, d.KubeletIDs[0], d.Resource)
	}
	fmt.Println(len(reg.Devices), "devices,", len(reg.Entries()), "of them for HAMi")
	// Output:
	// qpx c6ff75a3-0000-1000-802a-c130ee448403-p0: 73728 MiB, 64 CUs, kubelet knows it as 0000:05:00.0-p0 of amd.com/qpx_nps1
	// qpx c6ff75a3-0000-1000-802a-c130ee448403-p1: 73728 MiB, 64 CUs, kubelet knows it as 0000:05:00.0-p1 of amd.com/qpx_nps1
	// qpx c6ff75a3-0000-1000-802a-c130ee448403-p2: 73728 MiB, 64 CUs, kubelet knows it as 0000:05:00.0-p2 of amd.com/qpx_nps1
	// qpx c6ff75a3-0000-1000-802a-c130ee448403-p3: 73728 MiB, 64 CUs, kubelet knows it as 0000:05:00.0-p3 of amd.com/qpx_nps1
	// 32 devices, 0 of them for HAMi
}

// In cu mode a partitioned GPU is registered, unhealthy, with what to do.
func ExampleInventory_Register_partitionedInCUMode() {
	sysfs, done := unpack("mi355x-qpx-8")
	defer done()

	inv, err := partition.Discover(sysfs)
	if err != nil {
		log.Fatal(err)
	}
	devices, err := inv.Registered(partition.RegisterOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(devices), "devices, the first one healthy:", devices[0].Health)
	fmt.Println(devices[0].Unhealthy)
	// Output:
	// 8 devices, the first one healthy: false
	// in compute partition mode qpx one render node reaches only part of the GPU: run amd-smi set -g 0000:05:00.0 --compute-partition SPX on the drained node, or use operating mode "partition"
}

// The annotation of the node outranks the variable of the deployment, unless
// it makes no sense.
func ExampleResolveOperatingMode() {
	for _, annotation := range []string{"", "cu", "slices"} {
		mode, source, notes, err := partition.ResolveOperatingMode("partition", annotation)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("operating mode: %s (%s) %s\n", mode, source, notes)
	}
	_, _, _, err := partition.ResolveOperatingMode("slices", "cu")
	fmt.Println(err)
	// Output:
	// operating mode: partition (variable) []
	// operating mode: cu (node annotation) []
	// operating mode: partition (variable) [node annotation hami.io/amd-operating-mode: operating mode "slices": want "cu" or "partition"; using "partition" from the variable]
	// variable OPERATING_MODE: operating mode "slices": want "cu" or "partition"
}

// One pulse: look, check health, register, and say what changed.
func ExampleScanner() {
	sysfs, done := unpack("rx9060xt")
	defer done()

	scanner := partition.NewScanner(sysfs)
	var offered []partition.Registered
	for _, sick := range []map[partition.BDF]string{nil, nil, {"0000:03:00.0": "ECC errors"}} {
		scan, err := scanner.Scan()
		if err != nil {
			log.Fatal(err)
		}
		devices, err := scan.Inventory.Registered(partition.RegisterOptions{Unhealthy: sick})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("discovered anew:", scan.Changed)
		for _, change := range partition.Diff(offered, devices) {
			fmt.Println(" ", change)
		}
		offered = devices
	}
	// Output:
	// discovered anew: true
	//   device 8fff7590-0000-1000-804e-19c27ab3d650 (GPU 0000:03:00.0): appeared
	// discovered anew: false
	// discovered anew: false
	//   device 8fff7590-0000-1000-804e-19c27ab3d650 (GPU 0000:03:00.0): unhealthy: ECC errors
}
