package amd

import (
	"fmt"
	"testing"
)

// The tests in this file are named for the failure cases they guard against.

// C35: the GPU a pod holds was switched into partitions while it ran. What it
// holds is reported as stale, is not booked onto a partition, and keeps none of
// them, nor any other GPU's, from new pods.
func TestC35VanishedDeviceIsStaleAndBlocksNothing(t *testing.T) {
	l := newLedger(t, newNode(t, "node", mi300x("g")))
	if err := l.SetPod(holder(t, "p", "node", "g0 49072 76")); err != nil {
		t.Fatal(err)
	}
	if err := l.SetNode(newNode(t, "node", cpx("g"))); err != nil {
		t.Fatal(err)
	}
	if used := inUse(l, "node"); len(used) > 0 {
		t.Errorf("after the switch %q is in use, want nothing", used)
	}
	given := map[string]bool{}
	for i := range 65 {
		pod := gpuPod(fmt.Sprint("new-", i), "1", "", "")
		d, err := l.Schedule(pod, ScheduleOptions{})
		if err != nil || (d.Node == "node") != (i < 64) {
			t.Fatalf("pod %d: node %q, %v, %v; want the 64 partitions for 64 pods", i, d.Node, err, d.Refusals)
		}
		if d.Node == "" {
			break
		}
		given[d.Grants[0][0].UUID] = true
		if err := l.Hold(pod, d.Node, d.Grants); err != nil {
			t.Fatal(err)
		}
	}
	if len(given) != 64 {
		t.Errorf("%d partitions for 64 pods", len(given))
	}
	for _, p := range l.Pods("node") {
		if want := p.Name == "p"; want != (len(p.Stale) == 1 && p.Stale[0] == "g0") || !want && len(p.Stale) > 0 {
			t.Errorf("pod %s: stale %q, want g0 for p alone", p.Name, p.Stale)
		}
	}
}
