package partition

import (
	"fmt"
	"strconv"
	"strings"
)

// wholeID is the device ID of a whole GPU.
type wholeID struct {
	id   string
	note string
}

// wholeIDs gives each GPU its ID: the AMD SMI UUID, the same in both operating
// modes and after every mode switch and reboot.
//
// The UUID is made of the serial number and the PCI device id, so parts
// without a serial (APUs) all have one and the same; node name and PCI address
// are appended there. So they are where two GPUs claim one serial: a broken
// part must not make the node's whole annotation unreadable.
func wholeIDs(gpus []GPU, nodeName string) map[BDF]wholeID {
	uuids := make([]string, len(gpus))
	count := make(map[string]int, len(gpus))
	for i := range gpus {
		uuids[i] = gpus[i].UUID()
		count[uuids[i]]++
	}
	suffix := func(bdf BDF) string {
		s := "-" + strings.NewReplacer(":", "-", ".", "-").Replace(string(bdf))
		if nodeName == "" {
			return s
		}
		return "-" + nodeName + s
	}
	out := make(map[BDF]wholeID, len(gpus))
	for i := range gpus {
		g, w := &gpus[i], wholeID{id: uuids[i]}
		switch {
		case g.UniqueID == 0:
			w.id += suffix(g.BDF)
			if nodeName == "" {
				w.note = "the GPU has no serial number: without a node name its ID is unique on this node only"
			}
		case count[w.id] > 1:
			w.note = fmt.Sprintf("another GPU has the same serial number %016x: node name and PCI address are part of its ID", g.UniqueID)
			w.id += suffix(g.BDF)
		}
		out[g.BDF] = w
	}
	return out
}

// partitionID is the ID of compute partition k of the GPU with the given ID.
func partitionID(parent string, k int) string { return parent + "-p" + strconv.Itoa(k) }

// parentID is the ID of the GPU that a device ID belongs to: the ID itself for
// a whole GPU. A whole GPU's ID ends in 12 hex digits or in a PCI function, so
// that "-p<k>" is never part of one.
func parentID(id string) string {
	i := strings.LastIndex(id, "-p")
	if i < 0 || i+2 == len(id) {
		return id
	}
	for _, c := range []byte(id[i+2:]) {
		if c < '0' || c > '9' {
			return id
		}
	}
	return id[:i]
}

// kubeletIDs are the IDs under which kubelet knows a device: one per share of
// a soft device, one for a hard one. They are far below the 63 characters that
// kubelet allows.
func kubeletIDs(bdf BDF, partition int, hard bool, count int) []string {
	switch {
	case hard && partition >= 0:
		return []string{string(bdf) + "-p" + strconv.Itoa(partition)}
	case hard:
		return []string{string(bdf)}
	}
	out := make([]string, count)
	for slot := range out {
		out[slot] = string(bdf) + "#" + strconv.Itoa(slot)
	}
	return out
}
