package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// Where KFD's topology is: class/kfd/kfd is a link to the other on a live
// system, and a folder in captures.
var topologyPaths = [...]string{"class/kfd/kfd/topology", "devices/virtual/kfd/kfd/topology"}

const (
	vendorAMD = 0x1002
	maxNodes  = 1024 // KFD nodes of a machine
	maxBanks  = 64   // memory banks of a node
	// maxVRAM is what no GPU has: sums of banks cannot overflow below it.
	maxVRAM = 1 << 50
	// The first render minor, and a bound far above what the kernel hands out
	// (DRM minors are 20 bits wide).
	minRenderMinor = 128
	maxRenderMinor = 1<<20 - 1
)

// kfdNode is a GPU node of KFD as it was read, before it belongs to a GPU.
type kfdNode struct {
	Node
	device   uint16
	gfx      uint64 // gfx_target_version
	hive     uint64
	apu      bool
	addr     address // domain, bus, device and function bits of location_id
	high     uint8   // bits 31:28 of location_id: the partition, if not 0
	placed   bool    // addr is known
	noMinor  bool    // an old kernel that does not name a render minor
	badBanks error   // why memory banks that are there give no size
}

// topology is what one walk over KFD's nodes found.
type topology struct {
	nodes []kfdNode // GPU nodes in KFD order
	all   map[int]bool
	sick  []sickNode
	path  string // of the folder nodes; "" without KFD
}

// sickNode is a node that cannot be used. Its address is unknown, and placed
// false, if not even its properties could be read.
type sickNode struct {
	id     int
	addr   address
	device uint16
	placed bool
	reason error
}

// readTopology reads every node once. A node that cannot be used becomes a
// skipped one; only a topology that is there and cannot be listed is an error.
func readTopology(t *tree, path string) (topology, error) {
	topo := topology{all: map[int]bool{}}
	if path == "" {
		return topo, nil
	}
	names, err := t.names(path + "/nodes")
	if isAbsent(err) {
		return topo, nil
	}
	if err != nil {
		return topo, fmt.Errorf("list kfd nodes: %w", err)
	}
	ids := numbered(names)
	if len(ids) > maxNodes {
		return topo, fmt.Errorf("list kfd nodes: %d nodes, want at most %d", len(ids), maxNodes)
	}
	topo.path = path + "/nodes"
	nodes, err := t.folder(topo.path)
	if err != nil {
		return topo, fmt.Errorf("open kfd nodes: %w", err)
	}
	defer nodes.close()
	for _, id := range ids {
		topo.all[id] = true
		n, isGPU, err := readNode(nodes, id)
		switch {
		case err != nil:
			topo.sick = append(topo.sick, sickNode{id, n.addr, n.device, n.placed, err})
		case isGPU:
			topo.nodes = append(topo.nodes, n)
		}
	}
	return topo, nil
}

func nodeName(id int) string { return "node " + strconv.Itoa(id) }

// readNode reads one node; isGPU is false for a CPU.
func readNode(nodes *folder, id int) (n kfdNode, isGPU bool, err error) {
	dir, err := nodes.sub(strconv.Itoa(id))
	if err != nil {
		return n, false, visible(err)
	}
	defer dir.close()
	raw, err := dir.read("properties", maxProps)
	if err != nil {
		return n, false, visible(err)
	}
	var p kfdProps
	if err := parseProps(raw, p.field); err != nil {
		return n, false, fmt.Errorf("properties: %w", err)
	}
	n.addr, n.high, err = p.address()
	n.placed, n.device = err == nil, uint16(p.device.n)
	if isGPU, gpuErr := p.gpu(dir); !isGPU {
		return n, false, gpuErr
	}
	if err == nil {
		err = p.node(id, &n)
	}
	if err == nil {
		n.VRAMBytes, n.badBanks = readBanks(dir)
	}
	return n, err == nil, err
}

// visible gives a device cgroup's refusal its name: in a container KFD lists
// all nodes of the host and fails reads of the ones it was not given.
func visible(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrNotVisible, err)
	}
	return err
}

// gpu tells a GPU node from a CPU node. gpu_id is a file beside properties, 0
// on CPU nodes and missing in captures; it is read only where the properties
// do not settle it.
func (p *kfdProps) gpu(dir *folder) (bool, error) {
	if p.simdCount.n > 0 && p.simdPerCU.n > 0 {
		if p.vendor.n != vendorAMD {
			return false, fmt.Errorf("vendor_id 0x%04x: want AMD's 0x%04x", p.vendor.n, vendorAMD)
		}
		return true, nil
	}
	id, err := dir.text("gpu_id")
	switch {
	case isAbsent(err) && p.vendor.n != vendorAMD, err == nil && id == "0":
		return false, nil
	case err != nil && !isAbsent(err):
		return false, visible(err)
	case p.simdPerCU.n == 0 && p.simdCount.n > 0:
		return false, fmt.Errorf("simd_count %d with simd_per_cu 0", p.simdCount.n)
	}
	// The kernel prints 0 SIMDs when the GPU behind the node has gone.
	return false, fmt.Errorf("simd_count 0: %w", ErrGone)
}

