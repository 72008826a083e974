package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
	"github.com/Project-HAMi/hami-amd/partition"
)

const (
	// capTime is how long to wait for a pod's cgroup: kubelet makes it some
	// seconds after Allocate. A pod whose limits do not hold by then is tried
	// again after capRetry, for as long as it lives.
	capTime  = time.Minute
	capRetry = 30 * time.Second
	// mirrorUID is the annotation with the uid kubelet knows a static pod by.
	mirrorUID = "kubernetes.io/config.hash"
)

// capper limits the VRAM of pods with slices through the kernel's dmem
// controller, in the background: the cgroup does not exist yet while kubelet
// waits for the answer. It is safe for concurrent use.
type capper struct {
	tree *dmem.Tree // nil: this node cannot, or shall not
	log  klog.Logger

	mu   sync.Mutex
	pods map[types.UID]*capState
	some chan struct{} // of one: there is something to do
}

type capState struct {
	holder  string
	caps    dmem.PodCaps
	running bool
	done    bool
	last    string // the failure logged last
}

// newCapper returns a capper for a tree, nil for none.
func newCapper(tree *dmem.Tree, log klog.Logger) *capper {
	return &capper{tree: tree, log: log, pods: make(map[types.UID]*capState), some: make(chan struct{}, 1)}
}

// openDmem finds out whether the node can limit VRAM. If not, that is said
// once, the tree is nil, and the memory hook is the only limit.
func openDmem(cfg Config, log klog.Logger) *dmem.Tree {
	if cfg.DisableDmem {
		log.Info("VRAM of slices is not capped by the kernel", "reason", "switched off")
		return nil
	}
	tree, err := dmem.Open(orDefault(cfg.CgroupRoot, "/sys/fs/cgroup"))
	if err == nil {
		if err = tree.Prepare(); err == nil {
			return tree
		}
		err = errors.Join(err, tree.Close())
	}
	log.Info("VRAM of slices is not capped by the kernel", "reason", err)
	return nil
}

func (c *capper) close() error {
	if c.tree == nil {
		return nil
	}
	return c.tree.Close()
}

// limitsAll tells whether the kernel limits each of these slices. An APU's
// memory is system memory, which dmem does not count.
func (c *capper) limitsAll(grants []annotations.Grant, s *snapshot) bool {
	if c.tree == nil {
		return false
	}
	regions, err := c.regions()
	if err != nil {
		return false
	}
	for _, g := range grants {
		d, ok := s.Device(g.UUID)
		if !ok || d.GPU.APU {
			return false
		}
		region, err := dmem.VRAMRegion(string(d.GPU.BDF))
		if err != nil || !regions[region] {
			return false
		}
	}
	return true
}

func (c *capper) regions() (map[string]bool, error) {
	list, err := c.tree.Regions()
	if err != nil {
		return nil, err
	}
	regions := make(map[string]bool, len(list))
	for _, r := range list {
		regions[r.Name] = true
	}
	return regions, nil
}

// want sees to it that a pod's limits come into force. Asking again for what
// holds already does nothing.
func (c *capper) want(pod *corev1.Pod, spec allocate.Pod, s *snapshot) {
	if c.tree == nil {
		return
	}
	holder := podspec.Holder(pod)
	caps, err := c.capsOf(pod, spec, s)
	if err != nil {
		c.log.Error(err, "VRAM is not capped by the kernel", "pod", klog.KObj(pod))
		return
	}
	if len(caps.Caps) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.pods[pod.UID]; ok && slices.Equal(old.caps.Caps, caps.Caps) {
		return
	}
	c.pods[pod.UID] = &capState{holder: holder, caps: caps}
	c.wake()
}

// forget drops pods that are gone, with their cgroups.
func (c *capper) forget(uids ...types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range uids {
		delete(c.pods, uid)
	}
}

