package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// cluster is what the plugin asks the API server.
type cluster struct {
	client  kubernetes.Interface
	node    string
	request time.Duration // bounds each request
}

// view is the node and its pods as they were read for one decision.
type view struct {
	node *corev1.Node
	pods []corev1.Pod
	// mark is of the ledger, from before the pods were read.
	mark uint64
	at   time.Time
}

func (v *view) pod(uid types.UID) *corev1.Pod {
	for i := range v.pods {
		if v.pods[i].UID == uid {
			return &v.pods[i]
		}
	}
	return nil
}

func (v *view) named(namespace, name string) *corev1.Pod {
	for i := range v.pods {
		if v.pods[i].Namespace == namespace && v.pods[i].Name == name {
			return &v.pods[i]
		}
	}
	return nil
}

// lock returns the node lock with its text. No lock and a lock without an
// owner are errors.
func (v *view) lock() (text string, lock annotations.NodeLock, err error) {
	text, locked := v.node.Annotations[annotations.NodeLockKey]
	if !locked {
		return "", annotations.NodeLock{}, fmt.Errorf("%w: no pod holds the lock of node %q", errNoOwner, v.node.Name)
	}
	lock, err = annotations.ParseNodeLock(text)
	if err != nil {
		return "", annotations.NodeLock{}, fmt.Errorf("%w: node %q: %w", errNoOwner, v.node.Name, err)
	}
	if lock.Legacy() {
		return "", annotations.NodeLock{}, fmt.Errorf("%w: the lock of node %q names no pod", errNoOwner, v.node.Name)
	}
	return text, lock, nil
}

// errNoOwner is a node whose lock does not say which pod is to be served:
// then nothing is served, and no pod is touched.
var errNoOwner = errors.New("no pod is being bound to this node by HAMi's scheduler")

func (c *cluster) getNode(ctx context.Context) (node *corev1.Node, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		node, err = c.client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get node %q: %w", c.node, err)
	}
	return node, nil
}

// listPods reads all pods bound to the node, as they are in etcd at this
// moment: no resourceVersion means the most recent data, and anything older
// could miss the pod that kubelet is asking for.
func (c *cluster) listPods(ctx context.Context) (pods *corev1.PodList, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		pods, err = c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: c.onNode()})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of node %q: %w", c.node, err)
	}
	return pods, nil
}

func (c *cluster) onNode() string {
	return fields.OneTermEqualSelector("spec.nodeName", c.node).String()
}

// getPod reads a pod by its name; another pod of that name has another uid.
func (c *cluster) getPod(ctx context.Context, namespace, name string) (pod *corev1.Pod, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		pod, err = c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get pod %q: %w", namespace+"/"+name, err)
	}
	return pod, nil
}

// patchPod and patchNode send a patch once.
func (c *cluster) patchPod(ctx context.Context, namespace, name string, p jsonPatch) error {
	content, err := p.bytes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.request)
	defer cancel()
	_, err = c.client.CoreV1().Pods(namespace).Patch(ctx, name, types.JSONPatchType, content, metav1.PatchOptions{})
	return err
}

func (c *cluster) patchNode(ctx context.Context, p jsonPatch) error {
	content, err := p.bytes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.request)
	defer cancel()
	_, err = c.client.CoreV1().Nodes().Patch(ctx, c.node, types.JSONPatchType, content, metav1.PatchOptions{})
	return err
}

// again makes a read until it succeeds, fails for good, or ctx ends. An API
// server that restarts is back within seconds, while a pod that kubelet
// rejects is gone for good.
func (c *cluster) again(ctx context.Context, read func(context.Context) error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, c.request)
			defer cancel()
			return read(ctx)
		}()
		if err == nil || !transient(err) {
			return err
		}
		if !sleep(ctx, pause) {
			return err
		}
	}
}

// sleep waits and tells whether ctx is still on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// finished pods hold nothing: kubelet reports these phases once no container
// runs any more. A pod that is being deleted holds what it has until then.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
