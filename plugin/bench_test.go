package plugin

import (
	"fmt"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// BenchmarkAllocate is one sliced pod from GetPreferredAllocation to the
// released lock, with the four requests to an API server in this process and
// the state file on disk. The node runs 40 other pods with slices.
func BenchmarkAllocate(b *testing.B) {
	r := newRig(b, snapshotOf(b, "mi300x-spx-8", partition.RegisterOptions{}))
	for i := range 40 {
		name := fmt.Sprintf("older-%d", i)
		r.bind(r.pod(name, []annotations.Grant{r.grant(i%8, 1024, 38)}))
		r.mustAllocate(r.share(i%8, i/8))
		r.run("ns/" + name)
	}
	ids := [][]string{{r.share(3, 9)}}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		name := fmt.Sprintf("p-%d", n)
		n++
		r.bind(r.pod(name, []annotations.Grant{r.grant(3, 1024, 76)}))
		b.StartTimer()
		r.Pending(b.Context(), partition.ResourceGPU, []int{1})
		if _, err := r.Allocate(b.Context(), partition.ResourceGPU, ids); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		r.server.remove("ns/" + name)
		r.server.reset()
		b.StartTimer()
	}
}

// BenchmarkHeldByOthers is what every Allocate does with the other pods of the
// node: 8 GPUs, 80 pods that the ledger knows.
func BenchmarkHeldByOthers(b *testing.B) {
	r := newRig(b, snapshotOf(b, "mi300x-spx-8", partition.RegisterOptions{}))
	for i := range 80 {
		r.bind(r.pod(fmt.Sprintf("p-%d", i), []annotations.Grant{r.grant(i%8, 1024, 24)}))
		r.mustAllocate(r.share(i%8, i/8))
	}
	v, err := r.look(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if held, problems := heldByOthers(r.scheduler, r.ledger, v, r.src.Snapshot(), "none"); len(held) != 8 || len(problems) > 0 {
			b.Fatal(len(held), problems)
		}
	}
}

// BenchmarkStateFile writes what 80 pods were handed to the disk, with both
// syncs.
func BenchmarkStateFile(b *testing.B) {
	r := newRig(b, snapshotOf(b, "mi300x-spx-8", partition.RegisterOptions{}))
	for i := range 80 {
		r.bind(r.pod(fmt.Sprintf("p-%d", i), []annotations.Grant{r.grant(i%8, 1024, 24)}))
		r.mustAllocate(r.share(i%8, i/8))
	}
	pods := r.ledger.all()
	b.ReportAllocs()
	for b.Loop() {
		if err := r.ledger.file.write(pods); err != nil {
			b.Fatal(err)
		}
	}
}
