package annotations

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Grant is what the scheduler gave one container on one device.
type Grant struct {
	// UUID is the id under which the node registered the device (Device.ID).
	UUID string `json:"uuid"`
	// Type is the registered product type, such as "AMD Instinct MI300X".
	Type string `json:"type"`
	// MemoryMiB is the VRAM in MiB.
	MemoryMiB int32 `json:"memoryMiB"`
	// CUs is the number of compute units, 0 for a slice of memory alone.
	CUs int32 `json:"cus"`
}

// PodGrants holds the grants of a pod, one entry per container: the init
// containers in order, then the app containers. A container without grants has
// an empty entry that keeps its place.
//
// HAMi v2.10 leaves out the entries of containers that ask for no GPU when the
// product type is not just "AMD", so the index of an entry alone does not say
// whose it is: see Align.
type PodGrants [][]Grant

// EncodePod writes grants byte for byte as HAMi's EncodePodSingleDevice does,
// the value of ToAllocateKey and AllocatedKey:
//
//	device    = UUID "," Type "," MiB "," CUs ":"
//	container = { device } ";"
//
// It refuses what cannot be read back: an empty UUID or type, one that contains
// a separator, a negative number, one device twice in a container.
func EncodePod(grants PodGrants) (string, error) {
	if len(grants) > maxContainers {
		return "", fmt.Errorf("encode pod devices: %d containers, want at most %d", len(grants), maxContainers)
	}
	size := 0
	for i, container := range grants {
		if err := checkContainer(container); err != nil {
			return "", fmt.Errorf("encode pod devices: container %d: %w", i, err)
		}
		for j := range container {
			size += len(container[j].UUID) + len(container[j].Type) + len(",,2147483647,2147483647:")
		}
		size++
	}
	var b strings.Builder
	b.Grow(size)
	var digits [10]byte
	for _, container := range grants {
		for j := range container {
			g := &container[j]
			b.WriteString(g.UUID)
			b.WriteByte(',')
			b.WriteString(g.Type)
			b.WriteByte(',')
			b.Write(strconv.AppendInt(digits[:0], int64(g.MemoryMiB), 10))
			b.WriteByte(',')
			b.Write(strconv.AppendInt(digits[:0], int64(g.CUs), 10))
			b.WriteByte(':')
		}
		b.WriteByte(';')
	}
	if err := checkSize(b.String()); err != nil {
		return "", fmt.Errorf("encode pod devices: %w", err)
	}
	return b.String(), nil
}

// checkContainer reports the first grant of one container that EncodePod must
// not write.
func checkContainer(container []Grant) error {
	if len(container) > maxGrants {
		return fmt.Errorf("%d devices, want at most %d", len(container), maxGrants)
	}
	for j := range container {
		g := &container[j]
		err := checkName("UUID", g.UUID)
		if err == nil {
			err = checkName("type", g.Type)
		}
		switch {
		case err != nil:
		case g.MemoryMiB < 0:
			err = fmt.Errorf("memory is negative: %d", g.MemoryMiB)
		case g.CUs < 0:
			err = fmt.Errorf("CUs are negative: %d", g.CUs)
		case holds(container[:j], g.UUID):
			err = fmt.Errorf("UUID %s is there twice", quote(g.UUID))
		}
		if err != nil {
			return fmt.Errorf("device %d: %w", j, err)
		}
	}
	return nil
}

// DecodePod reads the value of ToAllocateKey or AllocatedKey. Each ";" ends one
// container, so "A,T,1,2:;" is one container and ";;" is two empty ones; the
// last ";" and the last ":" of a container may be missing. Decoding what
// EncodePod wrote gives the same grants, in any number of rounds.
//
// Unlike HAMi v2.10 it refuses a device that has not exactly four fields, an
// empty UUID or type, a negative number and one device twice in a container; a
// number is plain decimal and fits int32. The error names the container and the
// device, both counted from 0, and the field. The caller knows the key and adds it.
func DecodePod(s string) (PodGrants, error) {
	if err := checkSize(s); err != nil {
		return nil, fmt.Errorf("decode pod devices: %w", err)
	}
	containers := strings.Count(s, ";")
	if s != "" && s[len(s)-1] != ';' {
		containers++
	}
	if containers > maxContainers {
		return nil, fmt.Errorf("decode pod devices: %d containers, want at most %d", containers, maxContainers)
	}
	// Each device has three commas, or the value is refused: the grants of all
	// containers fit into one array.
	all := make([]Grant, 0, strings.Count(s, ",")/3)
	pod := make(PodGrants, 0, containers)
	for i := range containers {
		var entry string
		entry, s, _ = strings.Cut(s, ";")
		first := len(all)
		for j := 0; entry != ""; j++ {
			var segment string
			segment, entry, _ = strings.Cut(entry, ":")
			g, err := decodeGrant(segment)
			switch {
			case err != nil:
			case j == maxGrants:
				err = fmt.Errorf("want at most %d devices", maxGrants)
			case holds(all[first:], g.UUID):
				err = fmt.Errorf("UUID %s is there twice", quote(g.UUID))
			}
			if err != nil {
				return nil, fmt.Errorf("decode pod devices: container %d: device %d: %w", i, j, err)
			}
			all = append(all, g)
		}
		pod = append(pod, all[first:len(all):len(all)])
	}
	return pod, nil
}

// decodeGrant reads "UUID,Type,MiB,CUs".
func decodeGrant(segment string) (Grant, error) {
	uuid, rest, ok1 := strings.Cut(segment, ",")
	typ, rest, ok2 := strings.Cut(rest, ",")
	memory, cus, ok3 := strings.Cut(rest, ",")
	if !ok1 || !ok2 || !ok3 || strings.IndexByte(cus, ',') >= 0 {
		found := "1 field"
		if commas := strings.Count(segment, ","); commas > 0 {
			found = fmt.Sprintf("%d fields", commas+1)
		}
		return Grant{}, fmt.Errorf("want UUID,type,memory,CUs, found %s in %s", found, quote(segment))
	}
	if uuid == "" {
		return Grant{}, errors.New("UUID is empty")
	}
	if typ == "" {
		return Grant{}, errors.New("type is empty")
	}
	g := Grant{UUID: uuid, Type: typ}
	if g.MemoryMiB, ok1 = parseCount(memory); !ok1 {
		return Grant{}, fmt.Errorf("memory: want MiB as a whole number from 0 to %d, found %s", math.MaxInt32, quote(memory))
	}
	if g.CUs, ok1 = parseCount(cus); !ok1 {
		return Grant{}, fmt.Errorf("CUs: want a whole number from 0 to %d, found %s", math.MaxInt32, quote(cus))
	}
	return g, nil
}

// holds reports whether a device is among grants.
func holds(grants []Grant, uuid string) bool {
	for i := range grants {
		if grants[i].UUID == uuid {
			return true
		}
	}
	return false
}
