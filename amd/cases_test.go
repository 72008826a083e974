package amd

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
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

// C35: partitions are given out by identity and not by a count of those in use.
// A claim that comes after one in the middle has gone gets that one's, and
// nobody else's.
func TestC35ReleasedPartitionIsGivenAgain(t *testing.T) {
	l := newLedger(t, newNode(t, "node", cpx("g")[:8]))
	claim := func(name string) string {
		t.Helper()
		pod := gpuPod(name, "1", "", "")
		d, err := l.Schedule(pod, ScheduleOptions{})
		if err != nil || d.Node != "node" {
			t.Fatalf("%s: node %q, %v, %v", name, d.Node, err, d.Refusals)
		}
		if err := l.Hold(pod, d.Node, d.Grants); err != nil {
			t.Fatal(err)
		}
		return d.Grants[0][0].UUID
	}
	var held []string
	for i := range 8 {
		held = append(held, claim(fmt.Sprint("p", i)))
	}
	for _, gone := range []int{0, 5, 7, 0} {
		name := fmt.Sprint("p", gone)
		l.RemovePod(types.UID(name))
		if got := claim(name); got != held[gone] {
			t.Errorf("a claim after the one of %s got %s", held[gone], got)
		}
	}
	var want []string
	for _, d := range cpx("g")[:8] {
		want = append(want, fmt.Sprintf("%s 1 %d %d", d.ID, d.Devmem, d.Devcore))
	}
	wantUse(t, l, "at the end", want...)
}
