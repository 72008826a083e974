package amd

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// NodeDevices reads the devices a node has registered in the annotation
// hami.io/node-amd-register. A node without the annotation, or whose list is
// empty, has none and that is no error; a value that cannot be read is one, and
// then what is known of the node should stay (see annotations.ErrNotDeviceList).
//
// A value is decoded once: the answer is remembered by node name for as long as
// the value stays the same and the node is asked about, until ForgetNode. The
// devices are shared by all callers and must not be written to.
func (d *Devices) NodeDevices(node *corev1.Node) ([]annotations.Device, error) {
	value := node.Annotations[annotations.NodeRegisterKey]
	if known, ok := d.nodes.get(node.Name); ok && known.value == value {
		return known.devices, known.err
	}
	// Two goroutines may decode the same value; both come to the same answer.
	r := registered{value: value}
	if r.devices, r.err = annotations.DecodeDevices(value); r.err != nil {
		r.err = fmt.Errorf("node %q: %w", node.Name, r.err)
	}
	d.nodes.put(node.Name, r)
	return r.devices, r.err
}

// ForgetNode drops what NodeDevices remembers of a node that is gone.
func (d *Devices) ForgetNode(name string) { d.nodes.forget(name) }

// registered is the decoded hami.io/node-amd-register of a node.
type registered struct {
	value   string
	devices []annotations.Device
	err     error
}

// nodeMemory is how long a node is remembered at least that nobody asks about.
// HAMi's scheduler asks about every node each 15 s, does not say which are gone,
// and is asked by cluster autoscalers about nodes that never were.
const nodeMemory = 10 * time.Minute

// nodeCache remembers what nodes have registered. What nobody asks about for
// nodeMemory is dropped at the latest after twice that time.
type nodeCache struct {
	mu    sync.Mutex            // guards all below
	nodes map[string]registered // asked about since the time begun
	older map[string]registered // asked about in the nodeMemory before
	begun time.Time
}

func (c *nodeCache) get(name string) (registered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.nodes == nil || now.Sub(c.begun) >= nodeMemory {
		c.nodes, c.older, c.begun = map[string]registered{}, c.nodes, now
	}
	r, ok := c.nodes[name]
	if !ok {
		if r, ok = c.older[name]; ok {
			c.nodes[name] = r
		}
	}
	return r, ok
}

// put is called after get.
func (c *nodeCache) put(name string, r registered) {
	c.mu.Lock()
	c.nodes[name] = r
	c.mu.Unlock()
}

func (c *nodeCache) forget(name string) {
	c.mu.Lock()
	delete(c.nodes, name)
	delete(c.older, name)
	c.mu.Unlock()
}

// Healthy reports whether a node's resources offer any GPU. HAMi v2.10 asks this
// of node.status.capacity, later versions of node.status.allocatable, which
// kubelet lowers when the plugin reports its devices unhealthy.
func (d *Devices) Healthy(resources corev1.ResourceList) bool {
	count := resources[corev1.ResourceName(d.config.ResourceCountName)]
	return count.Sign() > 0
}
