package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// The memory hook's shared region: a file of one structure that the processes
// of a container map (hip_shared_region_t of Project-HAMi/amd-hami-core, on x86-64).
// Offsets are in bytes, numbers little endian.
//
//	0        int32   magic, "HMI2", written last when the file is made
//	8        sem_t   the lock; not taken by this reader
//	40       u64     pid of its holder
//	48       u64     number of devices, which the hook does not set
//	56       u64     limit of each device, 64 of them; 0 is none
//	568              1024 process slots of 2576 bytes
//	2638392  int32   number of slots in use
//
// A slot is a pid (int32 at 0) and, from 8 on, four numbers for each of 64
// devices, the last of which is what the process uses of the device in all.
// Devices are numbered as the container's HIP numbers them.
const (
	regionMagic  = 0x484D4932
	regionLimits = 56
	regionSlots  = 568
	regionCount  = 2638392
	regionSize   = 2638400

	regionDevices = 64
	slotCount     = 1024
	slotSize      = 2576
	slotUsed      = 8
	usedSize      = 32
	usedTotal     = 24

	// slotBatch is how many slots are read at once: few containers have more
	// processes on GPUs, and reading all slots takes 2.6 MB.
	slotBatch = 8

	// mostBytes is more memory than any device has. The file belongs to the
	// container, which can write anything into it.
	mostBytes = 1 << 50
)

// errNoRegion is a container without a region, or whose first process is just
// making it.
var errNoRegion = errors.New("no region of the memory hook")

// regionBuffer is what one reader of regions needs.
type regionBuffer [slotBatch * slotSize]byte

// region is what the hook's file says about the first devices of a container.
type region struct {
	limits []uint64 // bytes; 0 is no limit
	used   []uint64 // bytes, of all processes in the file
}

// readRegion reads the region at path for that many devices. The file can be
// anything and can change at any moment; the answer is then one the container
// has made up, within bounds.
//
// A process that was killed stays in the file until the hook needs its slot,
// so what is used can be too much. Which processes live cannot be told here:
// the pids are the container's.
func readRegion(path string, devices int, buf *regionBuffer) (region, error) {
	f, err := openRegion(path)
	if errors.Is(err, fs.ErrNotExist) {
		return region{}, errNoRegion
	}
	if err != nil {
		return region{}, fmt.Errorf("region of the memory hook: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return region{}, fmt.Errorf("region of the memory hook: %w", err)
	}
	r, err := parseRegion(f, info.Size(), devices, buf)
	if err != nil && err != errNoRegion {
		err = fmt.Errorf("region of the memory hook %q: %w", path, err)
	}
	return r, err
}

// parseRegion reads a region of the given size. The result does not refer to
// buf.
func parseRegion(r io.ReaderAt, size int64, devices int, buf *regionBuffer) (region, error) {
	switch {
	case devices < 0 || devices > regionDevices:
		return region{}, fmt.Errorf("want 0 to %d devices, have %d", regionDevices, devices)
	case size == 0:
		return region{}, errNoRegion
	case size < regionSize:
		return region{}, fmt.Errorf("want %d bytes, have %d", regionSize, size)
	}
	head := buf[:regionSlots]
	if err := readAt(r, head, 0); err != nil {
		return region{}, err
	}
	switch magic := binary.LittleEndian.Uint32(head); magic {
	case regionMagic:
	case 0:
		return region{}, errNoRegion
	default:
		return region{}, fmt.Errorf("want magic %#x, have %#x", regionMagic, magic)
	}
	out := region{limits: make([]uint64, devices), used: make([]uint64, devices)}
	for i := range out.limits {
		out.limits[i] = binary.LittleEndian.Uint64(head[regionLimits+8*i:])
	}
	if err := out.addSlots(r, buf); err != nil {
		return region{}, err
	}
	return out, nil
}

// addSlots sums what the processes use. The first free slot is the next one
// taken, so they are in front unless others before them have ended.
func (out *region) addSlots(r io.ReaderAt, buf *regionBuffer) error {
	if err := readAt(r, buf[:4], regionCount); err != nil {
		return err
	}
	want := int32(binary.LittleEndian.Uint32(buf[:4]))
	if want < 0 || want > slotCount {
		return fmt.Errorf("want 0 to %d processes, have %d", slotCount, want)
	}
	for first, found := 0, int32(0); first < slotCount; first += slotBatch {
		if err := readAt(r, buf[:], regionSlots+int64(first)*slotSize); err != nil {
			return err
		}
		for slot := buf[:]; len(slot) > 0; slot = slot[slotSize:] {
			if int32(binary.LittleEndian.Uint32(slot)) <= 0 {
				continue
			}
			found++
			for i := range out.used {
				n := binary.LittleEndian.Uint64(slot[slotUsed+usedSize*i+usedTotal:])
				if n > mostBytes || out.used[i]+n > mostBytes {
					return fmt.Errorf("want at most %d bytes in use of device %d, have more", uint64(mostBytes), i)
				}
				out.used[i] += n
			}
		}
		if found >= want {
			break
		}
	}
	return nil
}

// readAt fills buf. A file that ends before was cut while it was read.
func readAt(r io.ReaderAt, buf []byte, at int64) error {
	n, err := r.ReadAt(buf, at)
	switch {
	case n == len(buf):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// The directories of the hook's regions, as package hook makes them.
const (
	hookContainers = "vgpu/containers"
	hookCacheFile  = "hipdevshr.cache"
)

// regionPath is where the region of a container is on the host. Both names
// come from the API server; ones that could leave the directory are refused.
func regionPath(hookPath, podUID, container string) (string, error) {
	for _, name := range []string{podUID, container} {
		if name == "" || len(name) > 120 || strings.Trim(name, plainNameChars) != "" {
			return "", fmt.Errorf("region of the memory hook: want names of letters, digits and dashes, have %q", name)
		}
	}
	return filepath.Join(hookPath, hookContainers, podUID+"_"+container, hookCacheFile), nil
}

const plainNameChars = "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
