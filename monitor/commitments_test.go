package monitor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// device is the series of the i-th registered device, with the short id.
func (r *rig) device(metric string, i int, value string) string {
	d := r.devices[i]
	return fmt.Sprintf("%s{device_index=\"%d\",device_type=%q,device_uuid=\"D%d\",node=%q} %s\n", metric, d.Index, d.Type, i, nodeName, value)
}

// What is given out of a GPU is counted by the annotations alone, whether or not
// the pod runs.
func TestCommitted(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	memory, cus, shares := "hami_gpu_committed_memory_bytes", "hami_gpu_committed_compute_units", "hami_gpu_committed_shares"
	want := func(m, c, s string) {
		t.Helper()
		r.wantSeries(r.device(memory, 0, m)+r.device(cus, 0, c)+r.device(shares, 0, s), memory, cus, shares)
	}
	want("0", "0", "0")
	r.pod("a", []annotations.Grant{r.grant(0, 4096, 8)})
	pending := r.pod("b", nil, []annotations.Grant{r.grant(0, 2048, 0)})
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	want("6.442450944e+09", "8", "2")
	pending.Status.Phase = corev1.PodSucceeded
	want("4.294967296e+09", "8", "1")
	r.cluster.pods = nil
	r.pod("whole", []annotations.Grant{r.whole(0)})
	want("1.7095983104e+10", "32", "2")
}

// A pod whose annotation cannot be read holds nothing here, costs the others
// nothing and is reported.
func TestCommittedOfABrokenPod(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	r.pod("a", []annotations.Grant{r.grant(0, 4096, 8)}).Status.ContainerStatuses = nil
	r.pod("b", []annotations.Grant{r.grant(0, 4096, 8)}).Annotations[annotations.AllocatedKey] = "broken"
	r.wantSeries(r.device("hami_gpu_committed_shares", 0, "1"), "hami_gpu_committed_shares")
	r.wantProblems(`pod "ns/b": annotation hami.io/amd-devices-allocated: `)
}

// A device the node registers as unhealthy, and partitions one by one.
func TestHealthy(t *testing.T) {
	r := newRig(t, "mi355x-qpx-8", partition.ModePartition)
	var list []annotations.Device
	want := ""
	for i, d := range r.devices {
		d.Health = i != 5
		list = append(list, d.Device)
		want += r.device("hami_gpu_healthy", i, map[bool]string{true: "1", false: "0"}[d.Health])
	}
	value, err := annotations.EncodeDevices(list)
	r.must(err)
	r.cluster.node.Annotations[annotations.NodeRegisterKey] = value
	r.wantSeries(want, "hami_gpu_healthy")
	r.wantProblems()
}

// randomPod has up to five containers with random roles and grants of the first
// four devices.
func (r *rig) randomPod(rnd *rand.Rand, n int) *corev1.Pod {
	grants := make([][]annotations.Grant, 1+rnd.IntN(5))
	for c := range grants {
		for i := range rnd.IntN(3) {
			grants[c] = append(grants[c], r.grant((i+rnd.IntN(2)*2)%4, int32(rnd.IntN(4096)), int32(rnd.IntN(64))))
		}
	}
	pod := r.pod(fmt.Sprintf("p%d", n), grants...)
	inits := rnd.IntN(len(grants))
	always := corev1.ContainerRestartPolicyAlways
	for i := range inits {
		if rnd.IntN(2) == 0 {
			pod.Spec.Containers[i].RestartPolicy = &always
		}
	}
	pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers[:inits:inits], pod.Spec.Containers[inits:]
	return pod
}

// The scheduler counts the same.
func TestCommittedIsWhatTheSchedulerCounts(t *testing.T) {
	r := newRig(t, "mi300x-spx-8", partition.ModeCU)
	scheduler, err := amd.New(amd.Config{})
	r.must(err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		r.cluster.pods = nil
		ledger := amd.NewLedger(scheduler)
		r.must(ledger.SetNode(r.cluster.node))
		for n := range 6 {
			pod := r.randomPod(rnd, n)
			if slices.Contains(scheduler.Asks(pod), true) {
				r.must(ledger.SetPod(pod))
			}
		}
		var want strings.Builder
		for i, u := range ledger.Usage(nodeName) {
			want.WriteString(r.device("hami_gpu_committed_memory_bytes", i, fmt.Sprint(float64(u.UsedMiB)*mib)))
			want.WriteString(r.device("hami_gpu_committed_compute_units", i, fmt.Sprint(u.UsedCUs)))
			want.WriteString(r.device("hami_gpu_committed_shares", i, fmt.Sprint(u.Used)))
		}
		r.wantSeries(want.String(), "hami_gpu_committed_memory_bytes", "hami_gpu_committed_compute_units", "hami_gpu_committed_shares")
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}
