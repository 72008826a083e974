package e2e

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
)

const testResource = "amd.com/gpu"

// startKubelet starts a kubelet on a fresh folder and removes its node after
// the test.
func startKubelet(t *testing.T, client kubernetes.Interface, o kubelet.Options) *kubelet.Kubelet {
	t.Helper()
	k, err := kubelet.Start(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
		if err := k.RemoveNode(cleanupContext(t)); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(kubelet.Folder); err != nil {
			t.Error(err)
		}
	})
	return k
}

// startNode starts a kubelet with a stand-in plugin that has registered.
func startNode(t *testing.T, client kubernetes.Interface, devices int) (*kubelet.Kubelet, *standIn) {
	t.Helper()
	k := startKubelet(t, client, kubelet.Options{NodeName: "node-" + strings.ToLower(rand.Text()[:8])})
	plugin := startStandIn(t, testResource, devices)
	ctx := testContext(t)
	if err := plugin.register(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.WaitCapacity(ctx, testResource, int64(devices)); err != nil {
		t.Fatal(err)
	}
	return k, plugin
}

// gpuContainer asks for count devices.
func gpuContainer(name string, count int64) corev1.Container {
	c := corev1.Container{Name: name, Image: "none"}
	if count > 0 {
		c.Resources.Limits = corev1.ResourceList{testResource: *resource.NewQuantity(count, resource.DecimalSI)}
	}
	return c
}

// boundPod creates a pod that is on the node already, without any scheduler.
func boundPod(t *testing.T, client kubernetes.Interface, node string, spec corev1.PodSpec) *corev1.Pod {
	t.Helper()
	spec.NodeName = node
	pod, err := client.CoreV1().Pods("default").Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestKubeletAllocatesInContainerOrder(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 8)
	node, err := client.CoreV1().Nodes().Get(ctx, k.NodeName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for list, resources := range map[string]corev1.ResourceList{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable} {
		if q := resources[testResource]; q.Value() != 8 {
			t.Errorf("%s of the node is %d, want 8", list, q.Value())
		}
	}

	sidecar, app := gpuContainer("sidecar", 1), gpuContainer("app", 2)
	always := corev1.ContainerRestartPolicyAlways
	sidecar.RestartPolicy = &always
	app.Env = []corev1.EnvVar{{Name: "STANDIN_LIMIT", Value: "2"}}
	pod := boundPod(t, client, k.NodeName(), corev1.PodSpec{
		InitContainers: []corev1.Container{gpuContainer("prepare", 1), sidecar},
		Containers:     []corev1.Container{gpuContainer("plain", 0), app},
	})
	if err := k.Admit(ctx, pod); err != nil {
		t.Fatal(err)
	}
	// The first app container may have what an init container no longer needs:
	// kubelet takes gpu7 again, and asks for one more.
	want := [][]string{{"gpu7"}, {"gpu7"}, {"gpu5", "gpu6"}}
	if diff := cmp.Diff(want, plugin.calls()); diff != "" {
		t.Errorf("Allocate calls (-want +got):\n%s", diff)
	}
	settings, err := k.Run(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}
	standInSettings := func(devices, limit string) kubelet.Container {
		return kubelet.Container{
			Env:         map[string]string{"STANDIN_DEVICES": devices, "STANDIN_LIMIT": limit},
			Devices:     []kubelet.Device{{Host: "/dev/null", Container: "/dev/kfd", Permissions: "rw"}},
			Mounts:      []kubelet.Mount{{Host: "/tmp", Container: "/usr/local/vgpu", ReadOnly: true}},
			Annotations: map[string]string{},
		}
	}
	wantSettings := map[string]kubelet.Container{
		"prepare": standInSettings("gpu7", "1"),
		"sidecar": standInSettings("gpu7", "1"),
		"plain":   {Env: map[string]string{}, Annotations: map[string]string{}},
		"app":     standInSettings("gpu5,gpu6", "2"),
	}
	if diff := cmp.Diff(wantSettings, settings); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	got, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != corev1.PodRunning || got.Status.InitContainerStatuses[0].State.Terminated == nil || got.Status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("status is %+v, want running, the init container finished and the sidecar running", got.Status)
	}
}

func TestKubeletRejectsPodWhoseAllocateFails(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 2)
	plugin.setRefusal(errRefused)
	one := corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 1)}}
	pod := boundPod(t, client, k.NodeName(), one)
	var rejection *kubelet.Rejection
	if err := k.Admit(ctx, pod); !errors.As(err, &rejection) || rejection.Reason != "UnexpectedAdmissionError" {
		t.Fatalf("admit: %v, want an UnexpectedAdmissionError", err)
	}
	got, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const message = "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = the stand-in refuses, which is unexpected"
	want := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError", Message: message, QOSClass: corev1.PodQOSBestEffort}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	// The devices of the rejected pod and of a finished one are free again.
	plugin.setRefusal(nil)
	both := corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 2)}}
	for range 2 {
		pod := boundPod(t, client, k.NodeName(), both)
		if err := k.Admit(ctx, pod); err != nil {
			t.Fatal(err)
		}
		if err := k.Finish(ctx, pod, corev1.PodSucceeded); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Admit(ctx, boundPod(t, client, "elsewhere", one)); !errors.Is(err, kubelet.ErrOtherNode) {
		t.Errorf("admit a pod of another node: %v, want ErrOtherNode", err)
	}
}

