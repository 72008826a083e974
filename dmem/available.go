package dmem

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// KubepodsSlice is the cgroup of all pods under kubelet's systemd driver.
const KubepodsSlice = "kubepods.slice"

const (
	controllersFile = "cgroup.controllers"
	subtreeFile     = "cgroup.subtree_control"
	currentFile     = "dmem.current"
	maxFileName     = "dmem.max"
	peakFile        = "dmem.peak"
)

// Why a node cannot limit VRAM with dmem. All three are also
// [ErrNotSupported]: the node stays as it is until someone reboots or
// reconfigures it.
var (
	ErrNotSupported = errors.New("dmem is not supported")
	ErrNotCgroup2   = fmt.Errorf("%w: not a cgroup v2 mount", ErrNotSupported)
	ErrNoController = fmt.Errorf("%w: kernel has no dmem controller (6.14 or newer with CONFIG_CGROUP_DMEM)", ErrNotSupported)
	ErrNoKubepods   = fmt.Errorf("%w: no kubepods.slice (systemd cgroup driver)", ErrNotSupported)
)

// ErrNotDelegated is what every [NotDelegatedError] is.
var ErrNotDelegated = errors.New("dmem is not delegated")

// NotDelegatedError says that a cgroup cannot have limits of its own, because
// the controller is not enabled in one above it and could not be enabled:
// systemd does not know dmem (systemd#37079), and the container runtime that
// usually enables it did not.
type NotDelegatedError struct {
	Cgroup string // the cgroup that was to be limited
	Dir    string // the first directory from the root that lacks +dmem
	Err    error  // why it could not be written; nil if the write changed nothing
}

// Error names the directory to look at.
func (e *NotDelegatedError) Error() string {
	s := fmt.Sprintf("dmem limit of %q: %v: %s of %q lacks dmem", e.Cgroup, ErrNotDelegated, subtreeFile, e.Dir)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes every NotDelegatedError an [ErrNotDelegated].
func (e *NotDelegatedError) Is(target error) bool { return target == ErrNotDelegated }

// Unwrap is the failed write.
func (e *NotDelegatedError) Unwrap() error { return e.Err }

// Available reports by reading alone whether this node can limit the VRAM of
// its pods: nil, or an error that is [ErrNotCgroup2], [ErrNoController] or
// [ErrNoKubepods]. It goes by the files and not by the kernel's version. Any
// other error means that it could not be told.
func (t *Tree) Available() error {
	controllers, err := t.read(controllersFile)
	switch {
	case notThere(err):
		return fmt.Errorf("%w: no %s", ErrNotCgroup2, t.path(controllersFile))
	case err != nil:
		return err
	case !hasField(controllers, "dmem"):
		return fmt.Errorf("%w: %s lists %q", ErrNoController, t.path(controllersFile), strings.TrimSpace(controllers))
	}
	ok, err := t.exists(KubepodsSlice)
	if err == nil && !ok {
		err = fmt.Errorf("%w: no %s", ErrNoKubepods, t.path(KubepodsSlice))
	}
	return err
}

// Prepare is [Tree.Available] and then makes sure that limits can really be
// set below kubepods.slice: the controller is enabled there, by writing +dmem
// into the cgroups above it if needed, and dmem.max opens for writing. A mount
// that is read-only fails here instead of when the first pod starts.
//
// Enabling a controller is not undone: other pods' limits would go with it.
func (t *Tree) Prepare() error {
	if err := t.Available(); err != nil {
		return err
	}
	if err := t.enable(KubepodsSlice); err != nil {
		return err
	}
	name := path.Join(KubepodsSlice, maxFileName)
	f, err := t.fs.OpenWrite(name)
	if err != nil {
		return t.errAt("open for writing", name, err)
	}
	return f.Close()
}

// enable makes sure that cgroup has dmem files. The controller must be in
// cgroup.subtree_control of every cgroup above, and can be put into one only
// after the one above it, so it works from the root down.
func (t *Tree) enable(cgroup string) error {
	if ok, err := t.exists(path.Join(cgroup, maxFileName)); ok || err != nil {
		return err
	}
	if ok, err := t.exists(cgroup); err != nil {
		return err
	} else if !ok {
		return t.noCgroup(cgroup)
	}
	lacks := ""
	for _, dir := range above(cgroup) {
		name := path.Join(dir, subtreeFile)
		had, err := t.delegates(name)
		if err != nil {
			return &NotDelegatedError{t.path(cgroup), t.path(dir), err}
		}
		if had {
			continue
		}
		if err := t.write(name, "+dmem"); err != nil {
			return &NotDelegatedError{t.path(cgroup), t.path(dir), err}
		}
		if has, err := t.delegates(name); err != nil || !has {
			return &NotDelegatedError{t.path(cgroup), t.path(dir), err}
		}
		if lacks == "" {
			lacks = dir
		}
	}
	ok, err := t.exists(path.Join(cgroup, maxFileName))
	if err == nil && !ok {
		// Every cgroup claims to delegate and yet there is no file: the parent
		// is the one to look at, or the first that had to be written.
		if lacks == "" {
			lacks = path.Dir(cgroup)
		}
		err = &NotDelegatedError{t.path(cgroup), t.path(lacks), fmt.Errorf("no %s", path.Join(t.path(cgroup), maxFileName))}
	}
	return err
}

// delegates reports whether a cgroup.subtree_control lists dmem.
func (t *Tree) delegates(subtree string) (bool, error) {
	list, err := t.read(subtree)
	return hasField(list, "dmem"), err
}

// above lists the cgroups from the root to the parent of cgroup.
func above(cgroup string) []string {
	var dirs []string
	for i, c := range cgroup {
		if c == '/' {
			dirs = append(dirs, cgroup[:i])
		}
	}
	return append([]string{"."}, dirs...)
}