func (c *capper) wake() {
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// run sets the limits until ctx ends, and returns when nothing is under way
// any more.
func (c *capper) run(ctx context.Context) {
	var batches sync.WaitGroup
	defer batches.Wait()
	retry := time.NewTicker(capRetry)
	defer retry.Stop()
	for {
		if uids, caps := c.waiting(); len(uids) > 0 {
			batches.Go(func() { c.apply(ctx, uids, caps) })
		}
		select {
		case <-ctx.Done():
			return
		case <-c.some:
		case <-retry.C:
		}
	}
}

// waiting takes the pods whose limits nobody is setting yet. At a start these
// are all pods of the node, which then share one watch on the cgroups.
func (c *capper) waiting() (uids []types.UID, caps []dmem.PodCaps) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid, p := range c.pods {
		if !p.done && !p.running {
			p.running = true
			uids, caps = append(uids, uid), append(caps, p.caps)
		}
	}
	return uids, caps
}

func (c *capper) apply(ctx context.Context, uids []types.UID, caps []dmem.PodCaps) {
	ctx, cancel := context.WithTimeout(ctx, capTime)
	defer cancel()
	errs := c.tree.CapPods(ctx, caps)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, uid := range uids {
		p, ok := c.pods[uid]
		if !ok || !slices.Equal(p.caps.Caps, caps[i].Caps) {
			continue // gone, or its limits are others by now
		}
		p.running, p.done = false, errs[i] == nil
		switch {
		case p.done:
			c.log.V(2).Info("Capped VRAM", "pod", p.holder, "caps", p.caps.Caps)
		case !errors.Is(errs[i], context.Canceled) && p.last != errs[i].Error():
			p.last = errs[i].Error()
			c.log.Error(errs[i], "VRAM is not capped by the kernel", "pod", p.holder)
		}
	}
}

// capsOf are the limits of a pod's cgroup. A GPU whose VRAM the kernel does
// not count has none.
func (c *capper) capsOf(pod *corev1.Pod, spec allocate.Pod, s *snapshot) (dmem.PodCaps, error) {
	grants, err := alignedGrants(&spec)
	if err != nil {
		return dmem.PodCaps{}, err
	}
	holders := make([]dmem.Holder, len(spec.Containers))
	for i, container := range spec.Containers {
		holders[i].Kind = kindOf(container.Role)
		for _, g := range grants[i] {
			d, ok := s.Device(g.UUID)
			if !ok {
				continue // gone since
			}
			grant, err := dmemGrant(g, d)
			if err != nil {
				return dmem.PodCaps{}, err
			}
			holders[i].Grants = append(holders[i].Grants, grant)
		}
	}
	caps, err := dmem.PeakCaps(holders)
	if err != nil || len(caps) == 0 {
		return dmem.PodCaps{}, err
	}
	regions, err := c.regions()
	if err != nil {
		return dmem.PodCaps{}, err
	}
	caps = slices.DeleteFunc(caps, func(c dmem.Cap) bool { return !regions[c.Region] })
	uid := string(pod.UID)
	if mirror := pod.Annotations[mirrorUID]; mirror != "" {
		uid = mirror
	}
	return dmem.PodCaps{Pod: dmem.Pod{UID: uid, QoS: dmem.QoS(pod.Status.QOSClass)}, Caps: caps}, nil
}

func kindOf(r allocate.Role) dmem.Kind {
	switch r {
	case allocate.Init:
		return dmem.Init
	case allocate.Sidecar:
		return dmem.Sidecar
	}
	return dmem.App
}

// dmemGrant is a grant as the dmem controller sees it. A hard device counts
// with the VRAM it has, whatever was granted of it and whatever the registered
// figure was multiplied by.
func dmemGrant(g annotations.Grant, d *partition.Registered) (dmem.Grant, error) {
	region, err := dmem.VRAMRegion(string(d.GPU.BDF))
	if err != nil {
		return dmem.Grant{}, fmt.Errorf("device %q: %w", d.ID, err)
	}
	grant := dmem.Grant{Region: region, Bytes: uint64(g.MemoryMiB) << 20}
	switch {
	case !d.Hard:
		grant.Whole = g.CUs == d.Devcore && g.MemoryMiB == d.Devmem
	case d.Partition < 0:
		grant.Whole = true
	default:
		grant.Partitions = len(d.GPU.Nodes)
		if grant.Bytes = uint64(d.Devmem) << 20; d.Nodes[0].VRAMBytes != nil {
			grant.Bytes = *d.Nodes[0].VRAMBytes
		}
	}
	return grant, nil
}
