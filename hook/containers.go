package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Modes of the directories. The processes of a container may run as any user,
// so its own directory takes everyone; the one above can be passed through but
// not listed, and the names below hold a random uid.
const (
	containersMode = 0o711
	containerMode  = 0o777
)

// Containers are the directories with the hook's accounting files, one for
// each container with a slice, below <host path>/vgpu/containers.
//
// The hook copies a container's limits into the file when the first process
// makes it, and later processes go by the file: a directory must be fresh for
// each new container. What is inside belongs to the container and may be
// anything; nothing here follows a link out of it, and removing it takes a few
// open files and 10 s at most, then it is an error and can be tried again.
type Containers struct{ root *os.Root }

// OpenContainers opens the directories below a host path, "" being
// [DefaultHostPath], and makes the one that holds them if needed.
func OpenContainers(hostPath string) (*Containers, error) {
	dir, err := vgpuDir(hostPath)
	if err != nil {
		return nil, err
	}
	dir = filepath.FromSlash(path.Join(dir, containersDir))
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("hook directories: %w", err)
	}
	if err := os.Mkdir(dir, containersMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("hook directories: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("hook directories: %w", err)
	}
	return &Containers{root}, nil
}

// Close releases the directory.
func (c *Containers) Close() error { return c.root.Close() }

// Create makes a container's directory, the source of the mount that [Inject]
// describes. One that is there already is left alone: kubelet may ask again
// for a container that runs.
func (c *Containers) Create(podUID, container string) error {
	name, err := containerDirName(podUID, container)
	if err != nil {
		return err
	}
	err = c.root.Mkdir(name, 0o700)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = nil
		if fi, serr := c.root.Lstat(name); serr != nil || !fi.IsDir() {
			err = errors.Join(fmt.Errorf("%q: want a directory", name), serr)
		}
	}
	if err == nil {
		// Not through Mkdir, whose mode the umask cuts; and again for one that
		// an interrupted call has left half made.
		err = c.root.Chmod(name, containerMode)
	}
	if err != nil && made {
		err = errors.Join(err, c.root.Remove(name))
	}
	if err != nil {
		return fmt.Errorf("make hook directory: %w", err)
	}
	return nil
}

// Reset empties a container's directory before the container starts again, so
// that it does not go by the limits and processes of its last run. A directory
// that is not there is no error.
func (c *Containers) Reset(podUID, container string) error {
	name, err := containerDirName(podUID, container)
	if err != nil {
		return err
	}
	dir, err := c.root.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(emptyTree(dir, time.Now().Add(removeTime)), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("empty hook directory: %w", err)
	}
	return nil
}

// Remove removes the directories of a pod. A pod without any is no error.
func (c *Containers) Remove(podUID string) error {
	if !plainName(podUID) {
		return fmt.Errorf("remove hook directories: pod uid: want 1 to %d letters, digits and dashes, have %q", maxName, podUID)
	}
	_, err := c.removeIf(func(uid string, _ fs.DirEntry) bool { return uid == podUID })
	return err
}

// Sweep removes the directories of pods that are gone: those for which live
// answers false and that were last changed before the given time, which
// spares a pod that was admitted after the caller looked at the API. It
// returns the pods whose directories were removed. Entries that are not of
// this package's making are left alone, and one that cannot be removed does
// not keep the others.
func (c *Containers) Sweep(live func(podUID string) bool, before time.Time) ([]string, error) {
	return c.removeIf(func(uid string, e fs.DirEntry) bool {
		fi, err := e.Info()
		return err == nil && fi.ModTime().Before(before) && !live(uid)
	})
}

func (c *Containers) removeIf(remove func(podUID string, e fs.DirEntry) bool) ([]string, error) {
	entries, err := fs.ReadDir(c.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("remove hook directories: %w", err)
	}
	var pods []string
	var errs []error
	for _, e := range entries {
		uid, container, ok := strings.Cut(e.Name(), "_")
		if !ok || !plainName(uid) || !plainName(container) || !e.IsDir() || !remove(uid, e) {
			continue
		}
		if err := removeTree(c.root, e.Name(), time.Now().Add(removeTime)); err != nil {
			errs = append(errs, err)
		} else if len(pods) == 0 || pods[len(pods)-1] != uid {
			pods = append(pods, uid)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return pods, fmt.Errorf("remove hook directories: %w", err)
	}
	return pods, nil
}
