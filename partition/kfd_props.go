package partition

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// number is a value of a properties file, if the file has it.
type number struct {
	n  uint64
	ok bool
}

// or returns the number, or v where the file has none.
func (x number) or(v uint64) uint64 {
	if x.ok {
		return x.n
	}
	return v
}

// kfdProps are the keys of a KFD node's properties file that discovery uses.
// The kernel prints them in kfd_topology.c (node_show); which are there
// depends on its version.
type kfdProps struct {
	cpuCores, simdCount, simdPerCU                    number
	arrayCount, arraysPerEngine, cuPerArray           number
	gfxTarget, vendor, device, location, domain       number
	renderMinor, hiveID, cpQueues, uniqueID, xccCount number
}

func (p *kfdProps) field(key []byte) *number {
	switch string(key) {
	case "cpu_cores_count":
		return &p.cpuCores
	case "simd_count":
		return &p.simdCount
	case "simd_per_cu":
		return &p.simdPerCU
	case "array_count":
		return &p.arrayCount
	case "simd_arrays_per_engine":
		return &p.arraysPerEngine
	case "cu_per_simd_array":
		return &p.cuPerArray
	case "gfx_target_version":
		return &p.gfxTarget
	case "vendor_id":
		return &p.vendor
	case "device_id":
		return &p.device
	case "location_id":
		return &p.location
	case "domain":
		return &p.domain
	case "drm_render_minor":
		return &p.renderMinor
	case "hive_id":
		return &p.hiveID
	case "num_cp_queues":
		return &p.cpQueues
	case "unique_id":
		return &p.uniqueID
	case "num_xcc":
		return &p.xccCount
	}
	return nil
}

// bankProps are the keys of a memory bank's properties file.
type bankProps struct{ heapType, size number }

func (p *bankProps) field(key []byte) *number {
	switch string(key) {
	case "heap_type":
		return &p.heapType
	case "size_in_bytes":
		return &p.size
	}
	return nil
}

// linkProps are the keys of a link's properties file.
type linkProps struct{ kind, to, weight, minMBps, maxMBps number }

func (p *linkProps) field(key []byte) *number {
	switch string(key) {
	case "type":
		return &p.kind
	case "node_to":
		return &p.to
	case "weight":
		return &p.weight
	case "min_bandwidth":
		return &p.minMBps
	case "max_bandwidth":
		return &p.maxMBps
	}
	return nil
}

// parseProps reads "key value" lines into the fields that field knows. Unknown
// keys are passed over, whatever their values: kernels add some. A known key
// without a number that fits 64 unsigned bits, or given twice, is an error.
func parseProps(b []byte, field func(key []byte) *number) error {
	if len(b) == 0 {
		return errors.New("empty file")
	}
	for len(b) > 0 {
		var line []byte
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			line, b = b, nil
		}
		key, value, _ := bytes.Cut(line, []byte{' '})
		dst := field(key)
		if dst == nil {
			continue
		}
		if dst.ok {
			return fmt.Errorf("%s: given twice", key)
		}
		n, err := parseNumber(key, value)
		if err != nil {
			return fmt.Errorf("%s %.64q: want a number", key, value)
		}
		*dst = number{n: n, ok: true}
	}
	return nil
}

// parseNumber reads a decimal number. unique_id may be hexadecimal: a kernel
// patch that prints it so has been posted.
func parseNumber(key, value []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil && string(key) == "unique_id" {
		return strconv.ParseUint(string(value), 16, 64)
	}
	return n, err
}
