package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// libraryMode lets every user of every container read the library; the
	// loader maps it without asking for execute permission.
	libraryMode = 0o644
	// maxLibrary bounds what is taken for the library.
	maxLibrary = 256 << 20
	// tempPrefix names a copy that is not finished.
	tempPrefix = "." + Library + "."
	// staleAfter is how old the copy of an installer that was killed gets
	// before the next one removes it. No copy takes that long.
	staleAfter = time.Hour
)

// Install copies the hook from source, a file of the plugin's image, to its
// place below the host path ([HostLibrary]) and reports whether it had to.
//
// Running containers keep the library they have mapped: the copy is written
// beside the old file, synced and renamed over it, and the directory is
// synced. Whoever looks, at any moment and even after the installer was
// killed, finds the old file or the new one. A directory of the library's name
// that a runtime has made for a missing mount source is removed if it is
// empty.
//
// A source that is missing, is not a regular file or is no usable hook
// ([Inspect]) is an error, and so is a destination that cannot be replaced;
// then nothing has changed.
func Install(source, hostPath string) (changed bool, err error) {
	target, err := HostLibrary(hostPath)
	if err != nil {
		return false, fmt.Errorf("install hook: %w", err)
	}
	target = filepath.FromSlash(target)
	src, err := openSource(source)
	if err != nil {
		return false, fmt.Errorf("install hook: source %q: %w", source, err)
	}
	defer src.Close()
	dir := filepath.Dir(target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, fmt.Errorf("install hook: %w", err)
	}
	removeStale(dir, time.Now().Add(-staleAfter))
	same, err := sameFile(src, target)
	if err != nil {
		return false, fmt.Errorf("install hook: %w", err)
	}
	if same {
		return false, nil
	}
	if err := replaceWith(src, target); err != nil {
		return false, fmt.Errorf("install hook to %q: %w", target, err)
	}
	return true, nil
}

// openSource opens a library that is worth installing.
func openSource(name string) (*os.File, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && fi.Size() > maxLibrary {
		err = fmt.Errorf("want at most %d bytes, have %d", maxLibrary, fi.Size())
	}
	if err == nil {
		_, err = Inspect(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sameFile reports whether target is already a copy of src with the right
// mode. A target that is no regular file is not.
func sameFile(src *os.File, target string) (bool, error) {
	fi, err := os.Lstat(target)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	si, err := src.Stat()
	if err != nil {
		return false, err
	}
	if !fi.Mode().IsRegular() || fi.Mode() != libraryMode || fi.Size() != si.Size() {
		return false, nil
	}
	t, err := os.Open(target)
	if err != nil {
		return false, err
	}
	defer t.Close()
	a, b := io.NewSectionReader(src, 0, si.Size()), io.NewSectionReader(t, 0, fi.Size())
	var bufA, bufB [64 << 10]byte
	for {
		n, errA := io.ReadFull(a, bufA[:])
		m, errB := io.ReadFull(b, bufB[:])
		if !bytes.Equal(bufA[:n], bufB[:m]) {
			return false, nil
		}
		if errA == io.EOF || errA == io.ErrUnexpectedEOF {
			return true, nil
		}
		if err := errors.Join(errA, errB); err != nil {
			return false, err
		}
	}
}

// replaceWith puts a copy of src at target in one step.
func replaceWith(src *os.File, target string) error {
	dir := filepath.Dir(target)
	tmp, err := copyBeside(src, dir)
	if err != nil {
		return err
	}
	// Removes an empty directory only; a file is replaced by the rename.
	if fi, lerr := os.Lstat(target); lerr == nil && fi.IsDir() {
		err = os.Remove(target)
	}
	if err == nil {
		err = os.Rename(tmp, target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return syncDir(dir)
}

// copyBeside writes a whole, synced copy of src into dir and returns its name.
// It leaves nothing behind when it fails.
func copyBeside(src *os.File, dir string) (string, error) {
	si, err := src.Stat()
	if err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(tmp, io.NewSectionReader(src, 0, si.Size()))
	if err == nil && n != si.Size() {
		err = fmt.Errorf("source became shorter: want %d bytes, have %d", si.Size(), n)
	}
	if err == nil {
		err = tmp.Chmod(libraryMode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}

// syncDir makes a rename last over a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeStale removes copies that were begun before the given time. Another
// installer's own, still being written, is younger.
func removeStale(dir string, before time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil && fi.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
