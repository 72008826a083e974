package plugin

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/image"
)

// imageTime bounds a look into one image, which goes on in the background when
// it takes longer.
const imageTime = 8 * time.Second

// hookGate decides which containers load the memory hook. Images are only
// looked at where the node refuses slices whose image cannot load it.
type hookGate struct {
	library string      // the hook on the host
	host    elf.Machine // whose libraries programs here load, EM_NONE if not known
	images  *image.Checker
	store   image.Store
	owned   bool // the store is closed with the gate

	mu   sync.Mutex
	seen fs.FileInfo // of the library need was read from
	need hook.Requirements
}

func newHookGate(cfg Config, deps Deps) (*hookGate, error) {
	library, err := hook.HostLibrary(cfg.HookPath)
	if err != nil {
		return nil, err
	}
	g := &hookGate{library: library, host: hostMachine()}
	if !cfg.MuslFailClosed {
		return g, nil
	}
	switch {
	case deps.Images != nil:
		g.store = deps.Images
	case cfg.CtrPath != "":
		g.store = image.Ctr{Path: cfg.CtrPath, Socket: cfg.ContainerdSocket}
	default:
		if g.store, err = image.OpenContainerd(image.ContainerdOptions{Socket: cfg.ContainerdSocket}); err != nil {
			return nil, err
		}
		g.owned = true
	}
	g.images = image.NewChecker(g.store, image.Options{Now: deps.Now})
	return g, nil
}

// close ends looks into images and their pulls.
func (g *hookGate) close() error {
	if g.images == nil {
		return nil
	}
	g.images.Close()
	if closer, ok := g.store.(interface{ Close() error }); ok && g.owned {
		return closer.Close()
	}
	return nil
}

// decide sets HookLeftOut of the pod's containers, or refuses the pod: all
// containers with a slice are looked at when the first is served, so that none
// starts in vain and missing images are pulled at the same time.
func (g *hookGate) decide(ctx context.Context, pod *corev1.Pod, spec *allocate.Pod, s *snapshot, caps *capper) error {
	grants, err := alignedGrants(spec)
	if err != nil {
		return err
	}
	// One error is enough for the pod's owner, but each image is asked for.
	var refused error
	need, missing := g.requirements()
	for i := range spec.Containers {
		slices := slicesOf(grants[i], s)
		if len(slices) == 0 {
			continue
		}
		verdict, err := hook.Decide(g.look(ctx, container(pod, i), need, hook.Case{
			Slice:      true,
			FailClosed: g.images != nil,
			HookFile:   missing == nil,
			DmemCaps:   caps.limitsAll(slices, s),
		}))
		if errors.Is(err, hook.ErrHookMissing) {
			err = fmt.Errorf("%w: %w", err, missing) // names the file
		}
		if err != nil && refused == nil {
			refused = fmt.Errorf("container %q: %w", spec.Containers[i].Name, err)
		}
		spec.Containers[i].HookLeftOut = verdict == hook.LeaveOut
	}
	return refused
}

// look adds to a case what the container's image would load of a hook with
// these needs.
func (g *hookGate) look(ctx context.Context, c *corev1.Container, need hook.Requirements, about hook.Case) hook.Case {
	if !about.FailClosed {
		return about
	}
	ctx, cancel := context.WithTimeout(ctx, imageTime)
	defer cancel()
	found, err := g.images.Check(ctx, c.Image, overrideOf(c))
	if errors.Is(err, image.ErrNotOnNode) {
		about.Image, about.ImageDetail = hook.ImageNotOnNode, err.Error()
		return about
	}
	if err != nil {
		about.Image, about.ImageDetail = hook.ImageUnknown, err.Error()
		return about
	}
	about.Image, about.ImageDetail = found.Verdict(need)
	return about
}

// requirements reads what the hook needs of a program, again when the library
// was replaced. The error says why there is no hook that programs of this node
// could load.
func (g *hookGate) requirements() (hook.Requirements, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := os.Lstat(g.library)
	if err == nil && g.seen != nil && os.SameFile(g.seen, now) && g.seen.Size() == now.Size() && g.seen.ModTime().Equal(now.ModTime()) {
		return g.need, nil
	}
	need, err := hook.InspectFile(g.library)
	if err != nil {
		return hook.Requirements{}, err
	}
	if g.host != elf.EM_NONE && need.Machine != g.host {
		return hook.Requirements{}, fmt.Errorf("%q: want a library for %s, have one for %s", g.library, g.host, need.Machine)
	}
	g.need, g.seen = need, now
	return need, nil
}

// hostMachine is the machine that the plugin was built for.
func hostMachine() elf.Machine {
	switch runtime.GOARCH {
	case "amd64":
		return elf.EM_X86_64
	case "arm64":
		return elf.EM_AARCH64
	}
	return elf.EM_NONE
}

// overrideOf is what the container's spec says of its command.
func overrideOf(c *corev1.Container) image.Override {
	o := image.Override{Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir}
	for _, e := range c.Env {
		if e.Name == "PATH" && e.ValueFrom == nil {
			o.Path = e.Value
		}
	}
	for _, m := range c.VolumeMounts {
		o.Mounts = append(o.Mounts, m.MountPath)
	}
	return o
}

// container is the i-th container of a pod, init containers first.
func container(pod *corev1.Pod, i int) *corev1.Container {
	if i < len(pod.Spec.InitContainers) {
		return &pod.Spec.InitContainers[i]
	}
	return &pod.Spec.Containers[i-len(pod.Spec.InitContainers)]
}

// alignedGrants are a pod's grants, one entry per container.
func alignedGrants(spec *allocate.Pod) (annotations.PodGrants, error) {
	asks := make([]bool, len(spec.Containers))
	for i, c := range spec.Containers {
		asks[i] = c.Asks
	}
	return spec.Grants.Align(asks)
}

// slicesOf are the grants of less than a device. A device the node does not
// have is for the plan to refuse.
func slicesOf(grants []annotations.Grant, s *snapshot) (slices []annotations.Grant) {
	for _, g := range grants {
		if d, ok := s.Device(g.UUID); ok && !d.Hard && (g.CUs != d.Devcore || g.MemoryMiB != d.Devmem) {
			slices = append(slices, g)
		}
	}
	return slices
}
