package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Limits of the kernel (fs/namei.c, include/uapi/linux/limits.h) that hold for
// a walk through an image as well.
const (
	maxLinks = 40
	maxPath  = 4096
	maxName  = 255
)

// unknownError is something that cannot be told about an image, as opposed to
// a failure to read it: the answer will be the same next time.
type unknownError struct{ detail string }

func (e *unknownError) Error() string { return e.detail }

func unknown(format string, args ...any) error { return &unknownError{fmt.Sprintf(format, args...)} }

// tree is the files of an image. Paths are absolute, and links lead where they
// would with the image as the root directory.
type tree struct {
	fsys fs.ReadLinkFS
	// mounts are the paths on which a volume will lie, so that the image's own
	// files below are never used.
	mounts []string
}

// resolve follows a path to what is there. The result's path has no links in
// it. Something that is not there is an [fs.ErrNotExist].
func (t tree) resolve(name string) (string, fs.FileInfo, error) {
	if !path.IsAbs(name) || len(name) > maxPath {
		return "", nil, unknown("%q: want an absolute path of at most %d bytes", name, maxPath)
	}
	at, info := "/", fs.FileInfo(nil) // nil: not looked at
	rest, links := name, 0
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch part {
		case "", ".":
			continue
		case "..":
			at, info = path.Dir(at), nil
			continue
		}
		next := path.Join(at, part)
		fi, err := t.lstat(next)
		if err != nil {
			return "", nil, err
		}
		if fi.Mode()&fs.ModeSymlink == 0 {
			if rest != "" && !fi.IsDir() {
				return "", nil, fmt.Errorf("%q: %w", next, fs.ErrNotExist) // ENOTDIR
			}
			at, info = next, fi
			continue
		}
		if links++; links > maxLinks {
			return "", nil, unknown("%q: more than %d symbolic links", name, maxLinks)
		}
		target, err := t.fsys.ReadLink(next[1:])
		if err != nil {
			return "", nil, err
		}
		if rest = target + "/" + rest; len(rest) > maxPath {
			return "", nil, unknown("%q: symbolic links make a path of more than %d bytes", name, maxPath)
		}
		if path.IsAbs(target) {
			at, info = "/", nil
		}
	}
	if info == nil && at != "/" {
		fi, err := t.lstat(at)
		if err != nil {
			return "", nil, err
		}
		info = fi
	}
	return at, info, nil
}

// lstat looks at a path without links.
func (t tree) lstat(name string) (fs.FileInfo, error) {
	for _, m := range t.mounts {
		if name == m || strings.HasPrefix(name, m+"/") {
			return nil, unknown("%q is on the volume at %q", name, m)
		}
	}
	if len(path.Base(name)) > maxName {
		return nil, fmt.Errorf("%q: %w", name, fs.ErrNotExist)
	}
	if !fs.ValidPath(name[1:]) {
		return nil, unknown("%q: not a valid path", name)
	}
	return t.fsys.Lstat(name[1:])
}

// file is an open regular file of the image.
type file struct {
	io.ReaderAt
	io.Closer
	path string
	info fs.FileInfo
}

// open opens a regular file. Devices and pipes are never opened.
func (t tree) open(name string) (*file, error) {
	at, info, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	if info == nil || !info.Mode().IsRegular() {
		return nil, unknown("%q: not a regular file", name)
	}
	f, err := t.fsys.Open(at[1:])
	if err != nil {
		return nil, err
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%q: file cannot be read at an offset", at), f.Close())
	}
	return &file{r, f, at, info}, nil
}

// head reads up to n bytes from the beginning.
func (f *file) head(n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:got], err
}
