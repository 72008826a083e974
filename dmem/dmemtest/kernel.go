package dmemtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Below is what a kernel does with a limit below the usage.
type Below int

// The known ways. The zero value is that of the released kernels.
const (
	Ignore Below = iota // the write succeeds, the old limit stays
	Refuse              // EBUSY
	Take                // the limit holds for new allocations
)

// Options choose a kernel. The zero value is Linux 6.14: a limit below the
// usage is ignored, several lines in one write are applied one by one, and a
// region without a value is an oops.
type Options struct {
	Below Below
	// OneRegion is a kernel that takes one region per write and checks that it
	// has a value.
	OneRegion bool
	// Peak is a kernel with dmem.peak.
	Peak bool
	// OnWrite is called before each write with the file and the data; an error
	// is the write's result and the kernel does not see it. It may call the
	// Kernel's other methods.
	OnWrite func(name, data string) error
}

// Write is one write(2).
type Write struct{ Name, Data string }

// Kernel is the tree. Its methods may be called from several goroutines.
type Kernel struct {
	fs.FS
	dir  string
	root *os.Root
	o    Options

	mu       sync.Mutex
	regions  []region
	cgroups  map[string]*cgroup
	writes   []Write
	readOnly bool
	oops     bool
}

type region struct {
	name  string
	bytes uint64
}

// cgroup is the state behind one directory. Regions that are missing from a
// map have the default: no limit, nothing in use.
type cgroup struct {
	delegates bool // +dmem in cgroup.subtree_control
	processes bool
	limit     map[string]uint64
	current   map[string]uint64
	peak      map[string]uint64
}

// New makes a root cgroup in dir, an empty directory, with the controller
// present and not enabled for anything below.
func New(dir string, o Options) (*Kernel, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	k := &Kernel{FS: root.FS(), dir: dir, root: root, o: o, cgroups: make(map[string]*cgroup)}
	if err := k.populate(".", dir, true); err != nil {
		root.Close()
		return nil, err
	}
	k.cgroups["."] = newCgroup()
	return k, nil
}

func newCgroup() *cgroup {
	return &cgroup{limit: map[string]uint64{}, current: map[string]uint64{}, peak: map[string]uint64{}}
}

// Dir is the directory of the tree.
func (k *Kernel) Dir() string { return k.dir }

// Close releases the directory. It removes nothing.
func (k *Kernel) Close() error { return k.root.Close() }

// otherControllers are in every list beside dmem.
const otherControllers = "cpuset cpu io memory hugetlb pids"

// populate writes the files of a new cgroup into dir, which is not yet in its
// place unless it is the root.
func (k *Kernel) populate(name, dir string, dmem bool) error {
	controllers, files := otherControllers, map[string]string{"cgroup.procs": ""}
	if dmem {
		controllers += " dmem"
	}
	files["cgroup.controllers"] = controllers + "\n"
	files["cgroup.subtree_control"] = otherControllers + "\n"
	for base, content := range files {
		if err := os.WriteFile(filepath.Join(dir, base), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if !dmem {
		return nil
	}
	return k.writeDmem(name, dir, newCgroup())
}

// writeDmem brings the controller's files of one cgroup up to date.
func (k *Kernel) writeDmem(name, dir string, c *cgroup) error {
	show := func(value func(r region) string) string {
		var b strings.Builder
		for _, r := range k.regions {
			fmt.Fprintf(&b, "%s %s\n", r.name, value(r))
		}
		return b.String()
	}
	number := func(m map[string]uint64) func(region) string {
		return func(r region) string { return fmt.Sprint(m[r.name]) }
	}
	files := map[string]string{"dmem.current": show(number(c.current))}
	if name == "." {
		files["dmem.capacity"] = show(func(r region) string { return fmt.Sprint(r.bytes) })
	} else {
		zero := number(nil)
		files["dmem.min"], files["dmem.low"] = show(zero), show(zero)
		files["dmem.max"] = show(func(r region) string {
			if limit, ok := c.limit[r.name]; ok {
				return fmt.Sprint(limit)
			}
			return "max"
		})
		if k.o.Peak {
			files["dmem.peak"] = show(number(c.peak))
		}
	}
	for base, content := range files {
		if err := replace(filepath.Join(dir, base), content); err != nil {
			return err
		}
	}
	return nil
}

// replace swaps a file's content so that no reader sees half of it.
func replace(name, content string) error {
	tmp := name + ".new"
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, name)
}

func (k *Kernel) host(name string) string { return filepath.Join(k.dir, filepath.FromSlash(name)) }

// AddRegion registers a region, as a driver does when it binds to a device.
func (k *Kernel) AddRegion(name string, bytes uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.regions = append(k.regions, region{name, bytes})
	return k.refresh()
}

// RemoveRegion unregisters a region; its limits and usage are gone.
func (k *Kernel) RemoveRegion(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.regions = slices.DeleteFunc(k.regions, func(r region) bool { return r.name == name })
	for _, c := range k.cgroups {
		delete(c.limit, name)
		delete(c.current, name)
		delete(c.peak, name)
	}
	return k.refresh()
}

// refresh rewrites the controller's files everywhere. k.mu is held.
func (k *Kernel) refresh() error {
	for name, c := range k.cgroups {
		if k.controlled(name) {
			if err := k.writeDmem(name, k.host(name), c); err != nil {
				return err
			}
		}
	}
	return nil
}

// controlled reports whether a cgroup has the controller: it is the root, or
// its parent delegates. k.mu is held.
func (k *Kernel) controlled(name string) bool {
	return name == "." || k.cgroups[path.Dir(name)].delegates
}

// Mkdir makes a cgroup and those above it that are missing. Its files are
// there as soon as it is.
func (k *Kernel) Mkdir(name string) error {
	if !fs.ValidPath(name) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrInvalid}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mkdir(name)
}

