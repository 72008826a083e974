package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Where a node has what the collector reads.
const (
	DefaultSysfsRoot  = "/sys"
	DefaultCgroupRoot = "/sys/fs/cgroup"
	DefaultHookPath   = "/usr/local"
	// DefaultTimeout ends a collection before Prometheus' own default of 10 s
	// does.
	DefaultTimeout = 8 * time.Second
)

// Cluster is what the collector asks about the node. Both methods answer at
// once, from what was seen last, and what they answer is never changed.
// An error beside an answer says that it may be old. See [Watch].
type Cluster interface {
	// Pods are the pods bound to the node.
	Pods() ([]*corev1.Pod, error)
	// Node is the node itself, with its annotations.
	Node() (*corev1.Node, error)
}

// Options say what to collect, and where. The zero value works but for
// NodeName and Cluster.
type Options struct {
	// NodeName is the Kubernetes name of the node, the label "node".
	NodeName string
	Cluster  Cluster
	// SysfsRoot is where sysfs is mounted; "" is DefaultSysfsRoot.
	SysfsRoot string
	// CgroupRoot is where the host's cgroup2 tree is mounted: the whole tree
	// and not the container's own view of it. "" is DefaultCgroupRoot.
	CgroupRoot string
	// HookPath is the directory that holds vgpu/containers, the memory hook's
	// regions; "" is DefaultHookPath.
	HookPath string
	// Timeout ends a collection, which then has what was read by then; 0 is
	// DefaultTimeout.
	Timeout time.Duration
	// Problems is called after each collection with what went wrong in it,
	// nil if nothing did. It can be called by several goroutines at once.
	Problems func([]error)
}

// Collector is a [prometheus.Collector] for the GPUs of one node and the
// containers on them. Collections may overlap; what they read of one GPU and of
// one pod at the same time they share.
type Collector struct {
	node     string
	cluster  Cluster
	sysfs    string
	hookPath string
	timeout  time.Duration
	problems func([]error)

	descs   descs
	cgroups *cgroups
	scanner *partition.Scanner // used in flights of the key "node" alone

	// flights has one reader at a time for each GPU and each pod: one that
	// hangs in the kernel is waited for until the collection ends, by the next
	// one again, and is never joined by a second.
	flights singleflight.Group
	// readers bounds how many pods are read at once: each holds one of these.
	readers chan *regionBuffer

	mu      sync.Mutex // for what follows
	last    nodeState
	decoded map[types.UID]decodedPod
}

// maxReaders is how many pods are read at once. That one of them hangs, on a
// disk with a hook's region, leaves the others.
const maxReaders = 16

