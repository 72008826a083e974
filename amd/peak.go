package amd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// A Holding is what one pod may hold of one device at once.
type Holding struct {
	UUID, Type string
	// Shares is how many of its containers.
	Shares int32
	// MemoryMiB and CUs are the most it holds of each; not necessarily both at
	// the same moment.
	MemoryMiB, CUs int32
}

// Peak adds up a pod's grants, one entry per container, init containers first,
// to what it may hold of each device at once. All app containers and all
// sidecars run together; an ordinary init container runs alone with the sidecars
// declared before it, and what it held is free again for what comes later. The
// devices are in the order in which the grants name them first.
//
// It stays the same for the pod's whole life: kubelet runs init containers again
// when a pod's sandbox is lost.
func Peak(pod *corev1.Pod, grants annotations.PodGrants) []Holding {
	var peak []Holding
	index := map[string]int{}
	place := func(g *annotations.Grant) int {
		i, ok := index[g.UUID]
		if !ok {
			i = len(peak)
			index[g.UUID] = i
			peak = append(peak, Holding{UUID: g.UUID, Type: g.Type})
		}
		return i
	}
	var running []Holding // sidecars so far, then app containers too
	inits := len(pod.Spec.InitContainers)
	for c := range grants {
		stays := c >= inits || Sidecar(&pod.Spec.InitContainers[c])
		for j := range grants[c] {
			g := &grants[c][j]
			i := place(g)
			for len(running) < len(peak) {
				running = append(running, Holding{})
			}
			now := running[i]
			now.Shares = saturate(now.Shares, 1)
			now.MemoryMiB = saturate(now.MemoryMiB, g.MemoryMiB)
			now.CUs = saturate(now.CUs, g.CUs)
			if stays {
				running[i] = now
			}
			peak[i].Shares = max(peak[i].Shares, now.Shares)
			peak[i].MemoryMiB = max(peak[i].MemoryMiB, now.MemoryMiB)
			peak[i].CUs = max(peak[i].CUs, now.CUs)
		}
	}
	return peak
}

// Sidecar reports whether an init container keeps running beside the app
// containers.
func Sidecar(ctr *corev1.Container) bool {
	return ctr.RestartPolicy != nil && *ctr.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
