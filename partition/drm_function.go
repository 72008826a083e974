package partition

import "fmt"

// function is what sysfs says about the PCI function of a GPU.
type function struct {
	revision  *uint8
	numa      *int
	serial    uint64
	hasSerial bool
	vram, gtt *uint64
	product   string
	vf        bool

	compute, available string // current and available_compute_partition
	memory, npsModes   string // current and available_memory_partition
	profiles           profileSource
}

// readFunction reads the attributes of a GPU's function. It is an error when
// the function is not the part that KFD speaks of, and when its serial number
// is there and cannot be read.
func readFunction(p *pciTree, f *folder, bdf BDF, device uint16) (function, error) {
	var fn function
	if v, ok := f.number("vendor", 16, 16); ok && v != vendorAMD {
		return fn, fmt.Errorf("%w: vendor 0x%04x: want AMD's 0x%04x", ErrConflict, v, vendorAMD)
	}
	if d, ok := f.number("device", 16, 16); ok && uint16(d) != device {
		return fn, fmt.Errorf("%w: device 0x%04x: kfd speaks of 0x%04x", ErrConflict, d, device)
	}
	if v, ok := f.number("revision", 16, 8); ok {
		r := uint8(v)
		fn.revision = &r
	}
	// -1 means that the kernel does not know; no host has thousands.
	if v, ok := f.number("numa_node", 10, 12); ok {
		n := int(v)
		fn.numa = &n
	}
	// Another attribute that fails is unknown; with this one the GPU would
	// change its identity.
	serial, err := f.text("unique_id")
	if err != nil && !isAbsent(err) {
		return fn, err
	}
	fn.serial, fn.hasSerial = parseUnsigned(serial, 16, 64)
	fn.vram, fn.gtt = f.bytes("mem_info_vram_total"), f.bytes("mem_info_gtt_total")
	fn.product = f.optional("product_name")
	fn.compute, fn.available = f.optional("current_compute_partition"), f.optional("available_compute_partition")
	fn.memory, fn.npsModes = f.optional("current_memory_partition"), f.optional("available_memory_partition")
	if fn.compute != "" {
		fn.profiles = readProfileSource(f)
	}
	_, vf, _ := boardOf(device)
	_, err = p.t.readlink(p.path(bdf) + "/physfn")
	fn.vf = vf || err == nil
	p.drm[bdf] = readMinors(f)
	return fn, nil
}

// bytes is the size in an attribute, nil when it is missing or cannot be.
func (f *folder) bytes(name string) *uint64 {
	n, ok := f.number(name, 10, 64)
	if !ok || n == 0 || n > maxVRAM {
		return nil
	}
	return &n
}

// readProfileSource reads compute_partition_config. xcp_config selects which
// mode the other files describe, for all readers at once, and is never written
// here; a change between the two reads of it would pair a mode with the NPS
// modes of another.
func readProfileSource(f *folder) profileSource {
	var src profileSource
	dir, err := f.sub("compute_partition_config")
	if err != nil {
		return src
	}
	defer dir.close()
	src.supported = parseModes(dir.optional("supported_xcp_configs"), parseComputeMode)
	before := dir.optional("xcp_config")
	src.memory = parseModes(dir.optional("supported_nps_configs"), parseMemoryMode)
	if after := dir.optional("xcp_config"); after == before {
		src.selected, _ = parseComputeMode(after)
	}
	return src
}