// New makes a collector. It reads nothing yet and registers nowhere.
func New(o Options) (*Collector, error) {
	switch {
	case o.NodeName == "":
		return nil, errors.New("monitor: want the name of the node, have none")
	case o.Cluster == nil:
		return nil, errors.New("monitor: want a cluster to ask for the node's pods, have none")
	case o.Timeout < 0:
		return nil, fmt.Errorf("monitor: want a timeout of 0 or more, have %s", o.Timeout)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Problems == nil {
		o.Problems = func([]error) {}
	}
	sysfs := cmp.Or(o.SysfsRoot, DefaultSysfsRoot)
	c := &Collector{
		node: o.NodeName, cluster: o.Cluster, sysfs: sysfs,
		hookPath: cmp.Or(o.HookPath, DefaultHookPath),
		timeout:  o.Timeout, problems: o.Problems,
		descs:   newDescs(),
		cgroups: newCgroups(cmp.Or(o.CgroupRoot, DefaultCgroupRoot)),
		scanner: partition.NewScanner(sysfs),
		decoded: make(map[types.UID]decodedPod),
		readers: make(chan *regionBuffer, maxReaders),
	}
	for range maxReaders {
		c.readers <- new(regionBuffer)
	}
	return c, nil
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs.all() {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. It ends after the timeout of the
// options; [Collector.WithContext] can end it before.
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(context.Background(), ch) }

// WithContext is the collector for one scrape: its collections end with ctx at
// the latest. What has not been read by then is missing and counts as a
// failure; it is read on, if the kernel keeps it, for the next collection.
func (c *Collector) WithContext(ctx context.Context) prometheus.Collector {
	return scrape{c, ctx}
}

type scrape struct {
	*Collector
	ctx context.Context
}

// Collect implements [prometheus.Collector].
func (s scrape) Collect(ch chan<- prometheus.Metric) { s.collect(s.ctx, ch) }

func (c *Collector) collect(ctx context.Context, ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out := &output{ch: ch, seen: make(map[series]bool)}

	known, regions := c.readNode(ctx, out)
	gpus := make([]<-chan singleflight.Result, len(known.gpus))
	for i, g := range known.gpus {
		gpus[i] = c.flights.DoChan("gpu/"+string(g.bdf), func() (any, error) {
			var r gpuResult
			r.sensors, r.problems = readSensors(c.sysfs, g.bdf, g.apu)
			return r, nil
		})
	}
	pods := c.pods(out)
	results := make([]<-chan singleflight.Result, len(pods))
	committed := make(map[string]commitment)
	for i, pod := range pods {
		for _, own := range c.decode(pod, known).committed {
			committed[own.id] = committed[own.id].plus(own)
		}
		results[i] = c.flights.DoChan("pod/"+pod.Namespace+"/"+pod.Name+"/"+string(pod.UID), func() (any, error) {
			buf := <-c.readers
			defer func() { c.readers <- buf }()
			return c.readPod(pod, known, regions, buf), nil
		})
	}

	for i, g := range known.gpus {
		r, err := wait[gpuResult](ctx, gpus[i])
		if err != nil {
			out.problem(fmt.Errorf("gpu %s was not read: %w", g.bdf, err))
		}
		c.putGPU(out, g, r)
	}
	for _, dev := range known.registered {
		c.putRegistered(out, dev, committed[dev.ID])
	}
	late := 0
	for i, pod := range pods {
		r, err := wait[podResult](ctx, results[i])
		if err != nil {
			late++
			continue
		}
		c.putPod(out, pod, r)
	}
	if late > 0 {
		out.problem(fmt.Errorf("%d of %d pods were not read: %w", late, len(pods), context.Cause(ctx)))
	}

	success := 1.0
	if len(out.problems) > 0 {
		success = 0
	}
	out.put(c.descs.success, success, c.node)
	c.problems(out.problems)
}

// wait is the result of a flight, or why there is none when ctx ends.
func wait[T any](ctx context.Context, flight <-chan singleflight.Result) (T, error) {
	select {
	case r := <-flight:
		v, _ := r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
	}
	select {
	case r := <-flight: // both were ready
		v, _ := r.Val.(T)
		return v, r.Err
	default:
		var none T
		return none, context.Cause(ctx)
	}
}

// pods are the pods that were given GPUs, in order of namespace and name.
func (c *Collector) pods(out *output) []*corev1.Pod {
	all, err := c.cluster.Pods()
	if err != nil {
		out.problem(err)
	}
	var pods []*corev1.Pod
	live := make(map[types.UID]bool)
	for _, pod := range all {
		if _, ok := pod.Annotations[annotations.AllocatedKey]; !ok || pod.Spec.NodeName != c.node || finished(pod) {
			continue
		}
		live[pod.UID] = true
		pods = append(pods, pod)
	}
	c.cgroups.keep(live)
	c.keepDecoded(live)
	slices.SortFunc(pods, byName)
	return pods
}

// gpuResult is what was read about a GPU.
type gpuResult struct {
	sensors
	problems []error
}

func (c *Collector) putGPU(out *output, g *gpu, r gpuResult) {
	for _, err := range r.problems {
		out.problem(err)
	}
	labels := []string{c.node, strconv.FormatUint(uint64(g.index), 10), g.id, g.typ}
	for _, m := range []struct {
		desc  *prometheus.Desc
		value *float64
	}{
		{c.descs.hostUsed, r.usedBytes},
		{c.descs.hostTotal, r.totalBytes},
		{c.descs.hostBusy, r.busyPercent},
		{c.descs.hostTemperature, r.temperatureC},
		{c.descs.hostPower, r.powerW},
	} {
		if m.value != nil {
			out.put(m.desc, *m.value, labels...)
		}
	}
}
