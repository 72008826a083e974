package amd

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// NodeDevices reads the devices a node has registered in the annotation
// hami.io/node-amd-register. A node without the annotation, or whose list is
// empty, has none and that is no error; a value that cannot be read is one, and
// then what is known of the node should stay (see annotations.ErrNotDeviceList).
//
// A value is decoded once: the answer is remembered by node name for as long as
// the value stays the same, until ForgetNode. The devices are shared by all
// callers and must not be written to.
func (d *Devices) NodeDevices(node *corev1.Node) ([]annotations.Device, error) {
	value := node.Annotations[annotations.NodeRegisterKey]
	d.mu.Lock()
	known, ok := d.nodes[node.Name]
	d.mu.Unlock()
	if ok && known.value == value {
		return known.devices, known.err
	}
	// Two goroutines may decode the same value; both come to the same answer.
	r := registered{value: value}
	if r.devices, r.err = annotations.DecodeDevices(value); r.err != nil {
		r.err = fmt.Errorf("node %q: %w", node.Name, r.err)
	}
	d.mu.Lock()
	d.nodes[node.Name] = r
	d.mu.Unlock()
	return r.devices, r.err
}

// ForgetNode drops what NodeDevices remembers of a node that is gone.
func (d *Devices) ForgetNode(name string) {
	d.mu.Lock()
	delete(d.nodes, name)
	d.mu.Unlock()
}

// Healthy reports whether a node's resources offer any GPU. HAMi v2.10 asks this
// of node.status.capacity, later versions of node.status.allocatable, which
// kubelet lowers when the plugin reports its devices unhealthy.
func (d *Devices) Healthy(resources corev1.ResourceList) bool {
	count := resources[corev1.ResourceName(d.config.ResourceCountName)]
	return count.Sign() > 0
}