func (k *Kernel) mkdir(name string) error {
	if k.cgroups[name] != nil {
		return nil
	}
	if err := k.mkdir(path.Dir(name)); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(k.dir, ".cgroup-")
	if err != nil {
		return err
	}
	if err := k.populate(name, tmp, k.controlled(name)); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := errors.Join(os.Chmod(tmp, 0o755), os.Rename(tmp, k.host(name))); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	k.cgroups[name] = newCgroup()
	return nil
}

// Remove removes a cgroup with everything below it.
func (k *Kernel) Remove(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other := range k.cgroups {
		if other == name || strings.HasPrefix(other, name+"/") {
			delete(k.cgroups, other)
		}
	}
	return os.RemoveAll(k.host(name))
}

// Delegate enables the controller in a cgroup and in those above it, as runc
// does for the path of each container.
func (k *Kernel) Delegate(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name != "." {
		for i, c := range name {
			if c == '/' {
				if err := k.delegate(name[:i]); err != nil {
					return err
				}
			}
		}
		if err := k.delegate("."); err != nil {
			return err
		}
	}
	return k.delegate(name)
}

func (k *Kernel) delegate(name string) error {
	c := k.cgroups[name]
	if c == nil {
		return &fs.PathError{Op: "delegate", Path: name, Err: fs.ErrNotExist}
	}
	if c.delegates {
		return nil
	}
	c.delegates = true
	if err := replace(filepath.Join(k.host(name), "cgroup.subtree_control"), otherControllers+" dmem\n"); err != nil {
		return err
	}
	for child, cc := range k.cgroups {
		if child == "." || path.Dir(child) != name {
			continue
		}
		if err := replace(filepath.Join(k.host(child), "cgroup.controllers"), otherControllers+" dmem\n"); err != nil {
			return err
		}
		if err := k.writeDmem(child, k.host(child), cc); err != nil {
			return err
		}
	}
	return nil
}

// SetProcesses says whether a cgroup has processes of its own. One that has
// cannot start to delegate, except the root.
func (k *Kernel) SetProcesses(name string, has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cgroups[name].processes = has
}

// SetReadOnly makes every open for writing fail with EROFS, as on a read-only
// mount.
func (k *Kernel) SetReadOnly(ro bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readOnly = ro
}

// Writes lists the writes so far, in order, refused ones included.
func (k *Kernel) Writes() []Write {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.writes)
}

// Oops reports whether a write has crashed the kernel. Every later write fails
// with EIO.
func (k *Kernel) Oops() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.oops
}

// Charge is an allocation of a process in the cgroup. One over the limit of
// the cgroup or of one above it fails with EAGAIN and changes nothing; a
// negative one frees.
func (k *Kernel) Charge(name, region string, bytes int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var chain []string
	for dir := name; ; dir = path.Dir(dir) {
		c := k.cgroups[dir]
		if c == nil {
			return &fs.PathError{Op: "charge", Path: dir, Err: fs.ErrNotExist}
		}
		if k.controlled(dir) {
			limit, ok := c.limit[region]
			if bytes > 0 && ok && c.current[region]+uint64(bytes) > limit {
				return syscall.EAGAIN
			}
			chain = append(chain, dir)
		}
		if dir == "." {
			break
		}
	}
	for _, dir := range chain {
		c := k.cgroups[dir]
		c.current[region] += uint64(bytes)
		c.peak[region] = max(c.peak[region], c.current[region])
		if err := k.writeDmem(dir, k.host(dir), c); err != nil {
			return err
		}
	}
	return nil
}

// OpenWrite opens a file of the tree; what is written goes to the kernel.
func (k *Kernel) OpenWrite(name string) (io.WriteCloser, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.readOnly {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	if _, err := k.root.Stat(name); err != nil {
		return nil, err
	}
	return &file{k, name}, nil
}

// file is an open file of the tree. Every write starts at offset 0, as far as
// the kernel is concerned.
type file struct {
	k    *Kernel
	name string
}

func (f *file) Close() error { return nil }

func (f *file) Write(p []byte) (int, error) {
	if err := f.k.write(f.name, string(p)); err != nil {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: err}
	}
	return len(p), nil
}
