package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// cluster is what the plugin asks the API server.
type cluster struct {
	client  rest.Interface
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
		node, err = c.readNode(ctx)
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
		pods, err = c.readPods(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of node %q: %w", c.node, err)
	}
	return pods, nil
}

// readNode and readPods ask once.
func (c *cluster) readNode(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, c.get().Resource("nodes").Name(c.node).Do(ctx).Into(node)
}

func (c *cluster) readPods(ctx context.Context) (*corev1.PodList, error) {
	pods := &corev1.PodList{}
	return pods, c.podsOnNode().Do(ctx).Into(pods)
}

// podsOnNode is a request about all pods bound to the node.
func (c *cluster) podsOnNode() *rest.Request {
	return c.get().Resource("pods").Param("fieldSelector", fields.OneTermEqualSelector("spec.nodeName", c.node).String())
}

// get is a read of what is decoded fastest.
func (c *cluster) get() *rest.Request { return c.client.Get().UseProtobufAsDefault() }

// getPod reads a pod by its name; another pod of that name has another uid.
func (c *cluster) getPod(ctx context.Context, namespace, name string) (pod *corev1.Pod, err error) {
	err = c.again(ctx, func(ctx context.Context) error {
		pod = &corev1.Pod{}
		return c.get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	})
	if err != nil {
		return nil, fmt.Errorf("get pod %q: %w", namespace+"/"+name, err)
	}
	return pod, nil
}

// patchPod and patchNode send a patch once. What the object has become is of no
// interest to anyone.
func (c *cluster) patchPod(ctx context.Context, namespace, name string, p jsonPatch) error {
	content, err := p.bytes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.request)
	defer cancel()
	return c.client.Patch(types.JSONPatchType).Namespace(namespace).Resource("pods").Name(name).Body(content).Do(ctx).Error()
}

func (c *cluster) patchNode(ctx context.Context, p jsonPatch) error {
	content, err := p.bytes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.request)
	defer cancel()
	return c.client.Patch(types.JSONPatchType).Resource("nodes").Name(c.node).Body(content).Do(ctx).Error()
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
