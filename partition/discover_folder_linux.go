package partition

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// folder is an open directory. Its methods take single names and follow no
// link, so that nothing outside of it can be reached: one system call each,
// where walking down from the root takes one per element and link.
type folder struct {
	t      *tree
	parent *folder
	name   string   // below parent, or the path from the root
	file   *os.File // keeps fd open; nil for a folder below another
	fd     int
}

// folder opens a directory by its path from the root. Links on the way are
// followed inside the root.
func (t *tree) folder(path string) (*folder, error) {
	t.opened++
	f, err := t.root.OpenFile(path, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &folder{t: t, name: path, file: f, fd: int(f.Fd())}, nil
}

// canOpenat2 reports whether the kernel has openat2 (5.6 and later) and no
// seccomp profile refuses it.
func canOpenat2(root *os.Root) bool {
	dir, err := root.Open(".")
	if err != nil {
		return false
	}
	defer dir.Close()
	fd, err := unix.Openat2(int(dir.Fd()), ".", &unix.OpenHow{Flags: openFlags | syscall.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	if err != nil {
		return false
	}
	syscall.Close(fd)
	return true
}

const openFlags = syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NOFOLLOW

// sub opens a directory of f.
func (f *folder) sub(name string) (*folder, error) {
	fd, err := f.open(name, openFlags|syscall.O_DIRECTORY)
	if err != nil {
		return nil, f.fail("open", name, err)
	}
	return &folder{t: f.t, parent: f, name: name, fd: fd}, nil
}

func (f *folder) close() {
	if f.file != nil {
		f.file.Close()
		return
	}
	syscall.Close(f.fd)
}

// open opens one name. O_NONBLOCK keeps a named pipe from stopping discovery.
func (f *folder) open(name string, flags int) (int, error) {
	if !isElement(name) {
		return -1, syscall.EINVAL
	}
	f.t.opened++
	for {
		fd, err := syscall.Openat(f.fd, name, flags|syscall.O_NONBLOCK, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// isElement keeps names to one element of a path.
func isElement(name string) bool {
	if name == "" || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		if c == '/' || c == 0 {
			return false
		}
	}
	return true
}

// read returns the content of a file, at most limit bytes. It is valid until
// the next read of the tree.
func (f *folder) read(name string, limit int) ([]byte, error) {
	fd, err := f.open(name, openFlags)
	if err != nil {
		return nil, f.fail("open", name, err)
	}
	return f.readAll(fd, name, limit)
}

// readAll reads and closes fd.
func (f *folder) readAll(fd int, name string, limit int) ([]byte, error) {
	defer syscall.Close(fd)
	buf := f.t.buf[:limit+1]
	n := 0
	for {
		m, err := syscall.Read(fd, buf[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, f.fail("read", name, err)
		}
		n += m
		if n > limit {
			return nil, f.fail("read", name, errTooLarge)
		}
		// The kernel prints a whole attribute into one read, each ending in a
		// newline: such a read needs no second one to see the end.
		if m == 0 || buf[n-1] == '\n' && n < maxAttribute {
			return buf[:n], nil
		}
	}
}

// readIn is read for a file of a directory of f. With openat2, which can be
// told to follow no link on the way, that is one call less for each of a
// thousand link records.
func (f *folder) readIn(dir, name string, limit int) ([]byte, error) {
	if f.t.openat2 && isElement(dir) && isElement(name) {
		f.t.opened++
		path := dir + "/" + name
		fd, err := unix.Openat2(f.fd, path, &unix.OpenHow{Flags: openFlags | syscall.O_NONBLOCK, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
		if err != nil {
			return nil, f.fail("open", path, err)
		}
		return f.readAll(fd, path, limit)
	}
	s, err := f.sub(dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.read(name, limit)
}

// names lists the directory. It can be called once.
func (f *folder) names() ([]string, error) {
	var out []string
	for {
		n, err := syscall.ReadDirent(f.fd, f.t.dirbuf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, f.fail("list", "", err)
		}
		if n <= 0 {
			return out, nil
		}
		_, _, out = syscall.ParseDirent(f.t.dirbuf[:n], -1, out)
		if len(out) > maxNames {
			return nil, f.fail("list", "", errTooMany)
		}
	}
}

// fail names the file that could not be read by its path from the root.
func (f *folder) fail(op, name string, err error) error {
	path := name
	for d := f; d != nil; d = d.parent {
		if path == "" {
			path = d.name
		} else {
			path = d.name + "/" + path
		}
	}
	if errors.Is(err, syscall.ELOOP) {
		err = errLink
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
