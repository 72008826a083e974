package dmem

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
)

// FS is what this package needs of a cgroup2 tree. Names are slash separated
// and relative to the mount, "." is the root cgroup. It exists because plain
// files take every write: dmemtest's tree refuses and ignores as the kernel
// does.
type FS interface {
	// FS opens files and directories for reading.
	fs.FS
	// OpenWrite opens an existing file for writing. Each Write of the result
	// is one write(2) at the start of the file.
	OpenWrite(name string) (io.WriteCloser, error)
	// Dir is the tree's directory, for messages and for inotify.
	Dir() string
}

// Tree is a cgroup2 mount, usually /sys/fs/cgroup of the host. Its methods may
// be called from several goroutines.
type Tree struct {
	fs   FS
	root *os.Root // nil unless made by Open

	// mu lets one SetCaps run at a time, so that a rollback cannot undo what
	// another call has set.
	mu sync.Mutex
}

// Open returns the tree mounted at dir. Nothing outside dir is read or
// written, whatever links it holds. It says nothing about the tree's kind:
// see [Tree.Available].
func Open(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cgroup tree: %w", err)
	}
	return &Tree{fs: rootFS{root.FS(), root}, root: root}, nil
}

// New returns a tree over files that the caller keeps, such as dmemtest's.
func New(files FS) *Tree { return &Tree{fs: files} }

// Close releases the directory that Open opened.
func (t *Tree) Close() error {
	if t.root == nil {
		return nil
	}
	return t.root.Close()
}

// rootFS is a directory of this machine.
type rootFS struct {
	fs.FS
	root *os.Root
}

// OpenWrite opens without creating. Truncating does nothing to a kernel file;
// it keeps a stand-in of plain files free of leftovers.
func (r rootFS) OpenWrite(name string) (io.WriteCloser, error) {
	return r.root.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
}

func (r rootFS) Dir() string { return r.root.Name() }

// maxFile bounds what is read of one file. A line is about 45 bytes, so this
// is some 20,000 regions.
const maxFile = 1 << 20

// read returns the content of a kernel file, whole or not at all.
func (t *Tree) read(name string) (string, error) {
	f, err := t.fs.Open(name)
	if err != nil {
		return "", t.errAt("read", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", t.errAt("read", name, err)
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("read %q: want at most %d bytes, have more", t.path(name), maxFile)
	}
	return string(data), nil
}

// write hands data to the kernel in one write(2).
func (t *Tree) write(name, data string) error {
	f, err := t.fs.OpenWrite(name)
	if err != nil {
		return t.errAt("open for writing", name, err)
	}
	_, err = io.WriteString(f, data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return t.errAt(fmt.Sprintf("write %q to", data), name, err)
	}
	return nil
}

// exists reports whether name is there. Only "not there" is an answer; any
// other trouble is an error.
func (t *Tree) exists(name string) (bool, error) {
	_, err := fs.Stat(t.fs, name)
	switch {
	case err == nil:
		return true, nil
	case notThere(err):
		return false, nil
	}
	return false, t.errAt("look at", name, err)
}

// path is name as an operator finds it on the machine.
func (t *Tree) path(name string) string { return path.Join(t.fs.Dir(), name) }

// errAt names the file once: the causes of os and io/fs carry a path relative
// to the tree.
func (t *Tree) errAt(op, name string, err error) error {
	return fmt.Errorf("%s %q: %w", op, t.path(name), bare(err))
}

// bare takes the path out of an error.
func bare(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

// hasField reports whether a blank separated list, as cgroup.controllers is,
// holds word.
func hasField(list, word string) bool {
	for f := range strings.FieldsSeq(list) {
		if f == word {
			return true
		}
	}
	return false
}
