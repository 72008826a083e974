package plugin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/hook"
)

// allocate calls the plugin as kubelet does, with one container request for each
// list of IDs.
func allocate(n *node.Node, containers ...[]string) ([]*pluginapi.ContainerAllocateResponse, error) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	request := &pluginapi.AllocateRequest{}
	for _, ids := range containers {
		request.ContainerRequests = append(request.ContainerRequests, &pluginapi.ContainerAllocateRequest{DevicesIds: ids})
	}
	response, err := pluginapi.NewDevicePluginClient(dial(n, n.Sockets()[0])).Allocate(ctx, request)
	return response.GetContainerResponses(), err
}

// What a pod holds until when, with the plugin restarted and not.
func TestC18WhoStillHoldsCUs(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(n *node.Node, s *node.Served)
		again bool // its CUs may be had
	}{
		"being deleted": {end: func(n *node.Node, s *node.Served) {
			ctx, cancel := n.Timeout()
			defer cancel()
			if err := n.Kubelet.Terminate(ctx, s.Pod); err != nil {
				n.Fatal(err)
			}
		}},
		"succeeded": {end: func(n *node.Node, s *node.Served) { n.Finish(s, corev1.PodSucceeded) }, again: true},
		"failed":    {end: func(n *node.Node, s *node.Served) { n.Finish(s, corev1.PodFailed) }, again: true},
		"deleted":   {end: func(n *node.Node, s *node.Served) { n.Delete(s.Pod) }, again: true},
	} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/plugin down %v", name, down), func(t *testing.T) {
				n := lab.Start(t, node.Options{})
				s := n.MustPlace(onOneGPU(n.Pod("p", node.Slice("app", 1, 75, 49152))))
				held := mask(t, s, "app")
				if down {
					n.KillPlugin()
				}
				tt.end(n, s)
				if down {
					n.StartPlugin()
				}
				// The scheduler has no room for as much beside it.
				q, err := n.Place(onOneGPU(n.Pod("q", node.Slice("app", 1, 75, 49152))))
				if (err == nil) != tt.again {
					t.Fatalf("a pod that needs p's CUs: %v, want it placed: %v", err, tt.again)
				}
				if tt.again && mask(t, q, "app") != held {
					t.Errorf("it holds %s, want %s as p did", mask(t, q, "app"), held)
				}
				if !tt.again {
					r := n.MustPlace(onOneGPU(n.Pod("r", node.Slice("app", 1, 25, 49152))))
					if both := mask(t, r, "app").Intersect(held); !both.Empty() {
						t.Errorf("CUs %s are held by a pod that is being deleted too", both)
					}
				}
				n.Check()
			})
		}
	}
}

func TestC47SeveralRequestsInOneCall(t *testing.T) {
	n := lab.Start(t, node.Options{})
	pod := n.Bind(onOneGPU(n.Pod("p", node.Slice("a", 1, 25, 16384), node.Plain("plain"), node.Slice("b", 1, 13, 8192))))
	n.Proxy.Reset()
	answers, err := allocate(n, []string{lastBDF + "#0"}, []string{lastBDF + "#1"})
	if err != nil || len(answers) != 2 {
		t.Fatalf("%d answers, %v, want two", len(answers), err)
	}
	var got [][2]string
	for _, a := range answers {
		got = append(got, [2]string{a.Envs["HSA_CU_MASK"], a.Envs[hook.LimitEnv]})
	}
	if diff := cmp.Diff([][2]string{{"0:0-75", "16384m"}, {"0:76-114", "8192m"}}, got); diff != "" {
		t.Errorf("masks and limits (-want +got):\n%s", diff)
	}
	notes := n.Notes(pod)
	if notes[annotations.CUAllocatedKey] != `{"`+lastGPU+`":"0-114"}` || strings.Trim(notes[annotations.ToAllocateKey], ";") != "" {
		t.Errorf("annotations %v", notes)
	}
	patches := 0
	for _, c := range n.Proxy.Calls() {
		if c.Method == "PATCH" && strings.Contains(c.Path, "/pods/") {
			patches++
		}
	}
	if patches != 1 {
		t.Errorf("%d patches of the pod, want one", patches)
	}

	// One that cannot be served: nothing is.
	bad := n.Bind(n.Pod("q", node.Slice("a", 1, 25, 16384), node.Slice("b", 1, 13, 8192)))
	before := n.Notes(bad)
	if answers, err := allocate(n, []string{lastBDF + "#2"}, []string{lastBDF + "#3", lastBDF + "#4"}); err == nil || !strings.Contains(err.Error(), "count mismatch") {
		t.Errorf("answers %v, %v, want a count mismatch", answers, err)
	}
	before[annotations.BindPhaseKey] = "failed"
	if diff := cmp.Diff(before, n.Notes(bad)); diff != "" {
		t.Errorf("annotations of the refused pod (-want +got):\n%s", diff)
	}
	if lock := n.Lock(); lock != "" {
		t.Errorf("the lock %q was left behind", lock)
	}
}

