package monitor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podResult is what was read about a pod.
type podResult struct {
	containers []container
	memories   [][]memory // of each container
	problems   []error
}

// decodedPod is what the annotations of a pod say. It is good for that very
// object, and the devices that were known.
type decodedPod struct {
	pod        *corev1.Pod
	known      *devices
	containers []container
	committed  []commitment
	problems   []error
}

// decode reads a pod's annotations, unless that was done before: they change
// seldom, and the objects of a [Cluster] never do.
func (c *Collector) decode(pod *corev1.Pod, known *devices) decodedPod {
	c.mu.Lock()
	d, ok := c.decoded[pod.UID]
	c.mu.Unlock()
	if ok && d.pod == pod && d.known == known {
		return d
	}
	d = decodedPod{pod: pod, known: known}
	d.containers, d.problems = holdings(pod, known)
	d.committed = commitments(pod, known)
	c.mu.Lock()
	c.decoded[pod.UID] = d
	c.mu.Unlock()
	return d
}

// keepDecoded drops all pods but those.
func (c *Collector) keepDecoded(live map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.decoded, func(uid types.UID, _ decodedPod) bool { return !live[uid] })
}

// readPod reads what a pod holds, and what its containers use now.
func (c *Collector) readPod(pod *corev1.Pod, known *devices, regions map[string]bool, buf *regionBuffer) podResult {
	d := c.decode(pod, known)
	r := podResult{containers: d.containers, problems: slices.Clip(d.problems)}
	r.memories = make([][]memory, len(r.containers))
	reader := podReader{c: c, pod: pod, regions: regions, granted: make(map[string]uint64), buf: buf}
	for _, ctr := range r.containers {
		for _, h := range ctr.holdings {
			if h.device != nil && h.device.gpu != nil {
				reader.granted[h.device.gpu.region] += h.bytes
			}
		}
	}
	for i := range r.containers {
		var problems []error
		r.memories[i], problems = reader.memories(&r.containers[i])
		r.problems = append(r.problems, problems...)
	}
	return r
}

func (c *Collector) putPod(out *output, pod *corev1.Pod, r podResult) {
	for _, err := range r.problems {
		out.problem(fmt.Errorf("pod %q: %w", pod.Namespace+"/"+pod.Name, err))
	}
	for i, ctr := range r.containers {
		for _, h := range ctr.holdings {
			labels := []string{pod.Namespace, pod.Name, ctr.name, strconv.Itoa(h.index), h.id}
			out.put(c.descs.cus, float64(h.cus), labels...)
			if h.effective != nil {
				out.put(c.descs.effectiveCUs, float64(*h.effective), labels...)
			}
		}
		for _, m := range r.memories[i] {
			labels := []string{pod.Namespace, pod.Name, ctr.name, strconv.Itoa(m.index), m.id}
			out.put(c.descs.memoryGranted, float64(m.granted), labels...)
			if m.used != nil {
				out.put(c.descs.memoryUsed, float64(*m.used), labels...)
			}
			if m.limit != nil {
				out.put(c.descs.memoryLimit, float64(*m.limit), labels...)
			}
		}
	}
}
