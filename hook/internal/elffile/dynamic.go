package elffile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
)

// Limits of a dynamic section. glibc's own libc.so.6 has some 30 entries and
// 50 version definitions.
const (
	maxDynamic  = 4096 // entries
	maxNeeded   = 1024 // DT_NEEDED entries
	maxVersions = 4096 // version definitions, or needed versions, in all
)

// Dynamic is what a file asks of the dynamic loader and offers to others.
type Dynamic struct {
	Needed   []string // DT_NEEDED: libraries it is linked with
	Needs    []Need   // versions it needs of them
	Versions []string // versions it defines, without its own name
}

// Need is the versions that a file needs of one library.
type Need struct {
	Library  string
	Versions []string
}

// Dynamic reads the dynamic section; nil without an error if there is none.
func (f *File) Dynamic() (*Dynamic, error) {
	p, ok := f.prog(elf.PT_DYNAMIC)
	if !ok {
		return nil, nil
	}
	t, err := f.table(p)
	if err != nil {
		return nil, fmt.Errorf("dynamic section: %w", err)
	}
	d := &Dynamic{}
	for _, offset := range t.needed {
		name, err := f.string(t, offset)
		if err != nil {
			return nil, fmt.Errorf("needed library: %w", err)
		}
		d.Needed = append(d.Needed, name)
	}
	if d.Needs, err = f.needs(t); err != nil {
		return nil, fmt.Errorf("needed versions: %w", err)
	}
	if d.Versions, err = f.definitions(t); err != nil {
		return nil, fmt.Errorf("defined versions: %w", err)
	}
	return d, nil
}

// table is the dynamic section's entries that matter here; addresses are
// virtual.
type table struct {
	needed            []uint64
	strings, size     uint64
	need, needCount   uint64
	define, defineCnt uint64
}

func (f *File) table(p prog) (table, error) {
	const entry = 16
	count := min(p.size/entry, maxDynamic+1)
	b, err := f.bytes(p.offset, count*entry)
	if err != nil {
		return table{}, err
	}
	var t table
	for ; len(b) > 0; b = b[entry:] {
		value := le64(b[8:])
		switch elf.DynTag(le64(b)) {
		case elf.DT_NULL:
			return t, nil
		case elf.DT_NEEDED:
			if len(t.needed) >= maxNeeded {
				return table{}, fmt.Errorf("want at most %d libraries, have more", maxNeeded)
			}
			t.needed = append(t.needed, value)
		case elf.DT_STRTAB:
			t.strings = value
		case elf.DT_STRSZ:
			t.size = value
		case elf.DT_VERNEED:
			t.need = value
		case elf.DT_VERNEEDNUM:
			t.needCount = value
		case elf.DT_VERDEF:
			t.define = value
		case elf.DT_VERDEFNUM:
			t.defineCnt = value
		}
	}
	if count > maxDynamic {
		return table{}, fmt.Errorf("want at most %d entries, have more", maxDynamic)
	}
	return t, nil
}

// needs walks the Verneed records: one for each library, each with a chain of
// Vernaux records (gABI, "Symbol Versioning").
func (f *File) needs(t table) ([]Need, error) {
	var list []Need
	total := 0
	for at, i := t.need, uint64(0); i < t.needCount; i++ {
		b, err := f.at(at, 16)
		if err != nil {
			return nil, err
		}
		library, err := f.string(t, uint64(le32(b[4:])))
		if err != nil {
			return nil, err
		}
		need := Need{Library: library}
		aux := at + uint64(le32(b[8:]))
		for range le16(b[2:]) {
			if total++; total > maxVersions {
				return nil, fmt.Errorf("want at most %d, have more", maxVersions)
			}
			a, err := f.at(aux, 16)
			if err != nil {
				return nil, err
			}
			version, err := f.string(t, uint64(le32(a[8:])))
			if err != nil {
				return nil, err
			}
			need.Versions = append(need.Versions, version)
			aux += uint64(le32(a[12:]))
		}
		if total++; total > maxVersions {
			return nil, fmt.Errorf("want at most %d, have more", maxVersions)
		}
		list = append(list, need)
		next := le32(b[12:])
		if next == 0 {
			break
		}
		at += uint64(next)
	}
	return list, nil
}

// definitions walks the Verdef records. The first name of each is the version;
// the record flagged as base holds the file's own name.
func (f *File) definitions(t table) ([]string, error) {
	const base = 1
	var list []string
	for at, i := t.define, uint64(0); i < t.defineCnt; i++ {
		if i >= maxVersions {
			return nil, fmt.Errorf("want at most %d, have more", maxVersions)
		}
		b, err := f.at(at, 20)
		if err != nil {
			return nil, err
		}
		if le16(b[2:])&base == 0 {
			a, err := f.at(at+uint64(le32(b[12:])), 8)
			if err != nil {
				return nil, err
			}
			version, err := f.string(t, uint64(le32(a)))
			if err != nil {
				return nil, err
			}
			list = append(list, version)
		}
		next := le32(b[16:])
		if next == 0 {
			break
		}
		at += uint64(next)
	}
	return list, nil
}

// string reads the string at an offset of the string table.
func (f *File) string(t table, offset uint64) (string, error) {
	if offset >= t.size {
		return "", fmt.Errorf("string at %#x: want an offset below %#x", offset, t.size)
	}
	n := min(t.size-offset, maxString)
	at, room, err := f.offset(t.strings + offset)
	if err != nil {
		return "", err
	}
	b, err := f.bytes(at, min(n, room))
	if err != nil {
		return "", err
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return "", errors.New("string: want NUL within its table, have none")
	}
	return string(b[:end]), nil
}

// at reads n bytes at a virtual address.
func (f *File) at(vaddr, n uint64) ([]byte, error) {
	offset, room, err := f.offset(vaddr)
	if err != nil {
		return nil, err
	}
	if room < n {
		return nil, fmt.Errorf("want %d bytes at address %#x, have %d", n, vaddr, room)
	}
	return f.bytes(offset, n)
}

// offset turns a virtual address into an offset of the file, and tells how
// many bytes of its segment follow.
func (f *File) offset(vaddr uint64) (offset, room uint64, err error) {
	for _, p := range f.progs {
		if p.kind == elf.PT_LOAD && vaddr >= p.vaddr && vaddr-p.vaddr < p.size {
			d := vaddr - p.vaddr
			return p.offset + d, p.size - d, nil
		}
	}
	return 0, 0, fmt.Errorf("address %#x is in no segment", vaddr)
}
