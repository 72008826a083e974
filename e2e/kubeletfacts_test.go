package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
)

// This file holds what a plugin must know of kubelet v1.36 and can only learn
// from it.

// A plugin may register again while kubelet still reads its old stream. When
// the old stream ends later, kubelet drops the new one (runClient in kubelet's
// device manager looks the client up by the resource's name). So the end of a
// stream is a reason to register again, even just after a registration.
func TestKubeletDropsTheNewStreamWhenTheOldOneEnds(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 2)
	old := plugin.server
	plugin.listen(t) // a second server at the same path; the first goes on
	if err := plugin.register(ctx); err != nil {
		t.Fatal(err)
	}
	streams := func(want int) func() error {
		return func() error {
			plugin.mu.Lock()
			defer plugin.mu.Unlock()
			if plugin.streams != want {
				return fmt.Errorf("%d streams so far", plugin.streams)
			}
			return nil
		}
	}
	eventually(t, "second stream", streams(2))
	old.Stop()
	if err := k.WaitCapacity(ctx, testResource, 0); err != nil {
		t.Errorf("capacity after the old stream has ended: %v", err)
	}
	if err := plugin.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitCapacity(ctx, testResource, 2); err != nil {
		t.Error(err)
	}
}

// After kubelet restarts, it admits its pods before any plugin can register.
// That goes well for containers that run, and not for a container that has had
// devices and ended: an init container fails the whole pod. No plugin can help.
func TestKubeletRestartFailsPodsWithFinishedInitContainers(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, _ := startNode(t, client, 2)
	pod := boundPod(t, client, k.NodeName(), corev1.PodSpec{
		InitContainers: []corev1.Container{gpuContainer("prepare", 1)},
		Containers:     []corev1.Container{gpuContainer("app", 1)},
	})
	if err := k.Admit(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Run(ctx, pod); err != nil {
		t.Fatal(err)
	}
	rejections, err := k.Restart(ctx, kubelet.RestartOptions{})
	if err != nil || len(rejections) != 1 || !strings.Contains(rejections[0].Message, "no healthy devices present") {
		t.Errorf("restart: %v, rejections %v, want one for the lack of healthy devices", err, rejections)
	}
}

func TestKubeletKeepsToOneNUMANode(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k := startKubelet(t, client, kubelet.Options{
		NodeName: "numa-" + strings.ToLower(rand.Text()[:8]), TopologyPolicy: "single-numa-node", NUMANodes: []int{0, 1}})
	plugin := startStandIn(t, testResource, 4)
	plugin.numa = map[string]int64{"gpu0": 0, "gpu1": 0, "gpu2": 1, "gpu3": 1}
	if err := plugin.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitCapacity(ctx, testResource, 4); err != nil {
		t.Fatal(err)
	}
	three := boundPod(t, client, k.NodeName(), corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 3)}})
	var rejection *kubelet.Rejection
	if err := k.Admit(ctx, three); !errors.As(err, &rejection) || rejection.Reason != "TopologyAffinityError" {
		t.Errorf("three devices of two NUMA nodes: %v, want a TopologyAffinityError", err)
	}
	two := boundPod(t, client, k.NodeName(), corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 2)}})
	if err := k.Admit(ctx, two); err != nil {
		t.Fatal(err)
	}
	got := k.DeviceIDs(two.UID, "app")[testResource]
	if !slices.Equal(got, []string{"gpu0", "gpu1"}) && !slices.Equal(got, []string{"gpu2", "gpu3"}) {
		t.Errorf("two devices are %v, want those of one NUMA node", got)
	}
}
