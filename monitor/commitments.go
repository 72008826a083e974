package monitor

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// commitment is what is given out of one device.
type commitment struct {
	id        string
	memoryMiB int64
	cus       int64
	shares    int64
	// whole is a device that one container has for itself: nobody else gets a
	// share of it, so all of them are given out.
	whole bool
}

func (c commitment) plus(o commitment) commitment {
	return commitment{o.id, c.memoryMiB + o.memoryMiB, c.cus + o.cus, c.shares + o.shares, c.whole || o.whole}
}

func (c commitment) most(o commitment) commitment {
	return commitment{o.id, max(c.memoryMiB, o.memoryMiB), max(c.cus, o.cus), max(c.shares, o.shares), c.whole || o.whole}
}

// commitments are what a pod may hold of each device at once, as the scheduler
// counts: app containers and sidecars run together, an ordinary init container
// beside the sidecars declared before it. It stays the same for the pod's whole
// life, because kubelet runs init containers again when a pod's sandbox is lost.
func commitments(pod *corev1.Pod, known *devices) []commitment {
	_, grants, err := podGrants(pod)
	if err != nil {
		return nil // reported with the pod's holdings
	}
	var peak []commitment
	var running []commitment // sidecars so far, then app containers too
	index := make(map[string]int)
	for c, list := range grants {
		stays := c >= len(pod.Spec.InitContainers) || sidecar(&pod.Spec.InitContainers[c])
		own := make(map[int]commitment, len(list))
		for _, g := range list {
			i, ok := index[g.UUID]
			if !ok {
				i = len(peak)
				index[g.UUID] = i
				peak, running = append(peak, commitment{}), append(running, commitment{})
			}
			dev := known.byID[g.UUID]
			own[i] = own[i].plus(commitment{
				id: g.UUID, memoryMiB: int64(g.MemoryMiB), cus: int64(g.CUs), shares: 1,
				whole: dev != nil && g.MemoryMiB >= dev.Devmem && g.CUs >= dev.Devcore,
			})
		}
		for i, now := range own {
			now = running[i].plus(now)
			if stays {
				running[i] = now
			}
			peak[i] = peak[i].most(now)
		}
	}
	return peak
}

// putRegistered hands out what a registered device has, and what of it is given
// to pods.
func (c *Collector) putRegistered(out *output, dev *device, given commitment) {
	if given.whole {
		given.shares = max(given.shares, int64(dev.Count))
	}
	healthy := 0.0
	if dev.Health {
		healthy = 1
	}
	labels := []string{c.node, strconv.FormatUint(uint64(dev.Index), 10), dev.ID, dev.Type}
	for _, m := range []struct {
		desc  *prometheus.Desc
		value float64
	}{
		{c.descs.registered.memory, float64(dev.Devmem) * mibBytes},
		{c.descs.registered.cus, float64(dev.Devcore)},
		{c.descs.registered.shares, float64(dev.Count)},
		{c.descs.committed.memory, float64(given.memoryMiB) * mibBytes},
		{c.descs.committed.cus, float64(given.cus)},
		{c.descs.committed.shares, float64(given.shares)},
		{c.descs.healthy, healthy},
	} {
		out.put(m.desc, m.value, labels...)
	}
}

// mibBytes is the unit of memory in annotations.
const mibBytes = 1 << 20
