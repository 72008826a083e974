package monitor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// masks are the CUs that the plugin handed to the containers of a pod.
type masks struct {
	containers map[string]annotations.ContainerCUs
	// pod is what they hold together. Plugins that do not write the
	// containers' own CUs write this.
	pod     annotations.ContainerCUs
	holders map[string]int // how many containers hold a device
}

// readMasks reads what the plugin wrote on a pod.
func readMasks(pod *corev1.Pod, grants annotations.PodGrants) (m masks, problems []error) {
	var err error
	if value, ok := pod.Annotations[annotations.CUContainersKey]; ok {
		if m.containers, err = annotations.DecodeContainerCUs(value); err != nil {
			problems = append(problems, err)
		}
	}
	if value, ok := pod.Annotations[annotations.CUAllocatedKey]; ok {
		if m.pod.CUs, err = annotations.DecodeCUs(value); err != nil {
			problems = append(problems, err)
		}
	}
	m.holders = make(map[string]int)
	for _, container := range grants {
		for _, g := range container {
			m.holders[g.UUID]++
		}
	}
	return m, problems
}

// apply sets the CUs of a holding to those of its mask. A mask that is larger
// than the grant, or has CUs the device does not have, was not handed out by
// the plugin: the holding keeps the number that was granted.
func (m masks) apply(h *holding, container string) error {
	set, ok := m.containers[container].CUs[h.id]
	if !ok && m.holders[h.id] == 1 {
		set, ok = m.pod.CUs[h.id]
	}
	if !ok || h.device == nil {
		return nil
	}
	g := h.device.Geometry()
	if g.Validate() != nil {
		return nil // registered otherwise by now, or without its shape
	}
	// The node hands out whole units, and hard devices whole.
	most := h.cus
	switch {
	case h.device.hard():
		most = g.CUs
	case most > 0:
		most = g.RoundUp(most)
	}
	if n := set.Len(); n > most {
		return fmt.Errorf("%d CUs in its mask, granted %d", n, most)
	}
	if over := set.Minus(g.All()); !over.Empty() {
		return fmt.Errorf("CUs %s in its mask, the device has %d", over, g.CUs)
	}
	effective := g.Effective(set)
	h.cus, h.effective = set.Len(), &effective
	return nil
}
