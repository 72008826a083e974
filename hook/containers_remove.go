package hook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// removeTime bounds the removal of one tree: whoever waits for it has other
	// pods to look after. What is left then is for the next time.
	removeTime = 10 * time.Second
	// removeBatch is how many names are read at once.
	removeBatch = 256
)

// removeTree removes an entry of root with all below it, which a container has
// made. The container may have nested directories deeper than a process may
// have files open, and [os.Root.RemoveAll] keeps one open for each level. So
// directories that are not empty are moved up first, and only a few files are
// open at any time. An entry that is not there is no error.
func removeTree(root *os.Root, name string, until time.Time) error {
	err := root.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, statErr := root.Lstat(name); statErr != nil || !info.IsDir() {
		return err
	}
	top, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	err = errors.Join(emptyTree(top, until), top.Close())
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return root.Remove(name)
}

// emptyTree removes all that is below a directory.
func emptyTree(top *os.Root, until time.Time) error {
	for {
		names, err := someNames(top, ".")
		if err != nil || len(names) == 0 {
			return err
		}
		var errs []error
		for _, name := range names {
			if time.Now().After(until) {
				return errors.New("not empty yet, and there is no time left")
			}
			if err := flatten(top, name); err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == len(names) {
			return errors.Join(errs...)
		}
	}
}

// flatten removes an entry of top, or what is in it and moves the directories
// among that up into top. An error is no progress at all.
func flatten(top *os.Root, name string) error {
	err := top.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, statErr := top.Lstat(name); statErr != nil || !info.IsDir() {
		return err
	}
	names, err := someNames(top, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, child := range names {
		path := filepath.Join(name, child)
		if top.Remove(path) == nil {
			continue
		}
		if err := top.Rename(path, "."+strconv.FormatUint(rand.Uint64(), 36)); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) < len(names) {
		return nil
	}
	return errors.Join(append(errs, top.Remove(name))...)
}

// someNames are the first names in a directory. Opened as a root it is a
// directory for sure: a pipe in its place would have to be waited for.
func someNames(parent *os.Root, name string) ([]string, error) {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(removeBatch)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
