package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// pluginClient is a plugin that advises the last of the free devices.
type pluginClient struct {
	pluginapi.DevicePluginClient
	err error // of Allocate
}

func (p *pluginClient) GetPreferredAllocation(_ context.Context, in *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	free := in.ContainerRequests[0].AvailableDeviceIDs
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: free[len(free)-1:]}}}, nil
}

func (p *pluginClient) Allocate(_ context.Context, in *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{
		Envs:    map[string]string{"IDS": strings.Join(in.ContainerRequests[0].DevicesIds, ","), "A": "b"},
		Devices: []*pluginapi.DeviceSpec{{ContainerPath: "/dev/kfd"}},
		Mounts:  []*pluginapi.Mount{{HostPath: "/h", ContainerPath: "/c"}},
	}}}, p.err
}

// pod is bound to the node and asks for GPUs and memory.
func pod(name, node string, gpus ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name)}}
	p.Spec.NodeName = node
	for i, n := range gpus {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: string('a' + rune(i)), Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"amd.com/gpu": apiresource.MustParse(n), "amd.com/gpumem": apiresource.MustParse("1000")},
		}})
	}
	return p
}

func TestPodsAreServed(t *testing.T) {
	var out strings.Builder
	client := fake.NewClientset(pod("two", nodeName, "1", "2"), pod("elsewhere", "node-2", "1"), pod("plain", nodeName))
	k := &kubelet{client: client, out: &out, resources: make(map[string]*resource)}
	held := make(map[types.UID]map[string][]string)
	phase := func(name string) corev1.PodPhase {
		p, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Status.Phase
	}

	err := k.lookAtPods(t.Context(), held)
	if !errors.Is(err, errNoPlugin) || phase("two") != "" || phase("plain") != corev1.PodRunning {
		t.Errorf("without a plugin: %v, pods are %q and %q", err, phase("two"), phase("plain"))
	}
	plugin := &pluginClient{}
	k.resources["amd.com/gpu"] = &resource{
		plugin: plugin, options: &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
		devices: []*pluginapi.Device{{ID: "1", Health: "Healthy"}, {ID: "2", Health: "Healthy"}, {ID: "3", Health: "Unhealthy"}, {ID: "4", Health: "Healthy"}},
	}
	for range 2 { // the second look finds nothing to do
		if err := k.lookAtPods(t.Context(), held); err != nil {
			t.Error(err)
		}
	}
	if phase("two") != corev1.PodRunning || phase("elsewhere") != "" {
		t.Errorf("pods are %q and %q", phase("two"), phase("elsewhere"))
	}

	// All devices are held, until the pod is gone; and the plugin may refuse.
	for _, p := range []*corev1.Pod{pod("late", nodeName, "1"), pod("refused", nodeName, "1")} {
		if _, err := client.CoreV1().Pods("ns").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := k.lookAtPods(t.Context(), held); err != nil {
			t.Error(err)
		}
		if phase(p.Name) != corev1.PodFailed {
			t.Errorf("%s is %q", p.Name, phase(p.Name))
		}
		deleted, err := client.CoreV1().Pods("ns").Get(t.Context(), "two", metav1.GetOptions{})
		if err != nil {
			break
		}
		deleted.DeletionTimestamp = &metav1.Time{}
		if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), deleted, "ns"); err != nil {
			t.Fatal(err)
		}
		if err := k.lookAtPods(t.Context(), held); err != nil {
			t.Error(err)
		}
		plugin.err = errors.New("no free CUs")
	}
	want := `ns/two, container a:
  env     A=b
  env     IDS=4
  device  /dev/kfd
  mount   /h on /c
ns/two, container b:
  env     A=b
  env     IDS=2,1
  device  /dev/kfd
  mount   /h on /c
ns/late is refused: container a: amd.com/gpu: want 1 devices, 0 are free
ns/refused is refused: container a: no free CUs
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if len(held) != 1 {
		t.Errorf("held by %v, want the pod without a GPU alone", held)
	}
}
