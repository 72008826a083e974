package plugin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/partition"
)

// cdiFile is the spec in the CDI directory. It stays there when the plugin
// stops and when CDI is turned off: containers that restart still name devices
// of it.
const cdiFile = "amd.com-gpu.json"

// cdiWriter keeps the CDI spec of the node's GPUs in place.
type cdiWriter struct {
	dir string

	mu      sync.Mutex
	written os.FileInfo // the file as it was left; nil before the first write
	devices []cdispec.Device
}

// ensure returns once the devices of a snapshot can be resolved by name. It
// writes only if the devices changed, or somebody else changed the file. A
// snapshot without a device that has a name needs no spec.
func (w *cdiWriter) ensure(s *snapshot) error {
	spec, err := cdiSpec(s.Devices)
	if err != nil {
		return fmt.Errorf("CDI spec: %w", err)
	}
	if spec == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	path := filepath.Join(w.dir, cdiFile)
	if w.written != nil && slices.EqualFunc(w.devices, spec.Devices, sameCDIDevice) {
		if now, err := os.Stat(path); err == nil && sameFile(now, w.written) {
			return nil
		}
	}
	w.written = nil
	if err := w.write(spec, path); err != nil {
		return fmt.Errorf("CDI spec %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("CDI spec: %w", err)
	}
	w.written, w.devices = info, spec.Devices
	return nil
}

// write replaces the file by a rename, which the CDI library does, and reads
// the directory as a runtime will: a name that another file there claims too
// resolves to nothing.
func (w *cdiWriter) write(spec *cdispec.Spec, path string) error {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(w.dir), cdi.WithAutoRefresh(false))
	if err != nil {
		return err
	}
	if err := cache.WriteSpec(spec, cdiFile); err != nil {
		return err
	}
	// The library's files are the owner's alone. Device numbers are no secret.
	if err := os.Chmod(path, 0o644); err != nil {
		return err
	}
	_ = cache.Refresh() // also complains about the files of others
	for _, d := range spec.Devices {
		name := allocate.CDIKind + "=" + d.Name
		if found := cache.GetDevice(name); found == nil || found.GetSpec().GetPath() != path {
			return fmt.Errorf("%s does not resolve to it: %w", name, errors.Join(cache.GetErrors()[path]...))
		}
	}
	return nil
}

// cdiSpec describes the devices: one CDI device per DRM card, with its card and
// render nodes, and /dev/kfd for whoever gets any of them. nil is a list of
// devices none of which has a card. The names and nodes are those that package
// allocate answers with.
//
// The version is the lowest that has everything the spec uses, so that old
// runtimes accept it (CDI SPEC.md, "Released versions").
func cdiSpec(devices []partition.Registered) (*cdispec.Spec, error) {
	renders := make(map[int][]int) // render minors by card
	for i := range devices {
		for _, n := range devices[i].Nodes {
			card := n.Card
			if card == nil && devices[i].Partition < 0 {
				card = devices[i].GPU.Card
			}
			if card != nil && !slices.Contains(renders[*card], n.RenderMinor) {
				renders[*card] = append(renders[*card], n.RenderMinor)
			}
		}
	}
	if len(renders) == 0 {
		return nil, nil
	}
	spec := &cdispec.Spec{Kind: allocate.CDIKind, ContainerEdits: nodeEdits("/dev/kfd")}
	for _, card := range slices.Sorted(maps.Keys(renders)) {
		name := "card" + strconv.Itoa(card)
		if err := parser.ValidateDeviceName(name); err != nil {
			return nil, err
		}
		paths := []string{"/dev/dri/" + name}
		for _, minor := range renders[card] {
			paths = append(paths, "/dev/dri/renderD"+strconv.Itoa(minor))
		}
		spec.Devices = append(spec.Devices, cdispec.Device{Name: name, ContainerEdits: nodeEdits(paths...)})
	}
	version, err := cdispec.MinimumRequiredVersion(spec)
	if err != nil {
		return nil, err
	}
	spec.Version = version
	return spec, nil
}

// nodeEdits gives a container device nodes. The runtime looks up their numbers;
// "m", to make nodes, is not needed.
func nodeEdits(paths ...string) cdispec.ContainerEdits {
	var edits cdispec.ContainerEdits
	for _, path := range paths {
		edits.DeviceNodes = append(edits.DeviceNodes, &cdispec.DeviceNode{Path: path, Permissions: "rw"})
	}
	return edits
}

// sameCDIDevice compares what cdiSpec fills in.
func sameCDIDevice(a, b cdispec.Device) bool {
	return a.Name == b.Name && slices.EqualFunc(a.ContainerEdits.DeviceNodes, b.ContainerEdits.DeviceNodes,
		func(x, y *cdispec.DeviceNode) bool { return x.Path == y.Path })
}

// sameFile reports whether two looks at a path saw the same file, not written
// to in between. A file that was removed and made anew may get the number of
// the old one, but not its time.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
