package monitor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/annotations"
)

const (
	// DefaultResync is how often a [Watch] lists everything anew.
	DefaultResync = 10 * time.Minute
	// listTime bounds one list of a node's pods.
	listTime = 30 * time.Second
)

// ErrNotListed is what a [Watch] answers before it has seen the pods and the
// node once.
var ErrNotListed = errors.New("not listed yet")

// WatchOptions are choices about a [Watch]. The zero value works.
type WatchOptions struct {
	// Resync is how often everything is listed anew, in case the watch missed
	// something; 0 is DefaultResync.
	Resync time.Duration
}

// Watch is a [Cluster] that follows one node and its pods with LIST and WATCH,
// both limited by field selector, so that the API server sends nothing of other
// nodes. It keeps only the pods that were given GPUs, and of them only what a
// collector reads.
//
// It needs the rights to list and watch pods and nodes.
type Watch struct {
	pods   *store[*corev1.Pod]
	nodes  *store[*corev1.Node]
	resync time.Duration
}

// NewWatch makes a watch of a node. It asks nothing before Run.
func NewWatch(client kubernetes.Interface, node string, o WatchOptions) *Watch {
	if o.Resync <= 0 {
		o.Resync = DefaultResync
	}
	pods := &store[*corev1.Pod]{
		what: fmt.Sprintf("pods of node %q", node),
		trim: func(p *corev1.Pod) (*corev1.Pod, bool) {
			_, granted := p.Annotations[annotations.AllocatedKey]
			return trimPod(p), granted && p.Spec.NodeName == node
		},
	}
	nodes := &store[*corev1.Node]{
		what: fmt.Sprintf("node %q", node),
		trim: func(n *corev1.Node) (*corev1.Node, bool) { return trimNode(n), n.Name == node },
	}
	onNode := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods.lw = listWatcher(client, onNode, pods.seen,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		}, func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		})
	itself := fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
	nodes.lw = listWatcher(client, itself, nodes.seen,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, o)
		}, func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return client.CoreV1().Nodes().Watch(ctx, o)
		})
	return &Watch{pods: pods, nodes: nodes, resync: o.Resync}
}

// Run follows the node until ctx ends, through failures of the API server.
func (w *Watch) Run(ctx context.Context) {
	// What fails is in the answers; nothing is logged from here.
	ctx = klog.NewContext(ctx, klog.Logger{})
	var wg sync.WaitGroup
	wg.Go(func() { follow(ctx, w.pods.lw, &corev1.Pod{}, w.pods, w.resync) })
	wg.Go(func() { follow(ctx, w.nodes.lw, &corev1.Node{}, w.nodes, w.resync) })
	wg.Wait()
}

// Ready tells why the pods or the node are not known yet, nil once they are.
func (w *Watch) Ready() error {
	return errors.Join(w.pods.unlisted(), w.nodes.unlisted())
}

// Pods implements [Cluster].
func (w *Watch) Pods() ([]*corev1.Pod, error) { return w.pods.all() }

// Node implements [Cluster].
func (w *Watch) Node() (*corev1.Node, error) {
	nodes, err := w.nodes.all()
	switch {
	case len(nodes) > 0:
		return nodes[0], err
	case err == nil:
		err = fmt.Errorf("%s: there is none", w.nodes.what)
	}
	return nil, err
}

// follow fills a store until ctx ends, from a new list each resync, at
// different times on each node.
func follow(ctx context.Context, lw cache.ListerWatcher, kind runtime.Object, s cache.ReflectorStore, resync time.Duration) {
	for ctx.Err() == nil {
		limit := time.Duration(float64(resync) * (0.9 + 0.2*rand.Float64()))
		short, cancel := context.WithTimeout(ctx, limit)
		cache.NewReflectorWithOptions(lw, kind, s, cache.ReflectorOptions{}).RunWithContext(short)
		cancel()
	}
}

type (
	listFunc  = cache.ListWithContextFunc
	watchFunc = cache.WatchFuncWithContext
)

// listWatcher adds a field selector and a time limit, and tells seen how each
// request went.
func listWatcher(client kubernetes.Interface, selector string, seen func(error), list listFunc, watch watchFunc) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			limited, cancel := context.WithTimeout(ctx, listTime)
			defer cancel()
			found, err := list(limited, o)
			if ctx.Err() == nil {
				seen(err)
			}
			return found, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.FieldSelector = selector
			w, err := watch(ctx, o)
			if ctx.Err() == nil {
				seen(err)
			}
			return w, err
		},
	}, client)
}
