package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/internal/elffile"
)

// isMusl goes by names: musl's loader is ld-musl-<arch>.so.1 and is also its
// libc, which Alpine links to as libc.musl-<arch>.so.1.
func isMusl(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "ld-musl-") || strings.HasPrefix(base, "libc.musl-")
}

// isGlibcLoader goes by the names in glibc's shlib-versions files:
// ld-linux-x86-64.so.2, ld-linux-aarch64.so.1, ld-linux.so.2, ld64.so.2 and so
// on.
func isGlibcLoader(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld64.so.") || strings.HasPrefix(base, "ld.so.")
}

// multiarch is Debian's directory name for a machine.
func multiarch(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "x86_64-linux-gnu"
	case elf.EM_AARCH64:
		return "aarch64-linux-gnu"
	case elf.EM_PPC64:
		return "powerpc64le-linux-gnu"
	}
	return ""
}

// libc reads the version of the libc.so.6 that belongs to a loader: the one
// beside it, where every distribution installs it, else the first one of the
// same machine in the usual directories. musl is reported if the name is only
// a link to it.
func (t tree) libc(loaderDir string, m elffile.Machine) (v hook.Glibc, musl bool, err error) {
	dirs := []string{loaderDir}
	if triple := multiarch(m.Machine); triple != "" {
		dirs = append(dirs, "/lib/"+triple, "/usr/lib/"+triple)
	}
	dirs = append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			continue
		}
		v, musl, err = t.libcAt(path.Join(dir, "libc.so.6"), m)
		if !errors.Is(err, fs.ErrNotExist) {
			return v, musl, err
		}
	}
	return hook.Glibc{}, false, unknown("no libc.so.6 of %s in the image", m)
}

// libcAt reads one libc.so.6. One of another machine counts as not there.
func (t tree) libcAt(name string, m elffile.Machine) (hook.Glibc, bool, error) {
	f, err := t.open(name)
	if err != nil {
		return hook.Glibc{}, false, err
	}
	defer f.Close()
	if isMusl(f.path) {
		return hook.Glibc{}, true, nil
	}
	lib, err := elffile.Read(f)
	if err != nil {
		return hook.Glibc{}, false, unknown("%q: %v", f.path, err)
	}
	if lib.Machine != m {
		return hook.Glibc{}, false, fs.ErrNotExist
	}
	d, err := lib.Dynamic()
	if err != nil {
		return hook.Glibc{}, false, unknown("%q: %v", f.path, err)
	}
	if d != nil {
		if v := hook.NewestGlibc(d.Versions); v != (hook.Glibc{}) {
			return v, false, nil
		}
	}
	v, ok, err := banner(f)
	if err == nil && !ok {
		err = unknown("%q: neither its symbols nor its text tell a glibc version", f.path)
	}
	return v, false, err
}

// maxBanner is how much of a libc.so.6 is searched for its text. glibc's is
// two megabytes.
const maxBanner = 16 << 20

// banner reads the version from the text that libc.so.6 prints when it is run:
// "GNU C Library (...) stable release version 2.36."
func banner(f *file) (hook.Glibc, bool, error) {
	const before, number = "GNU C Library", "release version "
	text, err := f.head(int(min(f.info.Size(), maxBanner)))
	if err != nil {
		return hook.Glibc{}, false, err
	}
	for {
		i := bytes.Index(text, []byte(before))
		if i < 0 {
			return hook.Glibc{}, false, nil
		}
		text = text[i+len(before):]
		line := text[:min(len(text), 256)]
		j := bytes.Index(line, []byte(number))
		if j < 0 {
			continue
		}
		line = line[j+len(number):]
		end := bytes.IndexFunc(line, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if end < 0 {
			end = len(line)
		}
		if v, err := hook.ParseGlibc(strings.TrimRight(string(line[:end]), ".")); err == nil {
			return v, true, nil
		}
	}
}
