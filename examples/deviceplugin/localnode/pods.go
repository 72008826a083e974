package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/partition"
)

// listEvery is the time between two looks at the node's pods.
const listEvery = 500 * time.Millisecond

// errNoPlugin is a resource that nobody has registered yet. The real kubelet
// refuses a pod for it; here the plugin may still be compiling.
var errNoPlugin = errors.New("no plugin has registered it")

// servePods has the plugin serve the pods that are bound to the node, one after
// the other, until ctx ends.
func (k *kubelet) servePods(ctx context.Context) {
	held := make(map[types.UID]map[string][]string) // of each pod the device IDs, by resource
	said := ""
	for tick := time.NewTicker(listEvery); ; {
		err := k.lookAtPods(ctx, held)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			k.say("%s", said)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *kubelet) lookAtPods(ctx context.Context, held map[types.UID]map[string][]string) error {
	list, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	live := make(map[types.UID]bool)
	var problems []error
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case pod.Spec.NodeName != nodeName || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		case pod.DeletionTimestamp != nil:
			problems = append(problems, k.remove(ctx, pod))
		case held[pod.UID] != nil:
			live[pod.UID] = true
		default:
			ids, err := k.admit(ctx, pod, held)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s/%s waits: %w", pod.Namespace, pod.Name, err))
			}
			if ids != nil {
				held[pod.UID], live[pod.UID] = ids, true
			}
		}
	}
	maps.DeleteFunc(held, func(uid types.UID, _ map[string][]string) bool { return !live[uid] })
	return errors.Join(problems...)
}

// admit asks the plugin for the devices of each container, in the order in
// which kubelet does, and writes whether the pod runs. It returns what the pod
// holds from now on, nil if nothing. Unlike kubelet it does not pass an init
// container's devices on to later containers.
func (k *kubelet) admit(ctx context.Context, pod *corev1.Pod, held map[types.UID]map[string][]string) (map[string][]string, error) {
	name := pod.Namespace + "/" + pod.Name
	mine := make(map[string][]string)
	var told strings.Builder
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, resource := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			count := c.Resources.Limits[resource]
			taken := slices.Clone(mine[string(resource)])
			for _, other := range held {
				taken = append(taken, other[string(resource)]...)
			}
			ids, answer, err := k.allocate(ctx, string(resource), int(count.Value()), taken)
			switch {
			case errors.Is(err, errNoPlugin) && resource != partition.ResourceGPU:
				continue // HAMi's, such as amd.com/gpumem
			case errors.Is(err, errNoPlugin):
				return nil, fmt.Errorf("%s: %w", resource, err)
			case err != nil:
				k.say("%s is refused: container %s: %v", name, c.Name, err)
				return nil, k.setPhase(ctx, pod, corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err),
				})
			}
			mine[string(resource)] = append(mine[string(resource)], ids...)
			if answer != nil {
				tell(&told, name, c.Name, answer)
			}
		}
	}
	if told.Len() > 0 {
		k.say("%s", strings.TrimSuffix(told.String(), "\n"))
	}
	return mine, k.setPhase(ctx, pod, corev1.PodStatus{Phase: corev1.PodRunning})
}

// allocate asks the plugin for count devices that are not taken.
func (k *kubelet) allocate(ctx context.Context, name string, count int, taken []string) ([]string, *pluginapi.ContainerAllocateResponse, error) {
	k.mu.Lock()
	r := k.resources[name]
	var free []string
	if r != nil {
		for _, d := range r.devices {
			if d.Health == pluginapi.Healthy && !slices.Contains(taken, d.ID) {
				free = append(free, d.ID)
			}
		}
	}
	k.mu.Unlock()
	switch {
	case r == nil:
		return nil, nil, errNoPlugin
	case len(free) < count:
		return nil, nil, fmt.Errorf("%s: want %d devices, %d are free", name, count, len(free))
	case count == 0:
		return nil, nil, nil
	}
	ids := free[:count]
	if r.options.GetPreferredAllocationAvailable {
		preferred, err := r.plugin.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: free, AllocationSize: int32(count)},
		}})
		if err != nil {
			return nil, nil, err
		}
		// Kubelet takes as much of the advice as is free.
		if list := preferred.GetContainerResponses(); len(list) == 1 {
			advised := slices.DeleteFunc(slices.Clone(list[0].DeviceIDs), func(id string) bool { return !slices.Contains(free, id) })
			rest := slices.DeleteFunc(free, func(id string) bool { return slices.Contains(advised, id) })
			ids = append(advised, rest...)[:count]
		}
	}
	answer, err := r.plugin.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	switch {
	case err != nil:
		return nil, nil, err
	case len(answer.ContainerResponses) != 1:
		return nil, nil, fmt.Errorf("%s: want the answer for one container, found %d", name, len(answer.ContainerResponses))
	}
	if r.options.PreStartRequired {
		if _, err := r.plugin.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
			return nil, nil, err
		}
	}
	return ids, answer.ContainerResponses[0], nil
}

// tell writes what a container would be started with.
func tell(b *strings.Builder, pod, container string, answer *pluginapi.ContainerAllocateResponse) {
	fmt.Fprintf(b, "%s, container %s:\n", pod, container)
	for _, name := range slices.Sorted(maps.Keys(answer.GetEnvs())) {
		fmt.Fprintf(b, "  env     %s=%s\n", name, answer.Envs[name])
	}
	for _, d := range answer.GetDevices() {
		fmt.Fprintf(b, "  device  %s\n", d.ContainerPath)
	}
	for _, d := range answer.GetCdiDevices() {
		fmt.Fprintf(b, "  cdi     %s\n", d.Name)
	}
	for _, m := range answer.GetMounts() {
		fmt.Fprintf(b, "  mount   %s on %s\n", m.HostPath, m.ContainerPath)
	}
}
