package hook

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/Project-HAMi/hami-amd/hook/internal/elffile"
)

// ErrMissing is a hook that cannot be mounted: nothing is there, or something
// that is no file. A bind mount of a path that is not there would make the
// runtime create a directory of that name.
var ErrMissing = errors.New("memory hook is not installed")

// Check reports whether the hook at path can be mounted into a container: a
// regular file with something in it. It does not look inside, which
// [InspectFile] does. Every error is an [ErrMissing].
func Check(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%w: %q: want a regular file, have %s", ErrMissing, path, kind(fi.Mode()))
	case fi.Size() == 0:
		return fmt.Errorf("%w: %q: want a library, have an empty file", ErrMissing, path)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// Requirements are what a program must bring for the hook to be loaded into
// it.
type Requirements struct {
	// Machine, Class and Data are those of the library; a process holds only
	// one kind of code.
	Machine elf.Machine
	Class   elf.Class
	Data    elf.Data
	// Glibc is the newest version of its symbols that the library needs. The
	// zero value means that it needs none.
	Glibc Glibc
}

// Inspect reads the requirements of a hook library. One that needs
// GLIBC_PRIVATE is an [ErrPrivate], and anything that is not a shared library
// an error as well: neither should be installed or mounted.
func Inspect(r io.ReaderAt) (Requirements, error) {
	f, err := elffile.Read(r)
	if err != nil {
		return Requirements{}, fmt.Errorf("inspect hook: %w", err)
	}
	dynamic, err := f.Dynamic()
	if err != nil {
		return Requirements{}, fmt.Errorf("inspect hook: %w", err)
	}
	if f.Type != elf.ET_DYN || dynamic == nil {
		return Requirements{}, fmt.Errorf("inspect hook: want a shared library of a 64-bit little-endian machine, have %s of %s", f.Type, f.Machine)
	}
	var symbols []string
	for _, need := range dynamic.Needs {
		for _, s := range need.Versions {
			if s == "GLIBC_PRIVATE" {
				return Requirements{}, fmt.Errorf("inspect hook: %w of %q", ErrPrivate, need.Library)
			}
			symbols = append(symbols, s)
		}
	}
	return Requirements{f.Machine.Machine, f.Class, f.Data, NewestGlibc(symbols)}, nil
}

// InspectFile is [Inspect] of the file at path, after [Check].
func InspectFile(path string) (Requirements, error) {
	if err := Check(path); err != nil {
		return Requirements{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Requirements{}, fmt.Errorf("inspect hook: %w", err)
	}
	defer f.Close()
	r, err := Inspect(f)
	if err != nil {
		return Requirements{}, fmt.Errorf("%q: %w", path, err)
	}
	return r, nil
}
