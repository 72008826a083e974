package plugin

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// patient is a timing that looks at the node often and else is the real one.
func patient() *timing {
	t := defaultTiming()
	t.doubt, t.publishRetry, t.publishLocked = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	return &t
}

// hasty is a timing that gives up on an API server that stays away.
func hasty() *timing {
	t := patient()
	t.answer, t.cleanup, t.request, t.pending = 600*time.Millisecond, 300*time.Millisecond, 450*time.Millisecond, 300*time.Millisecond
	return t
}

// admission is one pod's way through kubelet: each list holds the container
// requests of one Allocate call.
type admission struct {
	grants [][]annotations.Grant
	calls  [][][]string
}

func admissions(r *rig) map[string]admission {
	slice := func(mib, cus int32) []annotations.Grant { return []annotations.Grant{r.grant(0, mib, cus)} }
	return map[string]admission{
		"one slice": {[][]annotations.Grant{slice(16384, 76)}, [][][]string{{{r.share(0, 1)}}}},
		"two containers": {
			[][]annotations.Grant{slice(16384, 76), slice(8192, 38)},
			[][][]string{{{r.share(0, 1)}}, {{r.share(0, 2)}}},
		},
		"two requests in one call": {
			[][]annotations.Grant{slice(16384, 76), slice(8192, 38)},
			[][][]string{{{r.share(0, 1)}, {r.share(0, 2)}}},
		},
	}
}

// admit does what kubelet does with a pod that was bound: it asks for the
// containers in order and rejects the pod at the first error.
func (r *rig) admit(key string, calls [][][]string) ([]*pluginapi.ContainerAllocateResponse, error) {
	var answers []*pluginapi.ContainerAllocateResponse
	for _, call := range calls {
		sizes := make([]int, len(call))
		for i, ids := range call {
			sizes[i] = len(ids)
		}
		r.Pending(context.Background(), partition.ResourceGPU, sizes)
		response, err := r.Allocate(context.Background(), partition.ResourceGPU, call)
		if err != nil {
			r.phase(key, corev1.PodFailed)
			return nil, err
		}
		answers = append(answers, response.ContainerResponses...)
	}
	r.run(key)
	return answers, nil
}

// checkAdmitted checks what every pod must find, whatever went wrong on the
// way: the right answer or a clean end, no lock left, no CU held twice, and a
// node that serves the next pod.
func (r *rig) checkAdmitted(key string, a admission, answers []*pluginapi.ContainerAllocateResponse, err error) {
	r.Helper()
	eventually(r, "the lock is released", func() bool { return r.lockText() == "" })
	uid := r.server.pod(key).UID
	if err != nil {
		eventually(r, "what was recorded is forgotten", func() bool { return r.ledger.get(uid) == nil })
	} else {
		r.checkAnswers(key, a, answers)
	}
	r.checkDisjoint()

	next := "ns/next"
	r.bind(r.pod("next", a.grants...))
	var again [][][]string
	slot := 5
	for _, call := range a.calls {
		var ids [][]string
		for range call {
			ids = append(ids, []string{r.share(0, slot)})
			slot++
		}
		again = append(again, ids)
	}
	answers, err = r.admit(next, again)
	if err != nil {
		r.Errorf("the next pod: %v", err)
		return
	}
	r.checkAnswers(next, a, answers)
	r.checkDisjoint()
}

func (r *rig) checkAnswers(key string, a admission, answers []*pluginapi.ContainerAllocateResponse) {
	r.Helper()
	if len(answers) != len(a.grants) {
		r.Fatalf("pod %s: %d answers, want %d", key, len(answers), len(a.grants))
	}
	var union cumask.Set
	for i, answer := range answers {
		cus := r.mask(answer, 0)
		if want := int(a.grants[i][0].CUs); cus.Len() != want || !cus.Intersect(union).Empty() {
			r.Errorf("pod %s: container %d holds %s, want %d CUs beside %s", key, i, cus, want, union)
		}
		if got, want := answer.Envs["HIP_DEVICE_MEMORY_LIMIT"], fmt.Sprintf("%dm", a.grants[i][0].MemoryMiB); got != want {
			r.Errorf("pod %s: container %d: limit %q, want %q", key, i, got, want)
		}
		union = union.Union(cus)
	}
	if got := r.cus(key, 0); got != union {
		r.Errorf("pod %s: annotation %s, the containers hold %s", key, got, union)
	}
	if got := r.annotation(key, annotations.BindPhaseKey); got != "success" && !(got == "failed" && r.refused[key]) {
		r.Errorf("pod %s: phase %q, want success", key, got)
	}
	record := r.ledger.get(r.server.pod(key).UID)
	if record == nil || !record.in(r.server.pod(key).Annotations) {
		r.Errorf("pod %s: the ledger has %v", key, record)
	}
}

