package dmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// ErrNoCgroup is a pod or container whose cgroup does not exist: not started
// yet, or gone. It is an [fs.ErrNotExist].
var ErrNoCgroup error = noCgroupError{}

type noCgroupError struct{}

func (noCgroupError) Error() string        { return "cgroup does not exist" }
func (noCgroupError) Is(target error) bool { return target == fs.ErrNotExist }

// notThere reports whether an error says that a file or one of the directories
// above it is missing. ENODEV is what a kernel file answers whose cgroup was
// removed while it was open.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func (t *Tree) noCgroup(cgroup string) error {
	return fmt.Errorf("%q: %w", t.path(cgroup), ErrNoCgroup)
}

// How far a search for kubelet's cgroups goes. kind in docker on a host that
// is looked at as a whole is five levels deep.
const (
	searchDepth = 6
	searchDirs  = 4096
)

// FindPod returns a pod's cgroup, relative to the tree. The paths of both
// drivers are tried first; if they are missing, the kubelets with another
// cgroup root are searched for (kind, k3d). Returns an [ErrNoCgroup] if the
// pod has none.
func (t *Tree) FindPod(p Pod) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	dir, err := t.podIn([]string{KubepodsSlice, "kubepods"}, p)
	if !errors.Is(err, ErrNoCgroup) {
		return dir, err
	}
	return t.podIn(t.kubepods(), p)
}

// podIn looks for a pod below the given cgroups of all pods.
func (t *Tree) podIn(roots []string, p Pod) (string, error) {
	classes := []QoS{p.QoS}
	if p.QoS == "" {
		classes = []QoS{Guaranteed, Burstable, BestEffort}
	}
	for _, root := range roots {
		for _, q := range classes {
			dir := podUnder(root, p.UID, q)
			if ok, err := t.exists(dir); ok || err != nil {
				return dir, err
			}
		}
	}
	return "", fmt.Errorf("pod %q in %q: %w", p.UID, t.fs.Dir(), ErrNoCgroup)
}

// kubepods searches for the cgroups of all pods, nearest to the root first.
// It does not go below them, so a cgroup that a container makes for itself
// cannot pass for a pod's, and gives up after searchDirs directories.
func (t *Tree) kubepods() []string {
	var found []string
	level := []string{"."}
	for seen, depth := 0, 0; depth < searchDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			entries, err := fs.ReadDir(t.fs, dir)
			if err != nil {
				continue // a cgroup that went away meanwhile
			}
			for _, e := range entries {
				switch name := path.Join(dir, e.Name()); {
				case !e.IsDir():
				case isKubepods(e.Name()):
					found = append(found, name)
				default:
					if seen++; seen > searchDirs {
						return found
					}
					next = append(next, name)
				}
			}
		}
		level = next
	}
	return found
}

// Container is the cgroup of one container, or of the pod's sandbox.
type Container struct {
	ID     string // 64 hex digits, as in status.containerStatuses[].containerID
	Cgroup string // relative to the tree
}

// Containers lists the container cgroups below a pod's, in order of name. The
// pod's sandbox is among them.
func (t *Tree) Containers(pod string) ([]Container, error) {
	entries, err := fs.ReadDir(t.fs, pod)
	switch {
	case notThere(err):
		return nil, t.noCgroup(pod)
	case err != nil:
		return nil, t.errAt("list", pod, err)
	}
	var list []Container
	for _, e := range entries {
		if id, ok := containerID(e.Name()); ok && e.IsDir() {
			list = append(list, Container{id, path.Join(pod, e.Name())})
		}
	}
	return list, nil
}
