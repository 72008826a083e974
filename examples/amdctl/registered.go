package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// fromAnnotation rebuilds a node's devices from its register annotation, as
// far as it goes: a GPU's serial number, which ROCr makes its name of, is part
// of its AMD SMI UUID. DRM device nodes and the KFD order are not there.
func fromAnnotation(devices []annotations.Device) (registered []partition.Registered, notes []string) {
	var nameless []string
	for i, d := range devices {
		usage := amd.UsageOf(&d) // other plugins write other words as the mode of a soft device
		r := partition.Registered{
			Device:    d,
			GPU:       &partition.GPU{BDF: partition.BDF(d.CustomInfo.PCIBDF)},
			Partition: -1,
			Hard:      usage.Hard(),
			Resource:  partition.ResourceGPU,
		}
		node := partition.Node{Rank: i, Geometry: d.Geometry()}
		id := d.ID
		if at := strings.LastIndex(id, "-p"); at >= 0 && r.Hard {
			if k, err := strconv.Atoi(id[at+2:]); err == nil {
				r.Partition, node.Partition, id = k, k, id[:at]
			}
		}
		serial, _, err := partition.ParseUUID(id)
		switch {
		case err == nil && serial != 0 && (!r.Hard || d.Mode == string(partition.SPX)):
			node.UniqueID = serial
		default:
			// Partitions may share one name or have one each, by kernel.
			nameless = append(nameless, d.ID)
		}
		r.Nodes = []partition.Node{node}
		registered = append(registered, r)
	}
	switch n := len(nameless); n {
	case 0:
	case 1:
		notes = append(notes, fmt.Sprintf("device %q: its ROCr name is not in the register annotation, an index stands in for it", nameless[0]))
	default:
		notes = append(notes, fmt.Sprintf("device %q and %d more: their ROCr names are not in the register annotation, indices stand in for them", nameless[0], n-1))
	}
	return registered, notes
}