func TestKubeletWritesTheVerdictAfterAnOutage(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 2)
	plugin.setRefusal(errRefused)
	pod := boundPod(t, client, k.NodeName(), corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 1)}})
	stopAPIServer(t)
	admitted := make(chan error, 1)
	go func() { admitted <- k.Admit(ctx, pod) }()
	eventually(t, "Allocate while the API server is away", func() error {
		if len(plugin.calls()) == 0 {
			return errors.New("not called")
		}
		return nil
	})
	if err := control.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	var rejection *kubelet.Rejection
	if err := <-admitted; !errors.As(err, &rejection) {
		t.Fatalf("admit: %v, want a rejection", err)
	}
	got, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status.Phase != corev1.PodFailed {
		t.Errorf("phase after the outage is %s, want Failed", got.Status.Phase)
	}
}

func TestKubeletFollowsHealth(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 2)
	plugin.setHealth("gpu1", pluginapi.Unhealthy)
	if err := k.WaitCapacity(ctx, testResource, 1); err != nil {
		t.Fatal(err)
	}
	pod := boundPod(t, client, k.NodeName(), corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 2)}})
	var rejection *kubelet.Rejection
	if err := k.Admit(ctx, pod); !errors.As(err, &rejection) || !strings.Contains(rejection.Message, "Requested: 2, Available: 1") {
		t.Errorf("admit: %v, want a rejection that names the one device left", err)
	}
	if calls := plugin.calls(); len(calls) != 0 {
		t.Errorf("Allocate was called for %v", calls)
	}
}

func TestKubeletRestarts(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	k, plugin := startNode(t, client, 2)
	pod := boundPod(t, client, k.NodeName(), corev1.PodSpec{Containers: []corev1.Container{gpuContainer("app", 1)}})
	if err := k.Admit(ctx, pod); err != nil {
		t.Fatal(err)
	}
	first, err := k.Run(ctx, pod)
	if err != nil {
		t.Fatal(err)
	}

	// The plugin's socket is removed: it must serve anew and register again.
	socket := filepath.Join(kubelet.Folder, standInSocket)
	serveAgain := func() error {
		if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the plugin's socket after a restart of kubelet: %v, want none", err)
		}
		if total, _ := k.Capacity(testResource); total != 0 {
			t.Errorf("capacity right after a restart is %d, want 0", total)
		}
		plugin.server.Stop()
		plugin.listen(t)
		if err := plugin.register(ctx); err != nil {
			return err
		}
		return k.WaitCapacity(ctx, testResource, 2)
	}
	rejections, err := k.Restart(ctx, kubelet.RestartOptions{})
	if err != nil || len(rejections) > 0 {
		t.Fatalf("restart with a running pod: %v, rejections %v", err, rejections)
	}
	if err := serveAgain(); err != nil {
		t.Fatal(err)
	}
	if want := []string{first["app"].Env["STANDIN_DEVICES"]}; !slices.Equal(k.DeviceIDs(pod.UID, "app")[testResource], want) || len(plugin.calls()) != 1 {
		t.Errorf("after a restart the pod has %v and Allocate was called for %v, want %v and one call", k.DeviceIDs(pod.UID, "app"), plugin.calls(), want)
	}

	// Without its checkpoint kubelet asks the plugin again for a pod it finds.
	rejections, err = k.Restart(ctx, kubelet.RestartOptions{Reboot: true, Forget: true, BeforePods: serveAgain})
	if err != nil || len(rejections) > 0 {
		t.Fatalf("restart after a reboot: %v, rejections %v", err, rejections)
	}
	if len(plugin.calls()) != 2 {
		t.Errorf("Allocate was called for %v, want a second call", plugin.calls())
	}

	// A reboot where the plugin comes late: kubelet rejects the pod by itself.
	rejections, err = k.Restart(ctx, kubelet.RestartOptions{Reboot: true})
	if err != nil || len(rejections) != 1 || rejections[0].Reason != "UnexpectedAdmissionError" {
		t.Errorf("restart after a reboot without a plugin: %v, rejections %v, want one UnexpectedAdmissionError", err, rejections)
	}
}
