package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/partition"
)

// excludeByID finds what ExcludeIDs and ExcludeIndexes of a configuration keep
// out in an operating mode. gpus are entries for RegisterOptions.Exclude, which
// can name no partition; those are returned by their register ID.
func (c Config) excludeByID(mode partition.OperatingMode, inv *partition.Inventory) (gpus []string, partitions map[string]bool, notes []string, err error) {
	if len(c.ExcludeIDs) == 0 && len(c.ExcludeIndexes) == 0 {
		return nil, nil, nil, nil
	}
	// In cu mode every GPU is one device, whatever its partitions: its ID and
	// index are those of the GPU.
	whole, err := inv.Registered(partition.RegisterOptions{Mode: partition.ModeCU, NodeName: c.NodeName})
	if err != nil {
		return nil, nil, nil, err
	}
	parts, err := inv.Registered(partition.RegisterOptions{Mode: mode, NodeName: c.NodeName})
	if err != nil {
		return nil, nil, nil, err
	}
	partitions = make(map[string]bool)
	for _, id := range c.ExcludeIDs {
		named := func(r partition.Registered) bool { return strings.EqualFold(r.ID, id) }
		if i := slices.IndexFunc(whole, named); i >= 0 {
			gpus = append(gpus, string(whole[i].GPU.BDF))
		} else if i := slices.IndexFunc(parts, named); i >= 0 {
			partitions[parts[i].ID] = true
		} else {
			notes = append(notes, fmt.Sprintf("filter device %s: no such device on this node", excerpt(id)))
		}
	}
	for _, index := range c.ExcludeIndexes {
		if i := slices.IndexFunc(whole, func(r partition.Registered) bool { return r.Index == index }); i >= 0 {
			gpus = append(gpus, string(whole[i].GPU.BDF))
		} else {
			notes = append(notes, fmt.Sprintf("filter device index %d: no such GPU on this node", index))
		}
	}
	return gpus, partitions, notes, nil
}
