//go:build !linux

package partition

import (
	"io"
	"io/fs"
	"os"
)

// folder is an open directory. Outside Linux there is no sysfs, only a copy of
// one that somebody looks at: os.Root alone keeps it inside.
type folder struct {
	t    *tree
	root *os.Root
	path string
}

func canOpenat2(*os.Root) bool { return false }

func (t *tree) folder(path string) (*folder, error) {
	t.opened++
	r, err := t.root.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &folder{t: t, root: r, path: path}, nil
}

func (f *folder) sub(name string) (*folder, error) {
	f.t.opened++
	if info, err := f.root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "open", Path: f.path + "/" + name, Err: errLink}
	}
	r, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &folder{t: f.t, root: r, path: f.path + "/" + name}, nil
}

func (f *folder) close() { f.root.Close() }

func (f *folder) read(name string, limit int) ([]byte, error) {
	f.t.opened++
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: f.path + "/" + name, Err: fs.ErrInvalid}
	}
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	n, err := io.ReadFull(file, f.t.buf[:limit+1])
	switch {
	case err == nil:
		return nil, &fs.PathError{Op: "read", Path: f.path + "/" + name, Err: errTooLarge}
	case err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	}
	return f.t.buf[:n], nil
}

func (f *folder) readIn(dir, name string, limit int) ([]byte, error) {
	s, err := f.sub(dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.read(name, limit)
}

func (f *folder) names() ([]string, error) {
	d, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames + 1)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case len(names) > maxNames:
		return nil, &fs.PathError{Op: "list", Path: f.path, Err: errTooMany}
	}
	return names, nil
}