// occupyWithOlderPod puts a pod on the node that runs since long ago.
func (r *rig) occupyWithOlderPod() {
	r.bind(r.pod("older", []annotations.Grant{r.grant(0, 16384, 76)}))
	if _, err := r.admit("ns/older", [][][]string{{{r.share(0, 0)}}}); err != nil {
		r.Fatal(err)
	}
	r.server.reset()
}

// callsFor counts the calls of an admission where nothing goes wrong.
func callsFor(t *testing.T, snap *snapshot, what string) int {
	r := newRig(t, snap)
	r.occupyWithOlderPod()
	a := admissions(r)[what]
	r.bind(r.pod("p", a.grants...))
	if _, err := r.admit("ns/p", a.calls); err != nil {
		t.Fatal(err)
	}
	return len(r.server.reset())
}

// TestFaultAtEachCall breaks every call to the API server that an admission
// makes, in every way.
func TestFaultAtEachCall(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for what := range admissions(newRig(t, snap)) {
		calls := callsFor(t, snap, what)
		for name, f := range map[string]struct {
			fault  apiFault
			lasts  bool // until kubelet has its answer
			mustDo bool // an admission survives it
		}{
			"request lost":             {fault: apiFault{cutRequest: true}, mustDo: true},
			"answer lost":              {fault: apiFault{cutAnswer: true}, mustDo: true},
			"internal error":           {fault: apiFault{refuse: http.StatusInternalServerError}, mustDo: true},
			"conflict":                 {fault: apiFault{refuse: http.StatusConflict}, mustDo: true},
			"forbidden":                {fault: apiFault{refuse: http.StatusForbidden}},
			"away from the request on": {fault: apiFault{cutRequest: true}, lasts: true},
			"away from the answer on":  {fault: apiFault{cutAnswer: true}, lasts: true},
		} {
			for number := 1; number <= calls; number++ {
				t.Run(fmt.Sprintf("%s/%s/call %d", what, name, number), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, snap)
					r.occupyWithOlderPod()
					r.timing = patient()
					if f.lasts {
						r.timing = hasty()
					}
					r.start("plugin")
					a := admissions(r)[what]
					r.bind(r.pod("p", a.grants...))
					r.server.break_(func(c apiCall) apiFault {
						switch {
						case c.number == number:
							return f.fault
						case f.lasts && c.number > number:
							return apiFault{cutRequest: true}
						}
						return apiFault{}
					})
					answers, err := r.admit("ns/p", a.calls)
					r.server.break_(nil)
					if f.mustDo && err != nil {
						t.Error(err)
					}
					r.background()
					r.checkAdmitted("ns/p", a, answers, err)
				})
			}
		}
	}
}

// TestPluginDiesAtEachCall ends the plugin before and after each call takes
// effect and starts another on the same node. Kubelet rejects the pod whose
// call ended in an error; after a reboot it asks anew for everything.
func TestPluginDiesAtEachCall(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for what := range admissions(newRig(t, snap)) {
		calls := callsFor(t, snap, what)
		for name, fault := range map[string]apiFault{
			"before": {cutRequest: true},
			"after":  {cutAnswer: true},
		} {
			for number := 1; number <= calls; number++ {
				for _, rebooted := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s call %d/rebooted %v", what, name, number, rebooted), func(t *testing.T) {
						t.Parallel()
						dieAt(t, snap, what, fault, number, rebooted)
					})
				}
			}
		}
	}
}

func dieAt(t *testing.T, snap *snapshot, what string, fault apiFault, number int, rebooted bool) {
	r := newRig(t, snap)
	r.occupyWithOlderPod()
	r.timing = hasty()
	r.start("first")
	a := admissions(r)[what]
	r.bind(r.pod("p", a.grants...))
	r.server.break_(func(c apiCall) apiFault {
		switch {
		case c.agent != "first" || c.number < number:
			return apiFault{}
		case c.number == number:
			return fault
		}
		return apiFault{cutRequest: true}
	})
	before := r.server.pod("ns/p")
	answers, err := r.admit("ns/p", a.calls)
	r.timing = patient()
	r.start("second")
	if rebooted {
		// Kubelet knows nothing of its verdict, nor of answers. The phase of a
		// pod it had rejected stays, where the pod was served all the same.
		r.refused = map[string]bool{"ns/p": err != nil}
		r.server.edit("ns/p", func(p *corev1.Pod) { p.Status = before.Status })
		r.mustAllocate(r.share(0, 0)) // for the older pod
		answers, err = r.admit("ns/p", a.calls)
	}
	r.background()
	r.checkAdmitted("ns/p", a, answers, err)
}
