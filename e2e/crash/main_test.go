package crash

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

var (
	randomKills = flag.Int("crash.random", 12, "how often TestKillAtRandom kills the plugin")
	randomSeed  = flag.Uint64("crash.seed", 0, "the seed of the random tests; 0 is a new one")
)

// lab is the control plane all tests of this package share.
var lab *node.Lab

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(node.Run(func(l *node.Lab) int { lab = l; return m.Run() }))
}

// The calls that an admission makes, by what they are about.
const (
	getNode   = "GET node"
	listPods  = "LIST pods"
	patchPod  = "PATCH pod"
	patchNode = "PATCH node"
)

// kindOf names a call to the API server; "" is one that no admission makes.
func kindOf(c proxy.Call) string {
	onPod := strings.HasPrefix(c.Path, "/api/v1/namespaces/") && strings.Contains(c.Path, "/pods/")
	onNode := strings.HasPrefix(c.Path, "/api/v1/nodes/") && strings.Count(c.Path, "/") == 4
	switch {
	case c.Watch:
	case c.Method == "GET" && onNode:
		return getNode
	case c.Method == "GET" && c.Path == "/api/v1/pods":
		return listPods
	case c.Method == "PATCH" && onPod:
		return patchPod
	case c.Method == "PATCH" && onNode:
		return patchNode
	}
	return ""
}

// point is a moment of an admission: before a call takes effect or after.
type point struct {
	kind   string
	number int // the how-manieth call of this kind
	after  bool
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("%s %s %d", when, p.kind, p.number)
}

// at returns an interceptor that breaks the call of one point: it calls f there,
// and the call gets no answer. hit tells whether it came to that.
func at(p point, f func()) (intercept func(proxy.Call) proxy.Fault, hit func() bool) {
	if p.after {
		return once(p, proxy.Fault{After: f, CutAnswer: true})
	}
	return once(p, proxy.Fault{Before: f, CutRequest: true})
}

// once returns an interceptor that gives the call of one point a fault.
func once(p point, fault proxy.Fault) (intercept func(proxy.Call) proxy.Fault, hit func() bool) {
	seen := 0
	var done atomic.Bool
	return func(c proxy.Call) proxy.Fault {
		if kindOf(c) != p.kind {
			return proxy.Fault{}
		}
		if seen++; seen != p.number {
			return proxy.Fault{}
		}
		done.Store(true)
		return fault
	}, done.Load
}

// initContainer is the shape of pods that do not survive a restart of kubelet.
const initContainer = "an init container"

// shapes are pods of at least two containers with GPUs, which make every call
// that an admission can make.
func shapes(n *node.Node) map[string]func(name string) *corev1.Pod {
	pod := func(init, app []corev1.Container) func(string) *corev1.Pod {
		return func(name string) *corev1.Pod {
			p := n.Pod(name, app...)
			p.Spec.InitContainers = init
			return p
		}
	}
	type list = []corev1.Container
	return map[string]func(string) *corev1.Pod{
		"two slices":              pod(nil, list{node.Slice("a", 1, 25, 16384), node.Slice("b", 1, 12, 8192)}),
		"two slices of one GPU":   packed(pod(nil, list{node.Slice("a", 1, 10, 4096), node.Slice("b", 1, 20, 4096)})),
		initContainer:             pod(list{node.Slice("init", 1, 50, 16384)}, list{node.Slice("app", 1, 25, 16384)}),
		"a sidecar":               pod(list{node.Sidecar(node.Slice("sidecar", 1, 5, 2048))}, list{node.Slice("app", 1, 10, 4096)}),
		"several GPUs each":       pod(nil, list{node.Slice("a", 3, 10, 4096), node.Plain("plain"), node.Slice("b", 2, 5, 2048)}),
		"a whole GPU and a slice": pod(nil, list{node.Whole("a", 1), node.Slice("b", 1, 25, 16384)}),
	}
}

// packed makes the pod's grants share GPUs where they can.
func packed(make func(string) *corev1.Pod) func(string) *corev1.Pod {
	return func(name string) *corev1.Pod {
		p := make(name)
		p.Annotations = map[string]string{annotations.GPUSchedulerPolicyKey: annotations.PolicyBinpack}
		return p
	}
}
