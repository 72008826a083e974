package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// rig is a cluster of one MI300X node in the API server.
type rig struct {
	t         *testing.T
	client    kubernetes.Interface
	scheduler *scheduler.Scheduler

	namespaces []string // with pods
}

const nodeName = "mi300x-1"

func newRig(t *testing.T) *rig {
	t.Helper()
	client, err := kubernetes.NewForConfig(control.Admin())
	if err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(client, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, client: client, scheduler: s}
	r.addNode()
	return r
}

func (r *rig) addNode() {
	r.t.Helper()
	inventory, err := partition.Discover(fixturetest.Machine(r.t, "mi300x-spx-8"))
	if err != nil {
		r.t.Fatal(err)
	}
	devices, err := inventory.Devices(partition.RegisterOptions{NodeName: nodeName})
	if err != nil {
		r.t.Fatal(err)
	}
	value, err := annotations.EncodeDevices(devices)
	if err != nil {
		r.t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Annotations: map[string]string{annotations.NodeRegisterKey: value}}}
	nodes := r.client.CoreV1().Nodes()
	if node, err = nodes.Create(r.t.Context(), node, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		if err := nodes.Delete(ctx, nodeName, metav1.DeleteOptions{}); err != nil {
			r.t.Error(err)
		}
		now := int64(0)
		for _, namespace := range r.namespaces {
			err := r.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
			if err != nil {
				r.t.Error(err)
			}
		}
	})
	gpus := corev1.ResourceList{partition.ResourceGPU: resource.MustParse("80")}
	node.Status.Capacity, node.Status.Allocatable = gpus, gpus
	if node, err = nodes.UpdateStatus(r.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	// Admission gives every new node the taint not-ready, which the node controller
	// takes off again: there is none here.
	node.Spec.Taints = nil
	if _, err := nodes.Update(r.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// create creates a pod of a namespace, which it makes, as the webhook leaves it.
func (r *rig) create(namespace, name string, limits corev1.ResourceList) *corev1.Pod {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := r.client.CoreV1().Namespaces().Create(r.t.Context(), ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatal(err)
	}
	if !slices.Contains(r.namespaces, namespace) {
		r.namespaces = append(r.namespaces, namespace)
	}
	pod, err := r.scheduler.Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "hami-scheduler",
			Containers:    []corev1.Container{{Name: "main", Image: "rocm/pytorch", Resources: corev1.ResourceRequirements{Limits: limits}}},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return pod
}

// run takes a pod of one container all the way: what scheduler, plugin and
// kubelet would write of it.
func (r *rig) run(pod *corev1.Pod, cus cumask.Set, kubeletID string) {
	r.t.Helper()
	ctx := r.t.Context()
	decision, err := r.scheduler.Filter(ctx, pod)
	if err != nil {
		r.t.Fatal(err)
	}
	if pod, err = r.scheduler.Bind(ctx, decision.Pod, decision.Node); err != nil {
		r.t.Fatal(err)
	}
	held := map[string]cumask.Set{decision.Grants[0][0].UUID: cus}
	union, err := annotations.EncodeCUs(held)
	if err != nil {
		r.t.Fatal(err)
	}
	containers, err := annotations.EncodeContainerCUs(map[string]annotations.ContainerCUs{"main": {IDs: []string{kubeletID}, CUs: held}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.annotate(pod.Namespace, pod.Name, map[string]string{
		annotations.CUAllocatedKey: union, annotations.CUContainersKey: containers, annotations.ToAllocateKey: ";",
		annotations.BindPhaseKey: string(annotations.BindSuccess),
	})
	if err := r.scheduler.ReleaseLock(ctx, decision.Node, pod); err != nil {
		r.t.Fatal(err)
	}
	if pod, err = r.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
		r.t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := r.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) annotate(namespace, name string, values map[string]string) {
	r.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Pods(namespace).Patch(r.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func slice(mib, cores string) corev1.ResourceList {
	return corev1.ResourceList{
		"amd.com/gpu": resource.MustParse("1"), "amd.com/gpumem": resource.MustParse(mib), "amd.com/gpucores": resource.MustParse(cores),
	}
}

// result is what a program left behind.
type result struct {
	stdout, stderr string
	code           int
}

// kubeconfig writes one for a test.
func kubeconfig(t *testing.T, access *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.WriteKubeconfig(path, access); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program with nothing but the binaries on the PATH.
func run(t *testing.T, kubeconfig string, program string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, program), args...)
	cmd.Env = []string{"PATH=" + binaries, "HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}
	return output(t, cmd)
}

func output(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// oneLine fails unless a program printed nothing but one line with all words,
// and exited with 1.
func oneLine(t *testing.T, r result, words ...string) {
	t.Helper()
	line, rest, _ := strings.Cut(r.stderr, "\n")
	if r.code != 1 || r.stdout != "" || rest != "" || !strings.HasPrefix(line, "kubectl amd: ") {
		t.Errorf("exit code %d, output %q, standard error %q, want code 1 and one line", r.code, r.stdout, r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("error %q does not name %q", line, word)
		}
	}
}
