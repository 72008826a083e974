package amd

import (
	"math"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// Usage is one device of a node and what is in use of it, as Fit and Score look
// at it. Names and units follow the register annotation (annotations.Device).
type Usage struct {
	ID    string
	Type  string // product type, such as "AMD Instinct MI300X"
	Mode  string // compute partition type of a hard device ("spx", "qpx"), "" of a soft one
	Index uint
	NUMA  int // -1 unknown
	// Health is the node's word; an unhealthy device gets no new grants.
	Health bool
	// Cordoned devices get no new grants (node annotation
	// hami.io/device-cordon, see annotations.ParseCordon).
	Cordoned bool

	Count     int32 // how many containers may share the device
	Used      int32 // how many do
	MemoryMiB int32 // VRAM (Devmem); 0 is unknown, and then nothing is granted
	UsedMiB   int32
	CUs       int32 // Devcore; 0 is unknown, and then nothing is granted
	UsedCUs   int32
	// XCCs and CUsPerWGP say how CUs may be counted out (custominfo numXCC and
	// cuPerWGP); 0 means 1.
	XCCs, CUsPerWGP int32

	// PCIBDF is the PCI address of the physical GPU, which partitions of one GPU
	// share, and XGMIPeers are the addresses of the GPUs it has an XGMI link to
	// (custominfo pciBDF and xgmiPeers). Fit reads them only where
	// Policy.Connected says so. XGMIPeers is shared and never written to.
	PCIBDF    string
	XGMIPeers []string
}

// UsageOf is an unused device.
func UsageOf(dev *annotations.Device) Usage {
	return Usage{
		ID: dev.ID, Type: dev.Type, Mode: dev.Mode, Index: dev.Index, NUMA: dev.Numa, Health: dev.Health,
		Count: dev.Count, MemoryMiB: dev.Devmem, CUs: dev.Devcore,
		XCCs: int32(dev.CustomInfo.NumXCC), CUsPerWGP: int32(dev.CustomInfo.CUsPerWGP),
		PCIBDF: dev.CustomInfo.PCIBDF, XGMIPeers: dev.CustomInfo.XGMIPeers,
	}
}

// Geometry is the shape of the device as far as the node has registered it.
func (u *Usage) Geometry() cumask.Geometry {
	return cumask.Geometry{CUs: int(u.CUs), XCCs: int(u.XCCs), CUsPerWGP: int(u.CUsPerWGP)}
}

// Add counts a grant as one more share of the device.
func (u *Usage) Add(g annotations.Grant) {
	u.Used = saturate(u.Used, 1)
	u.UsedMiB = saturate(u.UsedMiB, g.MemoryMiB)
	u.UsedCUs = saturate(u.UsedCUs, g.CUs)
}

// saturate adds without wrapping: the numbers come from annotations.
func saturate(a, b int32) int32 {
	return int32(min(int64(a)+int64(b), math.MaxInt32))
}

// Hard reports whether the device is a compute partition, or a whole GPU
// registered as one: granted whole, to one container.
func (u *Usage) Hard() bool { return hard(u.Mode) }

func hard(mode string) bool {
	switch mode {
	case "spx", "dpx", "tpx", "qpx", "cpx":
		return true
	}
	return false
}