// A pod can say of itself what it wants: only the lock's owner is served.
func TestC48OnlyTheLocksOwnerIsServed(t *testing.T) {
	forge := func(n *node.Node, gpus int64) *corev1.Pod {
		grant := lastGPU + ",AMD Instinct MI300X,3000,76:;"
		q := n.Pod("q", node.Whole("app", gpus))
		q.Annotations = map[string]string{
			annotations.ToAllocateKey: grant, annotations.AllocatedKey: grant, annotations.BindPhaseKey: "allocating",
			annotations.BindTimeKey: "1", annotations.VGPUNodeKey: n.Name,
		}
		return n.BindOutsideHAMi(q)
	}
	t.Run("no lock", func(t *testing.T) {
		n := lab.Start(t, node.Options{})
		q := forge(n, 1)
		before := n.Notes(q)
		if _, err := n.Admit(q); err == nil {
			t.Error("a pod without the lock was served")
		}
		if diff := cmp.Diff(before, n.Notes(q)); diff != "" {
			t.Errorf("its annotations (-want +got):\n%s", diff)
		}
		n.Check()
	})
	t.Run("another pod's lock", func(t *testing.T) {
		n := lab.Start(t, node.Options{})
		p := n.Bind(n.Pod("p", node.Slice("app", 1, 25, 1000)))
		forge(n, 1)
		s, err := n.Admit(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Containers["app"].Env[hook.LimitEnv]; got != "1000m" {
			t.Errorf("limit %q, want p's own 1000m", got)
		}
		n.Settle()
	})
	t.Run("count mismatch", func(t *testing.T) {
		n := lab.Start(t, node.Options{})
		p := n.Bind(n.Pod("p", node.Slice("app", 1, 25, 1000)))
		_, err := n.Admit(forge(n, 2))
		if err == nil || !strings.Contains(err.Error(), "count mismatch") {
			t.Errorf("kubelet asks for two devices with one granted: %v, want a count mismatch", err)
		}
		if lock, phase := n.Lock(), n.Notes(p)[annotations.BindPhaseKey]; lock != "" || phase != "failed" {
			t.Errorf("lock %q, phase of its owner %q, want none and failed", lock, phase)
		}
	})
	t.Run("an old lock", func(t *testing.T) {
		n := lab.Start(t, node.Options{})
		p := n.Bind(n.Pod("p", node.Slice("app", 1, 25, 1000)))
		old := annotations.NodeLock{Time: time.Now().Add(-10 * time.Minute), Namespace: p.Namespace, Name: p.Name}.String()
		n.Annotate(map[string]*string{annotations.NodeLockKey: &old})
		ctx, cancel := n.Timeout()
		defer cancel()
		q, err := n.Scheduler.Create(ctx, n.Pod("q", node.Slice("app", 1, 25, 3000)))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Scheduler.TakeLock(ctx, n.Name, q); err == nil {
			t.Error("the lock of a pod that waits was taken over")
		}
		n.CheckPlaced(n.Admit(p))
	})
}

// Locks found at the start: those whose owner does not need them any more are
// released, others stay.
func TestC49LocksFoundAtStart(t *testing.T) {
	for name, tt := range map[string]struct {
		lock func(n *node.Node) string
		want bool // stays
	}{
		"owner waits": {lock: func(n *node.Node) string {
			n.Bind(n.Pod("p", node.Slice("app", 1, 25, 1000)))
			return n.Lock()
		}, want: true},
		"owner runs": {lock: func(n *node.Node) string {
			n.MustPlace(n.Pod("p", node.Slice("app", 1, 25, 1000)))
			return lockOf(n, "p")
		}},
		"owner has failed": {lock: func(n *node.Node) string {
			s := n.MustPlace(n.Pod("p", node.Slice("app", 1, 25, 1000)))
			n.Finish(s, corev1.PodFailed)
			return lockOf(n, "p")
		}},
		"owner is gone":  {lock: func(n *node.Node) string { return lockOf(n, "nobody") }},
		"names no owner": {lock: func(*node.Node) string { return annotations.NodeLock{Time: time.Now()}.String() }, want: true},
		"malformed":      {lock: func(*node.Node) string { return "2026-08-21T08:20:39Z,ns" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := lab.Start(t, node.Options{})
			lock := tt.lock(n)
			n.StopPlugin()
			n.Annotate(map[string]*string{annotations.NodeLockKey: &lock, annotations.NodeRegisterKey: nil})
			n.StartPlugin() // registered, so it has looked at the lock
			if tt.want && n.Lock() != lock {
				t.Errorf("lock %q, want %q", n.Lock(), lock)
			}
			if !tt.want {
				n.Settle()
			}
		})
	}
}

func lockOf(n *node.Node, name string) string {
	return annotations.NodeLock{Time: time.Now(), Namespace: n.Namespace, Name: name}.String()
}

// Whatever IDs kubelet picks, a container gets the GPUs that were granted.
func TestC51DevicesFollowTheGrants(t *testing.T) {
	n := lab.Start(t, node.Options{})
	pod := n.Bind(n.Pod("p", node.Slice("app", 2, 25, 16384)))
	ctx, cancel := n.Timeout()
	defer cancel()
	var free []string
	for _, gpu := range n.Inventory().GPUs {
		for slot := range 10 {
			free = append(free, fmt.Sprintf("%s#%d", gpu.BDF, slot))
		}
	}
	preferred, err := pluginapi.NewDevicePluginClient(dial(n, n.Sockets()[0])).GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: append(free, "0000:ff:00.0#0"), AllocationSize: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if ids := preferred.ContainerResponses[0].DeviceIDs; len(ids) != 2 || !strings.HasPrefix(ids[0], "0000:c7:00.0#") || !strings.HasPrefix(ids[1], lastBDF+"#") {
		t.Errorf("preferred are %q, want one share of each GPU that is granted", ids)
	}
	answers, err := allocate(n, []string{"0000:05:00.0#0", "0000:05:00.0#1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range answers[0].Devices {
		got = append(got, d.HostPath)
	}
	if diff := cmp.Diff([]string{"/dev/kfd", lastCard, lastRender, "/dev/dri/card49", "/dev/dri/renderD176"}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if masks, err := cumask.ParseHSAMask(answers[0].Envs["HSA_CU_MASK"]); err != nil || len(masks) != 2 {
		t.Errorf("mask %q (%v), want one of two devices", answers[0].Envs["HSA_CU_MASK"], err)
	}
	n.Delete(pod)

	for name, ids := range map[string][]string{
		"unknown":   {lastBDF + "#0", "0000:ff:00.0#0"},
		"duplicate": {lastBDF + "#0", lastBDF + "#0"},
	} {
		n.Bind(n.Pod(name, node.Slice("app", 2, 25, 16384)))
		if _, err := allocate(n, ids); err == nil || !strings.Contains(err.Error(), "device ID") {
			t.Errorf("%s ID: %v, want an error about it", name, err)
		}
		if lock := n.Lock(); lock != "" {
			t.Errorf("%s ID: the lock %q was left behind", name, lock)
		}
	}
}

// The pod spec's own variables would outrank the plugin's, and HAMi's webhook
// may not have seen them.
func TestSliceThatOverridesItsLimits(t *testing.T) {
	n := lab.Start(t, node.Options{})
	ctx, cancel := n.Timeout()
	defer cancel()
	app := node.Slice("app", 1, 25, 16384)
	app.Env = []corev1.EnvVar{{Name: "HSA_CU_MASK", Value: "0:0-303"}}
	pod, err := n.Lab.Client.CoreV1().Pods(n.Namespace).Create(ctx, n.Pod("p", app), createOptions)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := n.Scheduler.Filter(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := n.Scheduler.Bind(ctx, decision.Pod, decision.Node)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Admit(bound); err == nil || !strings.Contains(err.Error(), "HSA_CU_MASK") {
		t.Errorf("admit: %v, want a rejection that names the variable", err)
	}
	n.Settle()
	n.Check()
}
