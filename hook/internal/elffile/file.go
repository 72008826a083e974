// Package elffile reads of an ELF file what the kernel and the dynamic loader
// read of it: the program headers, the interpreter and the dynamic section.
// Section headers, which a stripped file may lack and a hostile one may fake,
// are not looked at.
//
// Files come from container images, so nothing in them is believed: every read
// is bounded and every count is limited. Only the class and byte order of the
// machines that AMD GPUs are used on are read, 64-bit little endian; of others
// just the header.
package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrNotELF is a file that does not begin as an ELF file.
var ErrNotELF = errors.New("not an ELF file")

// Sizes of the 64-bit structures, and limits that no working file comes near.
const (
	headerSize = 64
	progSize   = 56
	maxProgs   = 256
	maxString  = 4096
)

// Machine tells which programs can share a process: all three must agree.
type Machine struct {
	Machine elf.Machine
	Class   elf.Class
	Data    elf.Data
}

// String is the machine as debug/elf names it, with what is unusual about it.
func (m Machine) String() string {
	s := m.Machine.String()
	if m.Class != elf.ELFCLASS64 {
		s += " " + m.Class.String()
	}
	if m.Data != elf.ELFDATA2LSB {
		s += " " + m.Data.String()
	}
	return s
}

// File is an open ELF file.
type File struct {
	Machine
	Type elf.Type

	r     io.ReaderAt
	progs []prog
}

// prog is a program header.
type prog struct {
	kind                elf.ProgType
	offset, vaddr, size uint64
}

// Read reads the headers of a file. A file of another class or byte order has
// no program headers in the result.
func Read(r io.ReaderAt) (*File, error) {
	var h [headerSize]byte
	n, err := r.ReadAt(h[:], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < len(h) || !bytes.HasPrefix(h[:], []byte(elf.ELFMAG)) {
		return nil, ErrNotELF
	}
	f := &File{r: r}
	f.Class, f.Data = elf.Class(h[elf.EI_CLASS]), elf.Data(h[elf.EI_DATA])
	order := binary.ByteOrder(binary.LittleEndian)
	if f.Data == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	f.Type, f.Machine.Machine = elf.Type(order.Uint16(h[16:])), elf.Machine(order.Uint16(h[18:]))
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return f, nil
	}
	offset, size, count := le64(h[32:]), le16(h[54:]), le16(h[56:])
	if count == 0 {
		return f, nil
	}
	if size != progSize || count > maxProgs {
		return nil, fmt.Errorf("program headers: want at most %d of %d bytes, have %d of %d", maxProgs, progSize, count, size)
	}
	table, err := f.bytes(offset, uint64(count)*progSize)
	if err != nil {
		return nil, fmt.Errorf("program headers: %w", err)
	}
	for ; len(table) > 0; table = table[progSize:] {
		f.progs = append(f.progs, prog{
			kind:   elf.ProgType(le32(table)),
			offset: le64(table[8:]),
			vaddr:  le64(table[16:]),
			size:   le64(table[32:]),
		})
	}
	return f, nil
}

// Interp is the program's interpreter, the dynamic loader; "" if it has none.
func (f *File) Interp() (string, error) {
	p, ok := f.prog(elf.PT_INTERP)
	if !ok {
		return "", nil
	}
	if p.size == 0 || p.size > maxString {
		return "", fmt.Errorf("interpreter: want 1 to %d bytes, have %d", maxString, p.size)
	}
	b, err := f.bytes(p.offset, p.size)
	if err != nil {
		return "", fmt.Errorf("interpreter: %w", err)
	}
	// The kernel refuses one that does not end in NUL.
	if b[len(b)-1] != 0 {
		return "", errors.New("interpreter: want a string that ends in NUL")
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name), nil
}

func (f *File) prog(kind elf.ProgType) (prog, bool) {
	for _, p := range f.progs {
		if p.kind == kind {
			return p, true
		}
	}
	return prog{}, false
}

// bytes reads n bytes at offset; the callers bound n.
func (f *File) bytes(offset, n uint64) ([]byte, error) {
	if offset >= 1<<62 {
		return nil, fmt.Errorf("want %d bytes at %#x: %w", n, offset, io.ErrUnexpectedEOF)
	}
	b := make([]byte, n)
	got, err := f.r.ReadAt(b, int64(offset))
	if got == len(b) {
		return b, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("want %d bytes at %#x: %w", n, offset, err)
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
