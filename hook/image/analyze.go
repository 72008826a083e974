package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/internal/elffile"
)

// Libc is the C library that loads a program.
type Libc string

// The C libraries.
const (
	Unknown Libc = "unknown"
	GNU     Libc = "glibc"
	Musl    Libc = "musl"
	Static  Libc = "static" // none: the program brings all it needs
)

// Result is what an image's entry point would be loaded with.
type Result struct {
	Libc Libc
	// Glibc is the version of the image's libc.so.6 for [GNU]; the zero value
	// if it could not be read.
	Glibc hook.Glibc
	// Program is the file that decided, a path in the image without links: the
	// entry point, or the interpreter of its script.
	Program string
	// Loader is the program's ELF interpreter as the program names it.
	Loader string
	// Machine, Class and Data say what the program runs on.
	Machine elf.Machine
	Class   elf.Class
	Data    elf.Data
	// Secure is a program with the setuid or setgid bit, for which the loader
	// ignores audit libraries.
	Secure bool
	// Detail is why Libc is [Unknown] or Glibc is zero.
	Detail string
}

// Analyze finds the program that a container of an image starts and the C
// library it is loaded with. The files are the image's root directory; links
// are followed inside it. They must be opened as something that can be read at
// an offset, as [os.Root.FS] and [testing/fstest.MapFS] do.
//
// What cannot be told is no error but an [Unknown] result with a detail. An
// error is a failure to read.
func Analyze(files fs.ReadLinkFS, c Config, o Override) (Result, error) {
	t := tree{files, mounts(o.Mounts)}
	r, err := t.analyze(c, o)
	var u *unknownError
	switch {
	case errors.As(err, &u):
		return Result{Libc: Unknown, Program: r.Program, Detail: u.detail}, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return Result{Libc: Unknown, Program: r.Program, Detail: err.Error()}, nil
	case err != nil:
		return Result{}, fmt.Errorf("analyze image: %w", err)
	}
	return r, nil
}

func mounts(paths []string) []string {
	var list []string
	for _, m := range paths {
		list = append(list, path.Join("/", m))
	}
	return list
}

func (t tree) analyze(c Config, o Override) (Result, error) {
	cmd, err := commandOf(c, o)
	if err != nil {
		return Result{}, err
	}
	f, program, err := t.program(cmd)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	r := Result{
		Program: f.path,
		Machine: program.Machine.Machine, Class: program.Class, Data: program.Data,
		Secure: f.info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0,
	}
	if program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN {
		return r, unknown("%q: an ELF file of type %s, not a program", f.path, program.Type)
	}
	if r.Loader, err = program.Interp(); err != nil {
		return r, unknown("%q: %v", f.path, err)
	}
	if r.Loader == "" {
		// Also what -static-pie makes: a dynamic section and no interpreter.
		r.Libc = Static
		return r, nil
	}
	return t.loader(r, program.Machine)
}

// program opens the ELF program that a command starts, through scripts and
// env.
func (t tree) program(cmd command) (*file, *elffile.File, error) {
	name, args := cmd.argv[0], cmd.argv[1:]
	for range maxScripts + 2 {
		at, err := cmd.find(t, name)
		if err != nil {
			return nil, nil, err
		}
		f, err := t.open(at)
		if err != nil {
			return nil, nil, err
		}
		if next, err := throughEnv(name, args); next != "" || err != nil {
			f.Close()
			if err != nil {
				return nil, nil, err
			}
			name, args = next, nil
			continue
		}
		head, err := f.head(maxScriptLine)
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		if interp, arg, ok := shebang(head); ok {
			f.Close()
			if name, args = cmd.abs(interp), []string{arg}; path.Base(interp) == "env" {
				args = envArgs(arg)
			}
			continue
		}
		program, err := elffile.Read(f)
		if err != nil {
			f.Close()
			return nil, nil, unknown("%q: %v", f.path, err)
		}
		return f, program, nil
	}
	return nil, nil, unknown("%q: more than %d scripts that interpret each other", cmd.argv[0], maxScripts)
}

// loader tells the C library by the file name of the loader, as the program
// names it and as it is once links are followed: Alpine's compatibility
// packages put a link to musl where glibc's loader would be.
func (t tree) loader(r Result, m elffile.Machine) (Result, error) {
	at, _, err := t.resolve(r.Loader)
	if errors.Is(err, fs.ErrNotExist) {
		return r, unknown("%q: its loader %q is not in the image", r.Program, r.Loader)
	}
	if err != nil {
		return r, err
	}
	switch {
	case isMusl(r.Loader) || isMusl(at):
		r.Libc = Musl
		return r, nil
	case !isGlibcLoader(r.Loader):
		return r, unknown("%q: its loader %q is of no known C library", r.Program, r.Loader)
	}
	v, musl, err := t.libc(path.Dir(at), m)
	switch u := (*unknownError)(nil); {
	case errors.As(err, &u):
		r.Detail = u.detail
	case err != nil:
		return r, err
	case musl:
		r.Libc = Musl
		return r, nil
	}
	r.Libc, r.Glibc = GNU, v
	return r, nil
}