// address is the PCI address in domain and location_id, whose function bits
// may hold a partition, and the partition in the bits above it.
func (p *kfdProps) address() (a address, high uint8, err error) {
	loc, domain := p.location, p.domain.n
	if !loc.ok || loc.n > math.MaxUint32 || loc.n>>16&0xfff != 0 || domain > math.MaxUint32 {
		return a, 0, fmt.Errorf("location_id %d in domain %d: want a pci address", loc.n, domain)
	}
	a = address{domain: uint32(domain), bus: uint8(loc.n >> 8), device: uint8(loc.n >> 3 & 0x1f), function: uint8(loc.n & 7)}
	return a, uint8(loc.n >> 28), nil
}

// node checks the properties of a GPU node and takes what a Node holds.
func (p *kfdProps) node(id int, n *kfdNode) error {
	n.ID, n.UniqueID = id, p.uniqueID.n
	n.gfx, n.hive, n.apu = p.gfxTarget.n, p.hiveID.n, p.cpuCores.n > 0
	if p.gfxTarget.ok && n.gfx == 0 {
		return errors.New("gfx_target_version 0: want that of a gpu")
	}
	if p.device.n > math.MaxUint16 {
		return fmt.Errorf("device_id %d: want 16 bits", p.device.n)
	}
	switch m := p.renderMinor; {
	case !m.ok:
		n.noMinor = true
	case m.n < minRenderMinor || m.n > maxRenderMinor:
		return fmt.Errorf("drm_render_minor %d: %w", m.n, ErrNoRenderNode)
	default:
		n.RenderMinor = int(m.n)
	}
	n.ComputeQueues = int(min(p.cpQueues.n, math.MaxInt32))
	var err error
	n.Geometry, err = p.geometry()
	return err
}

// geometry is the shape of the node's CUs. The number of CUs comes from the
// SIMDs, which count active units alone; the shader arrays are the design's,
// harvested units included. Arrays that contradict the CUs are left unknown:
// they only shape masks, and no GPU is lost over them.
func (p *kfdProps) geometry() (cumask.Geometry, error) {
	simds, perCU, xccs := p.simdCount.n, p.simdPerCU.n, p.xccCount.or(1)
	if simds%perCU != 0 || simds/perCU > cumask.MaxCUs || xccs == 0 || xccs > cumask.MaxCUs {
		return cumask.Geometry{}, fmt.Errorf("simd_count %d, simd_per_cu %d, num_xcc %d: %w", simds, perCU, xccs, cumask.ErrGeometry)
	}
	g := cumask.Geometry{CUs: int(simds / perCU), XCCs: int(xccs), CUsPerWGP: 1}
	// gfx10 and later pair their CUs. Kernels too old to print the target
	// version still tell by the SIMDs of a CU: 4 up to gfx9, then 2.
	if p.gfxTarget.n >= 100000 || !p.gfxTarget.ok && perCU == 2 {
		g.CUsPerWGP = 2
	}
	if err := g.Validate(); err != nil {
		return cumask.Geometry{}, err
	}
	full := g
	arrays, perEngine, cus := p.arrayCount.n, p.arraysPerEngine.n, p.cuPerArray.n
	if arrays == 0 || perEngine == 0 || cus == 0 || cus > cumask.MaxCUs || arrays > cumask.MaxCUs || arrays%(xccs*perEngine) != 0 {
		return g, nil
	}
	full.SEsPerXCC, full.SAsPerSE, full.CUsPerSA = int(arrays/xccs/perEngine), int(perEngine), int(cus)
	if full.Validate() != nil {
		return g, nil
	}
	return full, nil
}

// Heap types of KFD memory banks that are video memory: all of it visible to
// the CPU, or the part that is not.
const (
	heapPublic  = 1
	heapPrivate = 2
)

// readBanks sums the video memory of a node. Without banks there is nothing to
// say, nil; banks that hold none, or cannot be read, are an error, so that the
// size is not taken from somewhere else.
func readBanks(dir *folder) (*uint64, error) {
	banks, err := dir.sub("mem_banks")
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer banks.close()
	names, err := banks.names()
	if err != nil {
		return nil, err
	}
	ids := numbered(names)
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) > maxBanks {
		return nil, fmt.Errorf("%d memory banks, want at most %d", len(ids), maxBanks)
	}
	var sum uint64
	for _, id := range ids {
		raw, err := banks.readIn(strconv.Itoa(id), "properties", maxAttribute)
		if err != nil {
			return nil, err
		}
		var p bankProps
		if err := parseProps(raw, p.field); err != nil {
			return nil, fmt.Errorf("memory bank %d: %w", id, err)
		}
		if p.heapType.n != heapPublic && p.heapType.n != heapPrivate {
			continue
		}
		if !p.size.ok || p.size.n > maxVRAM {
			return nil, fmt.Errorf("memory bank %d: size_in_bytes %d: want the size of video memory", id, p.size.n)
		}
		sum += p.size.n
	}
	if sum == 0 {
		return nil, errors.New("no memory bank holds video memory")
	}
	return &sum, nil
}

// gfxName is the name of a gfx_target_version, major*10000 + minor*100 +
// stepping: major in decimal, the others one hex digit each. 90010 is gfx90a.
func gfxName(v uint64) string {
	major, minor, stepping := v/10000, v/100%100, v%100
	if major == 0 || major > 99 || minor > 15 || stepping > 15 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", major, minor, stepping)
}
