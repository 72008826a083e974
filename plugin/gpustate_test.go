package plugin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// gpuRig feeds snapshots to gpuStates and collects the reasons of events.
type gpuRig struct {
	*testing.T
	states *gpuStates
	now    time.Time
}

func newGPURig(t *testing.T, before []annotations.Device) *gpuRig {
	return &gpuRig{T: t, states: newGPUStates(before), now: time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)}
}

func (g *gpuRig) see(after time.Duration, s *snapshot, want ...string) {
	g.Helper()
	g.now = g.now.Add(after)
	g.states.update(s)
	var got []string
	for _, e := range g.states.due(g.now) {
		got = append(got, e.reason+": "+e.message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.Errorf("events after %v (-want +got):\n%s", after, diff)
	}
}

// lessGPU is the inventory less one GPU.
func lessGPU(inv *partition.Inventory, gpu int) *partition.Inventory {
	less := *inv
	less.GPUs = append(append([]partition.GPU(nil), inv.GPUs[:gpu]...), inv.GPUs[gpu+1:]...)
	return &less
}

func TestEventsAboutGPUs(t *testing.T) {
	well := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	bdf := well.Devices[0].GPU.BDF
	name := "GPU " + string(bdf) + " (AMD Instinct MI300X)"
	sick := snapshotFrom(t, well.Inventory, partition.RegisterOptions{Unhealthy: map[partition.BDF]string{bdf: "ECC"}})
	gone := snapshotFrom(t, lessGPU(well.Inventory, 0), partition.RegisterOptions{})
	excluded := snapshotFrom(t, well.Inventory, partition.RegisterOptions{Exclude: []string{string(bdf)}})
	const long = stateQuiet + time.Second

	t.Run("a life", func(t *testing.T) {
		g := newGPURig(t, nil)
		g.see(0, well)
		g.see(long, well)
		g.see(long, sick, "AMDGPUUnhealthy: "+name+" is unhealthy: ECC")
		g.see(long, sick)
		g.see(long, gone, "AMDGPUMissing: "+name+" is missing")
		g.see(long, well, "AMDGPURecovered: "+name+" is healthy again")
		g.see(long, excluded)
		g.see(long, well)
	})
	t.Run("a flood", func(t *testing.T) {
		g := newGPURig(t, nil)
		g.see(0, sick, "AMDGPUUnhealthy: "+name+" is unhealthy: ECC")
		for range 14 {
			g.see(10*time.Second, well)
			g.see(10*time.Second, sick)
		}
		g.see(10*time.Second, well) // 290 s
		g.see(11*time.Second, well, "AMDGPURecovered: "+name+" is healthy again")
	})
	t.Run("after a restart", func(t *testing.T) {
		before := well.Entries()
		newGPURig(t, before).see(0, well)
		newGPURig(t, before).see(0, excluded)
		newGPURig(t, before).see(0, gone, "AMDGPUMissing: "+name+" is missing")
		newGPURig(t, nil).see(0, gone)
		hostile := []annotations.Device{{ID: "x", CustomInfo: annotations.CustomInfo{PCIBDF: "../../etc"}}, {ID: "y"}}
		newGPURig(t, hostile).see(0, well)
	})
	t.Run("one partition of a GPU", func(t *testing.T) {
		all := snapshotOf(t, "mi355x-qpx-8", partition.RegisterOptions{Mode: partition.ModePartition})
		d := &all.Devices[2]
		sick := snapshotFrom(t, all.Inventory, partition.RegisterOptions{
			Mode: partition.ModePartition, UnhealthyRenderMinors: map[int]string{d.Nodes[0].RenderMinor: "gone"},
		})
		g := newGPURig(t, nil)
		g.see(0, sick, "AMDGPUUnhealthy: GPU "+string(d.GPU.BDF)+" ("+d.Type+") is unhealthy: partition 2: gone")
		g.see(long, all, "AMDGPURecovered: GPU "+string(d.GPU.BDF)+" ("+d.Type+") is healthy again")
	})
}
