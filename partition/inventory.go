package partition

import "github.com/Project-HAMi/hami-amd/cumask"

// Inventory is what one walk over a node's sysfs found. It holds no open
// files; a mode switch or a driver reload makes it stale.
type Inventory struct {
	// GPUs are the GPUs that can be used, in ascending order of BDF. Each has
	// at least one KFD node.
	GPUs []GPU
	// Skipped are the devices that were seen but cannot be used.
	Skipped []Skipped
	// Notes are things worth telling an operator that stopped nothing, one
	// line each.
	Notes []string
}

// Skipped names a device that discovery left out, and why.
type Skipped struct {
	// Device is a PCI address, or a KFD node such as "node 7".
	Device string
	// Reason is never nil. That of a node starts with the PCI address of its
	// GPU where that is known.
	Reason error
}

// GPU is one PCI function bound to amdgpu, whole: all of its compute
// partitions together. Pointers are nil where the kernel does not say.
type GPU struct {
	BDF      BDF
	DeviceID uint16 // PCI device id, 0x74a1 for MI300X
	Revision *uint8 // PCI revision; with DeviceID it names a product
	Name     string // market name such as "AMD Instinct MI300X", never empty
	GFX      string // "gfx942"; "" where KFD does not name one
	Card     *int   // N of /dev/dri/cardN
	NUMANode *int   // nil for -1 and for a missing file
	HiveID   uint64 // XGMI hive; 0 is none
	APU      bool   // part of a CPU: its memory is the host's
	VF       bool   // SR-IOV virtual function

	// UniqueID is the serial number: unique_id of the PCI function, and in a
	// tree without that file KFD's if all nodes agree; 0 where the part has
	// none.
	UniqueID uint64

	// VRAMBytes is the sum over the KFD nodes' banks of heap type 1 and 2;
	// without banks it is mem_info_vram_total of the PCI function (of an APU,
	// mem_info_gtt_total). It is nil when none of these can be read, and when
	// there are banks and one of them makes no sense.
	//
	// An APU's banks are what HIP can allocate, which on current kernels is
	// the GTT limit and not the BIOS carve-out; Inventory.Notes has both.
	VRAMBytes *uint64

	// Compute is the current compute partition mode; "" where the GPU has no
	// such file or it holds a word that is no mode (see RawCompute).
	Compute ComputeMode
	// RawCompute is the unrecognised content of current_compute_partition.
	RawCompute string
	// ComputeModes are the modes the GPU offers to switch to
	// (available_compute_partition); empty when it cannot switch.
	ComputeModes []ComputeMode
	Memory       MemoryMode // current_memory_partition, "" unknown
	MemoryModes  []MemoryMode
	// Profiles are the partition profiles the product supports, from sysfs
	// where the kernel lists them, else from the product table.
	Profiles []Profile

	// Nodes are the GPU's KFD nodes, ascending by partition index. One node is
	// an unpartitioned GPU.
	Nodes []Node
}

// Node is one KFD topology node: a whole GPU, or one compute partition of it.
type Node struct {
	ID   int // KFD node number; renumbered by every mode switch
	Rank int // position among the inventory's nodes in KFD order, from 0: ROCr's order
	// Partition is the index among the GPU's partitions: the partition bits of
	// location_id where they tell the GPU's nodes apart, else the rank by render
	// minor.
	Partition   int
	UniqueID    uint64 // KFD unique_id, what ROCr calls GPU-<hex16>; 0 unknown
	RenderMinor int    // M of /dev/dri/renderDM
	Card        *int   // N of the /dev/dri/cardN that belongs to RenderMinor

	Geometry cumask.Geometry // CUs, XCCs, CUs per WGP, shader layout
	// VRAMBytes is the sum of the node's banks of heap type 1 and 2, nil
	// without one.
	VRAMBytes     *uint64
	ComputeQueues int // num_cp_queues; 0 unknown
	// Links are read for the first node of each GPU, or for all on request
	// (DiscoverOptions.AllLinks): direct ones before peer ones, ascending by
	// node number.
	Links []Link
}

// ROCrID is the name ROCr gives to the node's agent: "GPU-" and 16 hex
// digits, or "" when the part has no unique id and can only be addressed by
// index.
func (n Node) ROCrID() string { return rocrID(n.UniqueID) }

// LinkType is KFD's io link type.
type LinkType int

// The link types that matter for placement, from the kernel's
// amdkfd/kfd_crat.h (CRAT_IOLINK_TYPE_PCIEXPRESS and CRAT_IOLINK_TYPE_XGMI).
const (
	LinkPCIe LinkType = 2
	LinkXGMI LinkType = 11
)

// Link is one direct or peer link between two KFD nodes.
type Link struct {
	To     int // KFD node number
	Type   LinkType
	Weight int  // hop cost, lower is closer
	Peer   bool // from p2p_links: reached over other nodes
	// MinMBps and MaxMBps are the link's bandwidth; 0 is unknown.
	MinMBps, MaxMBps int
}

// ComputeMode is a compute partition mode in lower case: spx, dpx, tpx, qpx or
// cpx. "" means none or unknown.
type ComputeMode string

// The compute partition modes.
const (
	SPX ComputeMode = "spx"
	DPX ComputeMode = "dpx"
	TPX ComputeMode = "tpx"
	QPX ComputeMode = "qpx"
	CPX ComputeMode = "cpx"
)

// MemoryMode is a memory partition mode in lower case: nps1, nps2, nps3, nps4,
// nps6 or nps8.
type MemoryMode string

// Profile is one way a product can be partitioned.
type Profile struct {
	Index       int
	Compute     ComputeMode
	Memory      []MemoryMode
	Partitions  int
	XCCsPerPart int
	Current     bool
}
