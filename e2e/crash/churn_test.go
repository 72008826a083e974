package crash

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
)

// churn is how many pods TestManyPods takes through a node.
const churn = 500

// TestManyPods creates and deletes pods of all kinds in a row on eight GPUs, as
// many at a time as fit, and looks at the node after each. The plugin must not
// grow by it, and must know nothing of them in the end.
func TestManyPods(t *testing.T) {
	n := lab.Start(t, node.Options{})
	random := rand.New(rand.NewPCG(500, 8))
	all := shapes(n)
	all["one slice"] = func(name string) *corev1.Pod {
		return n.Pod(name, node.Slice("app", 1, 1+random.Int64N(60), 1024*(1+random.Int64N(64))))
	}
	all["whole GPUs"] = func(name string) *corev1.Pod { return n.Pod(name, node.Whole("app", 1+random.Int64N(2))) }
	names := slices.Sorted(maps.Keys(all))

	var live []*node.Served
	end := func() {
		k := random.IntN(len(live))
		n.Delete(live[k].Pod)
		live = slices.Delete(live, k, k+1)
	}
	most, refused := 0, 0
	var early usage
	for i := range churn {
		shape := names[random.IntN(len(names))]
		for {
			served, err := n.Place(all[shape](fmt.Sprintf("p-%d-%d", i, refused)))
			if err == nil {
				live = append(live, served)
				break
			}
			if !errors.Is(err, scheduler.ErrUnfit) || len(live) == 0 {
				t.Fatalf("pod %d, %s: %v", i, shape, err)
			}
			refused++
			n.Delete(served.Pod)
			end()
		}
		n.Check()
		if t.Failed() {
			t.Fatalf("after pod %d, %s", i, shape)
		}
		most = max(most, len(live))
		if random.IntN(3) == 0 {
			end()
		}
		if i == churn/5 {
			early = usageOf(t, n.Plugin.PID())
		}
	}
	for len(live) > 0 {
		end()
	}
	n.Settle()
	n.Check()
	n.Eventually("the plugin forgets the pods", func() error {
		state, err := os.ReadFile(filepath.Join(n.HookPath(), "vgpu", "allocations.json"))
		if err != nil {
			return err
		}
		dirs, err := os.ReadDir(filepath.Join(n.HookPath(), "vgpu", "containers"))
		if err != nil {
			return err
		}
		if strings.Contains(string(state), n.Namespace) || len(dirs) > 0 {
			return fmt.Errorf("it has %d folders and the state %.200s", len(dirs), state)
		}
		return nil
	})
	late := usageOf(t, n.Plugin.PID())
	if late.descriptors > early.descriptors+8 { // connections to the API server come and go
		t.Errorf("%d descriptors are open, %d were after a fifth of the pods", late.descriptors, early.descriptors)
	}
	if grown := late.resident - early.resident; grown > 16<<20 {
		t.Errorf("the plugin grew by %d KiB since a fifth of the pods", grown>>10)
	}
	t.Logf("%d pods, up to %d at a time, %d times one had to go first; descriptors %d, then %d; resident %d KiB, then %d KiB",
		churn, most, refused, early.descriptors, late.descriptors, early.resident>>10, late.resident>>10)
}

// usage is what a process has of the machine.
type usage struct {
	descriptors int
	resident    int64 // bytes
}

func usageOf(t *testing.T, pid int) usage {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return usage{descriptors: len(entries), resident: kib << 10}
		}
	}
	t.Fatalf("no VmRSS in %s", status)
	return usage{}
}
