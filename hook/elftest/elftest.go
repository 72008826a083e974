// Package elftest builds small ELF files for tests: programs with any
// interpreter, libraries with any symbol versions, for any machine. They are
// well formed and hold no code.
package elftest

import (
	"debug/elf"
	"encoding/binary"
	"slices"
)

// Options describe a file. The zero value is a static x86-64 program.
type Options struct {
	Type    elf.Type    // 0 is ET_DYN
	Machine elf.Machine // 0 is EM_X86_64
	Interp  string      // PT_INTERP; "" is none
	Dynamic bool        // a dynamic section, even if what follows is empty
	Needed  []string    // DT_NEEDED
	Needs   []Need      // needed symbol versions
	// Versions are the symbol versions the file defines, after one for its own
	// name.
	Versions []string
	// Payload follows the headers, in the file's only segment.
	Payload []byte
}

// Need is the versions needed of one library.
type Need struct {
	Library  string
	Versions []string
}

// Hook is a stand-in for libamvgpu.so, for x86-64, that needs the given versions
// of libc.so.6.
func Hook(versions ...string) []byte {
	return Build(Options{
		Needed: []string{"libc.so.6"},
		Needs:  []Need{{"libc.so.6", versions}},
	})
}

const (
	headerSize = 64
	progSize   = 56
)

// Build returns the file.
func Build(o Options) []byte {
	if o.Type == 0 {
		o.Type = elf.ET_DYN
	}
	if o.Machine == 0 {
		o.Machine = elf.EM_X86_64
	}
	dynamic := o.Dynamic || len(o.Needed)+len(o.Needs)+len(o.Versions) > 0
	progs := 1
	if o.Interp != "" {
		progs++
	}
	if dynamic {
		progs++
	}
	b := &builder{data: make([]byte, headerSize+progs*progSize)}

	var list [][3]uint64 // kind, offset, size
	if o.Interp != "" {
		at := b.append(append([]byte(o.Interp), 0))
		list = append(list, [3]uint64{uint64(elf.PT_INTERP), at, uint64(len(o.Interp) + 1)})
	}
	if dynamic {
		at := b.dynamic(o)
		list = append(list, [3]uint64{uint64(elf.PT_DYNAMIC), at, uint64(len(b.data)) - at})
	}
	b.append(o.Payload)
	list = append(list, [3]uint64{uint64(elf.PT_LOAD), 0, uint64(len(b.data))})
	// PT_INTERP has to come before PT_LOAD, the rest may be anywhere.

	copy(b.data, elf.ELFMAG)
	b.data[elf.EI_CLASS], b.data[elf.EI_DATA], b.data[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	le := binary.LittleEndian
	le.PutUint16(b.data[16:], uint16(o.Type))
	le.PutUint16(b.data[18:], uint16(o.Machine))
	le.PutUint32(b.data[20:], 1)
	le.PutUint64(b.data[32:], headerSize)
	le.PutUint16(b.data[52:], headerSize)
	le.PutUint16(b.data[54:], progSize)
	le.PutUint16(b.data[56:], uint16(len(list)))
	for i, p := range list {
		h := b.data[headerSize+i*progSize:]
		le.PutUint32(h, uint32(p[0]))
		le.PutUint32(h[4:], uint32(elf.PF_R))
		le.PutUint64(h[8:], p[1])
		le.PutUint64(h[16:], p[1])
		le.PutUint64(h[24:], p[1])
		le.PutUint64(h[32:], p[2])
		le.PutUint64(h[40:], p[2])
		le.PutUint64(h[48:], 1)
	}
	return b.data
}

// builder appends parts of a file. Addresses equal offsets.
type builder struct {
	data    []byte
	strings []byte
}

func (b *builder) append(p []byte) uint64 {
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
	at := uint64(len(b.data))
	b.data = append(b.data, p...)
	return at
}

// name is the offset of a string in the string table.
func (b *builder) name(s string) uint32 {
	at := len(b.strings)
	b.strings = append(append(b.strings, s...), 0)
	return uint32(at)
}

// dynamic appends the string table, the version records and the dynamic
// section, and returns where that begins.
func (b *builder) dynamic(o Options) uint64 {
	b.strings = []byte{0}
	var entries [][2]uint64
	for _, n := range o.Needed {
		entries = append(entries, [2]uint64{uint64(elf.DT_NEEDED), uint64(b.name(n))})
	}
	needs, defs := b.needs(o.Needs), b.definitions(o.Versions)
	table := b.append(b.strings)
	entries = append(entries,
		[2]uint64{uint64(elf.DT_STRTAB), table},
		[2]uint64{uint64(elf.DT_STRSZ), uint64(len(b.strings))})
	if len(o.Needs) > 0 {
		entries = append(entries,
			[2]uint64{uint64(elf.DT_VERNEED), b.append(needs)},
			[2]uint64{uint64(elf.DT_VERNEEDNUM), uint64(len(o.Needs))})
	}
	if len(o.Versions) > 0 {
		entries = append(entries,
			[2]uint64{uint64(elf.DT_VERDEF), b.append(defs)},
			[2]uint64{uint64(elf.DT_VERDEFNUM), uint64(len(o.Versions) + 1)})
	}
	entries = append(entries, [2]uint64{uint64(elf.DT_NULL), 0})
	var section []byte
	for _, e := range entries {
		section = binary.LittleEndian.AppendUint64(section, e[0])
		section = binary.LittleEndian.AppendUint64(section, e[1])
	}
	return b.append(section)
}

// needs are the Verneed records, each followed by its Vernaux records.
func (b *builder) needs(list []Need) []byte {
	le := binary.LittleEndian
	var p []byte
	for i, need := range list {
		next := uint32(16 + 16*len(need.Versions))
		if i == len(list)-1 {
			next = 0
		}
		p = le.AppendUint16(p, 1)
		p = le.AppendUint16(p, uint16(len(need.Versions)))
		p = le.AppendUint32(p, b.name(need.Library))
		p = le.AppendUint32(p, 16)
		p = le.AppendUint32(p, next)
		for j, v := range need.Versions {
			next := uint32(16)
			if j == len(need.Versions)-1 {
				next = 0
			}
			p = le.AppendUint32(p, 0)
			p = le.AppendUint16(p, 0)
			p = le.AppendUint16(p, uint16(j+2))
			p = le.AppendUint32(p, b.name(v))
			p = le.AppendUint32(p, next)
		}
	}
	return p
}

// definitions are the Verdef records, each with one Verdaux; the first is the
// file itself.
func (b *builder) definitions(versions []string) []byte {
	le := binary.LittleEndian
	var p []byte
	for i, v := range slices.Concat([]string{"self"}, versions) {
		flags, next := uint16(0), uint32(28)
		if i == 0 {
			flags = 1 // VER_FLG_BASE
		}
		if i == len(versions) {
			next = 0
		}
		p = le.AppendUint16(p, 1)
		p = le.AppendUint16(p, flags)
		p = le.AppendUint16(p, uint16(i+1))
		p = le.AppendUint16(p, 1)
		p = le.AppendUint32(p, 0)
		p = le.AppendUint32(p, 20)
		p = le.AppendUint32(p, next)
		p = le.AppendUint32(p, b.name(v))
		p = le.AppendUint32(p, 0)
	}
	return p
}
