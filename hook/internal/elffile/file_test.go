package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var dynamic = elftest.Options{
	Interp: "/lib64/ld-linux-x86-64.so.2",
	Needed: []string{"libm.so.6", "libc.so.6"},
	Needs: []elftest.Need{
		{Library: "libm.so.6", Versions: []string{"GLIBC_2.29"}},
		{Library: "libc.so.6", Versions: []string{"GLIBC_2.2.5", "GLIBC_2.34"}},
	},
	Versions: []string{"HOOK_1", "HOOK_2"},
}

func TestRead(t *testing.T) {
	f := open(t, elftest.Build(dynamic))
	if want := (Machine{elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB}); f.Machine != want || f.Type != elf.ET_DYN {
		t.Errorf("header = %v, %v", f.Machine, f.Type)
	}
	if interp, err := f.Interp(); err != nil || interp != "/lib64/ld-linux-x86-64.so.2" {
		t.Errorf("interp = %q, %v", interp, err)
	}
	d, err := f.Dynamic()
	if err != nil {
		t.Fatal(err)
	}
	want := &Dynamic{
		Needed:   []string{"libm.so.6", "libc.so.6"},
		Needs:    []Need{{"libm.so.6", []string{"GLIBC_2.29"}}, {"libc.so.6", []string{"GLIBC_2.2.5", "GLIBC_2.34"}}},
		Versions: []string{"HOOK_1", "HOOK_2"},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("dynamic (-want +got):\n%s", diff)
	}
}

func TestReadStatic(t *testing.T) {
	f := open(t, elftest.Build(elftest.Options{Type: elf.ET_EXEC, Machine: elf.EM_AARCH64}))
	interp, err := f.Interp()
	d, derr := f.Dynamic()
	if interp != "" || err != nil || d != nil || derr != nil {
		t.Errorf("interp %q, %v; dynamic %v, %v", interp, err, d, derr)
	}
	if got := f.Machine.String(); got != "EM_AARCH64" {
		t.Errorf("machine = %s", got)
	}
}

// The running test is an ELF file that debug/elf reads as well.
func TestReadAgreesWithDebugELF(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want, err := elf.NewFile(r)
	if err != nil && runtime.GOOS != "linux" {
		return // not an ELF system
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Type != want.Type || got.Machine.Machine != want.Machine || len(got.progs) != len(want.Progs) {
		t.Errorf("got %v %v with %d segments, want %v %v with %d",
			got.Type, got.Machine, len(got.progs), want.Type, want.Machine, len(want.Progs))
	}
}

func TestReadOtherMachines(t *testing.T) {
	data := elftest.Build(dynamic)
	data[elf.EI_CLASS] = byte(elf.ELFCLASS32)
	f := open(t, data)
	if got := f.Machine.String(); got != "EM_X86_64 ELFCLASS32" {
		t.Errorf("a 32-bit file: %s", got)
	}
	big := elftest.Build(elftest.Options{})
	big[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	binary.BigEndian.PutUint16(big[18:], uint16(elf.EM_S390))
	if got := open(t, big).Machine.String(); got != "EM_S390 ELFDATA2MSB" {
		t.Errorf("a big-endian file: %s", got)
	}
	if interp, err := f.Interp(); interp != "" || err != nil {
		t.Errorf("interp of a 32-bit file: %q, %v", interp, err)
	}
}

// Files that are cut or wrong in one place.
func TestReadRefuses(t *testing.T) {
	good := elftest.Build(dynamic)
	put16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint16(b[at:], v); return b }
	}
	put64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	const interp, dyn = headerSize, headerSize + progSize
	tests := map[string]struct {
		change func([]byte) []byte
		want   string
	}{
		"empty":                            {func([]byte) []byte { return nil }, "not an ELF file"},
		"half a header":                    {func(b []byte) []byte { return b[:40] }, "not an ELF file"},
		"a script":                         {func([]byte) []byte { return []byte("#!/bin/sh\n" + strings.Repeat("x", 100)) }, "not an ELF file"},
		"too many segments":                {put16(56, 257), "program headers: want at most 256 of 56 bytes, have 257 of 56"},
		"segments of another size":         {put16(54, 32), "program headers: want at most 256 of 56 bytes, have 3 of 32"},
		"segments beyond the end":          {put64(32, 1<<40), "unexpected EOF"},
		"segments at a negative offset":    {put64(32, 1<<63), "unexpected EOF"},
		"a huge interpreter":               {put64(interp+32, 1<<40), "interpreter: want 1 to 4096 bytes, have 1099511627776"},
		"an empty interpreter":             {put64(interp+32, 0), "interpreter: want 1 to 4096 bytes, have 0"},
		"an interpreter without an end":    {put64(interp+32, 5), "interpreter: want a string that ends in NUL"},
		"an interpreter beyond the end":    {put64(interp+8, 1<<40), "unexpected EOF"},
		"a dynamic section beyond the end": {put64(dyn+8, 1<<40), "dynamic section: want"},
		"no segment for the strings":       {put64(dyn+progSize+32, 64), "is in no segment"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Read(bytes.NewReader(tt.change(bytes.Clone(good))))
			if err == nil {
				_, err = f.Interp()
			}
			if err == nil {
				_, err = f.Dynamic()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

// Counts that no working file has are refused instead of followed.
func TestDynamicIsBounded(t *testing.T) {
	many := func(n int) []string { return strings.Split(strings.Repeat("x,", n-1)+"x", ",") }
	tests := map[string]struct {
		most, more elftest.Options
	}{
		"libraries": {
			elftest.Options{Needed: many(maxNeeded)},
			elftest.Options{Needed: many(maxNeeded + 1)},
		},
		"needed versions": {
			elftest.Options{Needs: []elftest.Need{{Library: "l", Versions: many(maxVersions - 1)}}},
			elftest.Options{Needs: []elftest.Need{{Library: "l", Versions: many(maxVersions)}}},
		},
		"defined versions": {
			elftest.Options{Versions: many(maxVersions - 1)},
			elftest.Options{Versions: many(maxVersions)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := open(t, elftest.Build(tt.most)).Dynamic(); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			if _, err := open(t, elftest.Build(tt.more)).Dynamic(); err == nil || !strings.Contains(err.Error(), "have more") {
				t.Errorf("above it: got %v, want a limit", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(elftest.Build(dynamic))
	f.Add(elftest.Build(elftest.Options{Type: elf.ET_EXEC}))
	f.Add(elftest.Hook("GLIBC_2.34"))
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Read(bytes.NewReader(data))
		if err != nil {
			if file != nil {
				t.Error("a file with an error")
			}
			return
		}
		if name, err := file.Interp(); err != nil && name != "" {
			t.Errorf("interpreter %q with error %v", name, err)
		}
		d, err := file.Dynamic()
		if err != nil && d != nil {
			t.Errorf("dynamic section with error %v", err)
		}
		if d != nil && (len(d.Needed) > maxNeeded || len(d.Versions) > maxVersions) {
			t.Errorf("%d libraries, %d versions", len(d.Needed), len(d.Versions))
		}
	})
}

func TestErrNotELF(t *testing.T) {
	if _, err := Read(strings.NewReader("")); !errors.Is(err, ErrNotELF) {
		t.Errorf("got %v", err)
	}
}
