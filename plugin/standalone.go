package plugin

import (
	"context"
	"fmt"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/partition"
)

// wholeAllocator serves nodes without HAMi: kubelet's own choice, whole, and
// nothing else. It needs no API server.
type wholeAllocator struct {
	src     snapshotSource
	respond *responder
}

// Allocate implements allocator.
func (w *wholeAllocator) Allocate(_ context.Context, resource string, containers [][]string) (*pluginapi.AllocateResponse, error) {
	return wholeAnswer(w.respond, w.src.Snapshot(), resource, containers)
}

// Pending implements allocator: nobody has granted anything.
func (w *wholeAllocator) Pending(context.Context, string, []int) pending { return pending{} }

// Starts implements allocator: a container that has GPUs whole keeps no books.
func (w *wholeAllocator) Starts(string, []string) error { return nil }

// Run implements allocator.
func (w *wholeAllocator) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// DevicesChanged implements allocator.
func (w *wholeAllocator) DevicesChanged(_, _ *snapshot) {}

// wholeAnswer hands out the devices behind kubelet's IDs, whole, in the order
// of the node's list: for resources HAMi does not schedule and nodes without
// HAMi.
func wholeAnswer(r *responder, s *snapshot, resource string, requests [][]string) (*pluginapi.AllocateResponse, error) {
	containers := make([]allocate.Container, len(requests))
	for i, ids := range requests {
		wanted := make(map[string]bool, len(ids))
		for _, id := range ids {
			d, ok := s.ByKubeletID(id)
			switch {
			case !ok || d.Resource != resource:
				return nil, fmt.Errorf("allocate %s: device ID %q: no such device on this node", resource, id)
			case wanted[d.ID]:
				return nil, fmt.Errorf("allocate %s: device ID %q: device %q is asked for twice and handed out whole", resource, id, d.ID)
			}
			wanted[d.ID] = true
		}
		var devices []partition.Registered
		for _, d := range s.Devices {
			if wanted[d.ID] {
				devices = append(devices, d)
			}
		}
		var err error
		if containers[i], err = allocate.Whole("", devices); err != nil {
			return nil, fmt.Errorf("allocate %s: %w", resource, err)
		}
	}
	return r.respond(s, containers), nil
}
