package monitor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/dmem"
)

// readOnly is a cgroup2 mount that dmem can only read: a monitor must not be
// able to change a limit. The kernel makes no links there.
type readOnly struct {
	files fs.FS
	dir   string
}

// Open implements fs.FS. Peaks are of no use here, and would be a third of the
// work.
func (r readOnly) Open(name string) (fs.File, error) {
	switch path.Base(name) {
	case "dmem.peak":
		return emptyFile{name}, nil
	case "dmem.current", "dmem.max":
		return openPlain(r.files, r.dir, name)
	}
	return r.files.Open(name)
}

// Stat implements fs.StatFS.
func (r readOnly) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.files, name) }

// ReadDir implements fs.ReadDirFS.
func (r readOnly) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.files, name) }

// emptyFile is a file without lines.
type emptyFile struct{ name string }

func (emptyFile) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyFile) Close() error             { return nil }
func (f emptyFile) Stat() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrInvalid}
}

// OpenWrite implements dmem.FS.
func (r readOnly) OpenWrite(name string) (io.WriteCloser, error) {
	return nil, &fs.PathError{Op: "write", Path: name, Err: fs.ErrPermission}
}

// Dir implements dmem.FS.
func (r readOnly) Dir() string { return r.dir }

// cgroups finds the cgroups of pods and containers, and remembers them: where
// kubelet has a cgroup root of its own, finding one takes a walk over the tree.
type cgroups struct {
	files readOnly
	tree  *dmem.Tree

	mu   sync.Mutex // for pods
	pods map[types.UID]podCgroup
}

type podCgroup struct {
	dir        string
	containers map[string]string // by id
}

func newCgroups(dir string) *cgroups {
	files := readOnly{os.DirFS(dir), dir}
	return &cgroups{files: files, tree: dmem.New(files), pods: make(map[types.UID]podCgroup)}
}

// mirrorUID is the annotation with the uid kubelet knows a static pod by.
const mirrorUID = "kubernetes.io/config.hash"

// find returns the cgroup of a pod with those of its containers, at least of
// the given one.
func (c *cgroups) find(pod *corev1.Pod, id string) (known podCgroup, err error) {
	c.mu.Lock()
	known = c.pods[pod.UID]
	c.mu.Unlock()
	if known.containers[id] != "" {
		return known, nil
	}
	p := dmem.Pod{UID: string(pod.UID), QoS: dmem.QoS(pod.Status.QOSClass)}
	if uid, ok := pod.Annotations[mirrorUID]; ok {
		p.UID = uid
	}
	known = podCgroup{containers: make(map[string]string)}
	if known.dir, err = c.tree.FindPod(p); err != nil {
		return podCgroup{}, err
	}
	list, err := c.tree.Containers(known.dir)
	if err != nil {
		return podCgroup{}, err
	}
	for _, ctr := range list {
		known.containers[ctr.ID] = ctr.Cgroup
	}
	c.mu.Lock()
	c.pods[pod.UID] = known
	c.mu.Unlock()
	if known.containers[id] == "" {
		return podCgroup{}, fmt.Errorf("container %.80q in %q: %w", id, known.dir, dmem.ErrNoCgroup)
	}
	return known, nil
}

// forget drops what is known about a pod, if one of its cgroups is gone.
func (c *cgroups) forget(uid types.UID, dir string) {
	if _, err := fs.Stat(c.files, dir); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, uid)
}

// keep drops what is known about all pods but those.
func (c *cgroups) keep(live map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.pods, func(uid types.UID, _ podCgroup) bool { return !live[uid] })
}

// regions lists the memory that the kernel counts, none where it has no dmem
// controller.
func (c *cgroups) regions() (map[string]bool, error) {
	list, err := c.tree.Regions()
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := fs.Stat(c.files, "."); err != nil {
			return nil, fmt.Errorf("cgroup tree %q: %w", c.files.dir, cause(err))
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	regions := make(map[string]bool, len(list))
	for _, r := range list {
		regions[r.Name] = true
	}
	return regions, nil
}

// usage reads a cgroup. It is nil where the controller is not enabled for the
// cgroup, or the cgroup is gone.
func (c *cgroups) usage(dir string) ([]dmem.Usage, error) {
	list, err := c.tree.Usage(dir)
	if errors.Is(err, dmem.ErrNoCgroup) {
		return nil, nil
	}
	return list, err
}

// vramOf is what a cgroup uses of a region, and its limit there.
func vramOf(usage []dmem.Usage, region string) (bytes uint64, limit dmem.Limit, ok bool) {
	i := slices.IndexFunc(usage, func(u dmem.Usage) bool { return u.Region == region })
	switch {
	case i < 0:
		return 0, dmem.Max, false
	case usage[i].Max == nil:
		return usage[i].Current, dmem.Max, true
	}
	return usage[i].Current, *usage[i].Max, true
}
