package annotations

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// mi300x is one of eight MI300X in SPX mode with everything a plugin knows about it.
func mi300x(i int) Device {
	d := Device{
		ID:      fmt.Sprintf("%02xff74b5-0000-1000-801b-b56457addd1b", i),
		Index:   uint(i),
		Count:   10,
		Devmem:  196288,
		Devcore: 304,
		Type:    "AMD Instinct MI300X",
		Numa:    i / 4,
		Health:  true,
		CustomInfo: CustomInfo{
			PCIBDF:           bdf(i),
			NumXCC:           8,
			ComputeQueues:    24,
			PartitionProfile: "spx_nps1",
			PartitionProfiles: []PartitionProfile{
				{ProfileIndex: 0, Type: "SPX", MemoryCaps: "NPS1", NumPartitions: 1, XCCPerPartition: 8},
				{ProfileIndex: 1, Type: "DPX", MemoryCaps: "NPS1,NPS2", NumPartitions: 2, XCCPerPartition: 4},
				{ProfileIndex: 2, Type: "QPX", MemoryCaps: "NPS1,NPS4", NumPartitions: 4, XCCPerPartition: 2},
				{ProfileIndex: 3, Type: "CPX", MemoryCaps: "NPS1,NPS4", NumPartitions: 8, XCCPerPartition: 1},
			},
		},
	}
	for peer := range 8 {
		if peer != i {
			d.CustomInfo.XGMIPeers = append(d.CustomInfo.XGMIPeers, bdf(peer))
		}
	}
	return d
}

func bdf(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x05+0x10*i) }

// cpx64 is what eight MI300X in CPX mode register: 64 partitions of 38 CUs.
func cpx64() []Device {
	var devices []Device
	for gpu := range 8 {
		for partition := range 8 {
			d := mi300x(gpu)
			d.ID = fmt.Sprintf("%s-p%d", d.ID, partition)
			d.Index = uint(gpu*8 + partition)
			d.Count, d.Devmem, d.Devcore, d.Mode = 1, 24536, 38, "cpx"
			d.CustomInfo.NumXCC = 1
			d.CustomInfo.PartitionProfile = "cpx_nps4"
			devices = append(devices, d)
		}
	}
	return devices
}

// twoByFour is a pod with two containers of four devices each.
func twoByFour() PodGrants {
	pod := make(PodGrants, 2)
	for c := range pod {
		for d := range 4 {
			pod[c] = append(pod[c], Grant{UUID: mi300x(4*c + d).ID, Type: "AMD Instinct MI300X", MemoryMiB: 16384, CUs: 76})
		}
	}
	return pod
}

// cuMap is the CUAllocatedKey of a pod with a quarter of one GPU.
func cuMap(pod int) map[string]cumask.Set {
	return map[string]cumask.Set{mi300x(pod / 4 % 8).ID: cumask.Range(pod%4*76, pod%4*76+75)}
}
