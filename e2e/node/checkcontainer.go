package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/hook"
)

// checkContainer compares what a container was started with with its grants and
// with what was recorded of it. It returns the CUs it may run on, by device: all
// of a whole device.
func (s *state) checkContainer(c granted, got kubelet.Container, recorded annotations.ContainerCUs) (map[string]cumask.Set, []error) {
	if len(c.grants) == 0 {
		if len(got.Devices)+len(got.CDIDevices)+len(got.Mounts) > 0 {
			return nil, []error{fmt.Errorf("it asks for nothing and got %+v", got)}
		}
		return nil, nil
	}
	var errs []error
	masks, err := cumask.ParseHSAMask(got.Env["HSA_CU_MASK"])
	if err != nil && got.Env["HSA_CU_MASK"] != "" {
		errs = append(errs, err)
	}
	if len(recorded.IDs) != len(c.grants) {
		errs = append(errs, fmt.Errorf("kubelet IDs %q are recorded for %d devices", recorded.IDs, len(c.grants)))
	}
	held := make(map[string]cumask.Set)
	parts := 0
	for i, g := range c.grants {
		d, ok := s.devices[g.UUID]
		if !ok {
			errs = append(errs, fmt.Errorf("granted device %s is not registered", g.UUID))
			continue
		}
		var mask cumask.Set
		for _, m := range masks {
			if m.Device == i {
				mask = m.CUs
			}
		}
		whole := d.Mode != "" || g.MemoryMiB == d.Devmem && g.CUs == d.Devcore
		limit, limited := got.Env[hook.LimitEnv+"_"+strconv.Itoa(i)]
		switch {
		case whole:
			held[g.UUID] = d.Geometry().All()
			if !mask.Empty() || limited {
				errs = append(errs, fmt.Errorf("whole device %s: mask %q, memory limit %q", g.UUID, mask, limit))
			}
		default:
			parts++
			if !mask.Empty() {
				held[g.UUID] = mask
			}
			if mask.Len() != int(g.CUs) {
				errs = append(errs, fmt.Errorf("device %s: mask %s has %d CUs, %d are granted", g.UUID, mask, mask.Len(), g.CUs))
			} else if err := d.Geometry().Check(mask); g.CUs > 0 && err != nil {
				errs = append(errs, fmt.Errorf("device %s: mask %s: %w", g.UUID, mask, err))
			}
			if want := fmt.Sprintf("%dm", g.MemoryMiB); limit != want {
				errs = append(errs, fmt.Errorf("device %s: memory limit %q, want %q", g.UUID, limit, want))
			}
		}
		if recorded.CUs[g.UUID] != held[g.UUID] {
			errs = append(errs, fmt.Errorf("device %s: CUs %s are recorded, it has %s", g.UUID, recorded.CUs[g.UUID], held[g.UUID]))
		}
	}
	errs = append(errs, s.checkVisible(c, got)...)
	return held, append(errs, checkHook(got, parts > 0)...)
}

// checkVisible checks that the container sees the devices it was granted, in
// the order of the grants.
func (s *state) checkVisible(c granted, got kubelet.Container) (errs []error) {
	// A GPU whose partitions have no render nodes of their own is several agents.
	var hip, rocr, minors []string
	for _, g := range c.grants {
		for _, node := range s.hardware[g.UUID].Nodes {
			hip = append(hip, strconv.Itoa(len(hip)))
			rocr = append(rocr, node.ROCrID())
			minors = append(minors, "/dev/dri/renderD"+strconv.Itoa(node.RenderMinor))
		}
	}
	slices.Sort(minors)
	minors = slices.Compact(minors)
	if visible := list(got.Env["HIP_VISIBLE_DEVICES"]); !slices.Equal(visible, hip) {
		errs = append(errs, fmt.Errorf("HIP_VISIBLE_DEVICES %q, want %q", visible, hip))
	}
	// Indices stand for devices whose ids are the same or zero.
	if visible := list(got.Env["ROCR_VISIBLE_DEVICES"]); len(visible) != len(rocr) {
		errs = append(errs, fmt.Errorf("ROCR_VISIBLE_DEVICES %q for %d agents", visible, len(rocr)))
	} else if strings.HasPrefix(visible[0], "GPU-") && !slices.Equal(visible, rocr) {
		errs = append(errs, fmt.Errorf("ROCR_VISIBLE_DEVICES %q, want %q", visible, rocr))
	}
	if len(got.CDIDevices) > 0 {
		if len(got.Devices) > 0 {
			errs = append(errs, fmt.Errorf("CDI names %q and device nodes %v", got.CDIDevices, got.Devices))
		}
		return errs
	}
	var found []string
	kfd := 0
	for _, d := range got.Devices {
		switch {
		case d.Host == "/dev/kfd":
			kfd++
		case strings.HasPrefix(d.Host, "/dev/dri/renderD"):
			found = append(found, d.Host)
		}
	}
	slices.Sort(found)
	if kfd != 1 || !slices.Equal(found, minors) {
		errs = append(errs, fmt.Errorf("devices %v, want one /dev/kfd and %q", got.Devices, minors))
	}
	return errs
}

// checkHook checks that a container with a slice, and no other, has the memory
// hook, and that what is mounted exists.
func checkHook(got kubelet.Container, sliced bool) (errs []error) {
	library, cache := false, false
	for _, m := range got.Mounts {
		library = library || m.Container == hook.ContainerLibrary
		cache = cache || m.Container == hook.ContainerCacheDir && filepath.IsAbs(m.Host)
		if _, err := os.Stat(m.Host); err != nil {
			errs = append(errs, fmt.Errorf("mount: %w", err))
		}
	}
	if audit := hook.LoadsHook(got.Env[hook.AuditEnv]); audit != sliced || library != sliced || cache != sliced {
		errs = append(errs, fmt.Errorf("sliced %v, but %s %q and mounts %v", sliced, hook.AuditEnv, got.Env[hook.AuditEnv], got.Mounts))
	}
	return errs
}
