package prometheus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/process"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

const (
	nodeName  = "gpu-node"
	namespace = "tenants"
	mib       = 1 << 20
)

// node is a machine that the API server knows, with a dmem controller.
type node struct {
	*testing.T
	client  kubernetes.Interface
	sysfs   string
	kernel  *dmemtest.Kernel
	devices []annotations.Device
}

func (n *node) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// newNode is a machine of testdata, registered in cu mode, with a dmem region
// for each GPU. The device with the index sick is registered as unhealthy.
func newNode(t *testing.T, machine string, sick int) *node {
	n := &node{T: t, sysfs: fixturetest.Machine(t, machine)}
	var err error
	n.client, err = kubernetes.NewForConfig(control.Admin())
	n.must(err)
	inventory, err := partition.Discover(n.sysfs)
	n.must(err)
	n.devices, err = inventory.Devices(partition.RegisterOptions{NodeName: nodeName})
	n.must(err)
	n.devices[sick].Health = false
	n.kernel, err = dmemtest.New(t.TempDir(), dmemtest.Options{})
	n.must(err)
	t.Cleanup(func() { n.kernel.Close() })
	for i := range n.devices {
		n.must(n.kernel.AddRegion(n.region(i), uint64(n.devices[i].Devmem)*mib))
	}
	ctx := t.Context()
	_, err = n.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	n.must(err)
	n.register(n.devices)
	_, err = n.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	n.must(err)
	return n
}

// register writes the node's annotation, as the plugin does.
func (n *node) register(devices []annotations.Device) {
	n.Helper()
	value, err := annotations.EncodeDevices(devices)
	n.must(err)
	object, err := n.client.CoreV1().Nodes().Get(n.Context(), nodeName, metav1.GetOptions{})
	n.must(err)
	object.Annotations = map[string]string{annotations.NodeRegisterKey: value}
	_, err = n.client.CoreV1().Nodes().Update(n.Context(), object, metav1.UpdateOptions{})
	n.must(err)
}

// region is the dmem region of the i-th device.
func (n *node) region(i int) string {
	n.Helper()
	region, err := dmem.VRAMRegion(n.devices[i].CustomInfo.PCIBDF)
	n.must(err)
	return region
}

// run makes a pod with one container that was granted a share of the i-th
// device, runs and uses some memory. What it was granted of CUs are those from
// first on; memory limits are set unless it was granted all.
func (n *node) run(name string, i int, grant annotations.Grant, first int, used int64) {
	n.Helper()
	grant.UUID, grant.Type = n.devices[i].ID, n.devices[i].Type
	allocated, err := annotations.EncodePod(annotations.PodGrants{{grant}})
	n.must(err)
	set := cumask.Range(first, first+int(grant.CUs)-1)
	cus, err := annotations.EncodeCUs(map[string]cumask.Set{grant.UUID: set})
	n.must(err)
	containers, err := annotations.EncodeContainerCUs(map[string]annotations.ContainerCUs{
		"main": {IDs: []string{n.devices[i].CustomInfo.PCIBDF + "#0"}, CUs: map[string]cumask.Set{grant.UUID: set}},
	})
	n.must(err)
	pods := n.client.CoreV1().Pods(namespace)
	pod, err := pods.Create(n.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			annotations.AllocatedKey: allocated, annotations.CUAllocatedKey: cus, annotations.CUContainersKey: containers,
		}},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/train",
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{partition.ResourceGPU: resource.MustParse("1")},
			},
		}}},
	}, metav1.CreateOptions{})
	n.must(err)
	id := strings.Repeat(fmt.Sprintf("%x", len(name)+i), 64)[:64]
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", ContainerID: "containerd://" + id, Image: "x", ImageID: "x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	pod, err = pods.UpdateStatus(n.Context(), pod, metav1.UpdateOptions{})
	n.must(err)

	dir, err := dmem.PodPath(dmem.Systemd, dmem.Pod{UID: string(pod.UID), QoS: dmem.QoS(pod.Status.QOSClass)})
	n.must(err)
	scope := dir + "/cri-containerd-" + id + ".scope"
	n.must(n.kernel.Mkdir(scope))
	n.must(n.kernel.Delegate(dir))
	if grant.MemoryMiB < n.devices[i].Devmem {
		f, err := n.kernel.OpenWrite(dir + "/dmem.max")
		n.must(err)
		_, err = fmt.Fprintf(f, "%s %d", n.region(i), int64(grant.MemoryMiB)*mib)
		n.must(errors.Join(err, f.Close()))
	}
	n.must(n.kernel.Charge(scope, n.region(i), used))
}

// program is a process of the test, which ends with it.
type program struct {
	*process.Process
	address string // it listens at
}

var listens = regexp.MustCompile(`address="?(127\.0\.0\.1:[1-9][0-9]*)`)

// start runs a program and waits until it says in its log where it listens.
func start(t *testing.T, o process.Options) *program {
	t.Helper()
	o.Log = filepath.Join(t.TempDir(), o.Name+".log")
	p, err := process.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", o.Name, p.Tail(30))
		}
	})
	started := &program{Process: p}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.WaitReady(ctx, func(context.Context) error {
		m := listens.FindStringSubmatch(p.Tail(50))
		if m == nil {
			return errors.New("it does not say where it listens")
		}
		started.address = m[1]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// startMonitor runs the monitor with the rights that the chart gives it.
func (n *node) startMonitor() *program {
	n.Helper()
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		for _, o := range manifests(n.T, kind) {
			n.must(control.Apply(n.Context(), "kube-system", o.text))
		}
	}
	access, err := control.ServiceAccount(n.Context(), "kube-system", "amd-gpu-monitor")
	n.must(err)
	kubeconfig := filepath.Join(n.TempDir(), "kubeconfig")
	n.must(cluster.WriteKubeconfig(kubeconfig, access))
	return start(n.T, process.Options{
		Name: "k8s-vgpu-monitor", Path: monitorBinary, Env: []string{"NODE_NAME=" + nodeName},
		Args: []string{
			"-metrics_bind_address=127.0.0.1:0", "-kubeconfig=" + kubeconfig,
			"-sysfs_root=" + n.sysfs, "-cgroup_root=" + n.kernel.Dir(), "-host_hook_path=" + n.TempDir(),
		},
	})
}
