package monitor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/dmem"
)

// readOnly is a cgroup2 mount that dmem can only read: a monitor must not be
// able to change a limit. The kernel makes no links there.
type readOnly struct {
	fs.FS
	dir string
}

// Open implements fs.FS. Peaks are of no use here, and reading them would be a
// third of the work.
func (r readOnly) Open(name string) (fs.File, error) {
	if path.Base(name) == "dmem.peak" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return r.FS.Open(name)
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

// find returns the cgroups of a pod and of one of its containers.
func (c *cgroups) find(pod *corev1.Pod, id string) (podDir, dir string, err error) {
	c.mu.Lock()
	known := c.pods[pod.UID]
	c.mu.Unlock()
	if dir, ok := known.containers[id]; ok {
		return known.dir, dir, nil
	}
	p := dmem.Pod{UID: string(pod.UID), QoS: dmem.QoS(pod.Status.QOSClass)}
	if uid, ok := pod.Annotations[mirrorUID]; ok {
		p.UID = uid
	}
	known = podCgroup{containers: make(map[string]string)}
	if known.dir, err = c.tree.FindPod(p); err != nil {
		return "", "", err
	}
	list, err := c.tree.Containers(known.dir)
	if err != nil {
		return "", "", err
	}
	for _, ctr := range list {
		known.containers[ctr.ID] = ctr.Cgroup
	}
	c.mu.Lock()
	c.pods[pod.UID] = known
	c.mu.Unlock()
	dir, ok := known.containers[id]
	if !ok {
		return "", "", fmt.Errorf("container %.80q in %q: %w", id, known.dir, dmem.ErrNoCgroup)
	}
	return known.dir, dir, nil
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

// vram is what a cgroup uses of one region.
type vram struct {
	bytes uint64
	limit dmem.Limit // dmem.Max without one
}

// usage reads a cgroup by region. It is nil where the controller is not
// enabled for the cgroup, or the cgroup is gone.
func (c *cgroups) usage(dir string) (map[string]vram, error) {
	list, err := c.tree.Usage(dir)
	if errors.Is(err, dmem.ErrNoCgroup) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byRegion := make(map[string]vram, len(list))
	for _, u := range list {
		v := vram{bytes: u.Current, limit: dmem.Max}
		if u.Max != nil {
			v.limit = *u.Max
		}
		byRegion[u.Region] = v
	}
	return byRegion, nil
}
