package monitor

import (
	"io"
	"io/fs"
	"syscall"
)

// plainFile is a file that is read once, from its start to its end. For an
// os.File the kernel is asked four things more, to learn that nobody can wait
// for it, and a collection reads many hundred.
type plainFile struct {
	fd   int
	name string
}

// openPlain opens a file of a directory.
func openPlain(_ fs.FS, dir, name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	for {
		fd, err := syscall.Open(dir+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		switch err {
		case nil:
			return &plainFile{fd, name}, nil
		case syscall.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// Read implements fs.File.
func (f *plainFile) Read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(f.fd, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Stat implements fs.File; nobody asks.
func (f *plainFile) Stat() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrInvalid}
}

// Close implements fs.File.
func (f *plainFile) Close() error { return syscall.Close(f.fd) }
