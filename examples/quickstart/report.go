package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	corev1 "k8s.io/api/core/v1"
)

// report writes the run as text. The first error of the writer ends it.
type report struct {
	w    io.Writer
	term terminal
	err  error
}

// registration shows the node's devices and the annotation they become.
func (r *report) registration(c *cluster) {
	r.line("", r.bold("hami-amd quickstart"))
	r.line("", "")
	r.line("", "A recorded node with eight GPUs, a dozen pods, and everything that is written")
	r.line("", "between them. The GPUs are read from a copy of the node's sysfs.")
	r.title("1. The node registers its GPUs")

	row := "%-4s  %-12s  %-20s  %4s  %4s  %8s  %4s  %6s"
	r.line("  ", r.dim(fmt.Sprintf(row, "GPU", "PCI ADDRESS", "TYPE", "CUS", "XCCS", "VRAM MIB", "NUMA", "SHARES")))
	for _, d := range c.registered {
		r.line("  ", fmt.Sprintf(row, strconv.Itoa(int(d.Index)), d.GPU.BDF, d.Type, strconv.Itoa(int(d.Devcore)),
			strconv.Itoa(d.CustomInfo.NumXCC), strconv.Itoa(int(d.Devmem)), strconv.Itoa(d.Numa), strconv.Itoa(int(d.Count))))
	}
	value := c.node.Annotations[annotations.NodeRegisterKey]
	first, err := annotations.EncodeDevices([]annotations.Device{c.registered[0].Device})
	if err != nil {
		r.fail(err)
		return
	}
	r.line("", "")
	r.line("  ", fmt.Sprintf("%s: %d devices in %d bytes, the first being", r.key(annotations.NodeRegisterKey), len(c.registered), len(value)))
	r.folded("  ", strings.TrimSuffix(first, "]")+",...]", memberEnds)
	r.title("2. Pods are scheduled, and each container gets its part")
	r.line("  ", "A grant reads <device id>,<type>,<MiB>,<CUs>: and each ; ends a container.")
}

// placement shows one pod: what it asks for, what the scheduler writes, what
// the node writes and what each container gets.
func (r *report) placement(c *cluster, p placement) {
	r.line("", "")
	r.line("", r.bold(p.Name)+r.dim("  examples/pods/"+p.File))
	for _, ctr := range containers(p.Pod.Pod) {
		if request, err := c.devices.Request(ctr); err != nil {
			r.fail(err)
		} else if request.Count > 0 {
			r.line("  ", fmt.Sprintf("%s asks for %s", ctr.Name, describe(request)))
		}
	}
	if p.plan == nil {
		r.line("  ", r.bad("pending: "+p.decision.Reason()))
		return
	}
	r.annotation(p, annotations.AllocatedKey, "the scheduler")
	r.annotation(p, annotations.CUAllocatedKey, "the device plugin")
	for _, note := range p.plan.Notes {
		r.line("  ", note)
	}
	for _, ctr := range p.plan.Containers {
		if len(ctr.Devices) > 0 {
			r.container(c, ctr)
		}
	}
}

func (r *report) annotation(p placement, key, writer string) {
	if value, ok := p.Annotations[key]; ok {
		r.line("  ", r.key(key)+r.dim("  by "+writer))
		best := memberEnds
		if key == annotations.AllocatedKey {
			best = grantEnds
		}
		r.folded("    ", value, best)
	}
}

func (r *report) container(c *cluster, ctr allocate.Container) {
	var parts []string
	for _, d := range ctr.Devices {
		gpu := fmt.Sprintf("GPU %d", c.index(d.ID))
		switch {
		case d.Whole:
			parts = append(parts, gpu+" whole")
		case d.CUs.Empty():
			parts = append(parts, gpu+", memory only")
		default:
			parts = append(parts, fmt.Sprintf("%s, %d CUs", gpu, d.CUs.Len()))
		}
	}
	r.line("  ", fmt.Sprintf("%s gets %s", ctr.Name, strings.Join(parts, "; ")))
	for _, v := range ctr.Env {
		r.folded("    ", v.Name+"="+v.Value, memberEnds)
	}
	var nodes []string
	for _, n := range ctr.DeviceNodes {
		nodes = append(nodes, n.Path)
	}
	r.folded("    ", strings.Join(nodes, " "), memberEnds)
}

// summary counts the pods and says why some are pending.
func (r *report) summary(c *cluster, placements []placement) {
	placed, most := 0, int32(0)
	for _, p := range placements {
		if p.plan != nil {
			placed++
		}
	}
	for _, d := range c.registered {
		most = max(most, d.Devmem)
	}
	r.title("4. What is left over")
	r.line("  ", fmt.Sprintf("%d of %d pods are placed.", placed, len(placements)))
	for _, p := range placements {
		if p.plan != nil {
			continue
		}
		r.line("  ", r.bold(p.Name)+" is pending, and the scheduler's event says why:")
		r.line("    ", r.bad(p.decision.Reason()))
		for _, ctr := range containers(p.Pod.Pod) {
			if request, err := c.devices.Request(ctr); err == nil && request.MemoryMiB > most {
				r.line("  ", fmt.Sprintf("%s asks for %d MiB of one GPU, and no GPU has more than %d.", ctr.Name, request.MemoryMiB, most))
			}
		}
	}
}

// index is the number the node registered a device under.
func (c *cluster) index(id string) uint {
	for _, d := range c.registered {
		if d.ID == id {
			return d.Index
		}
	}
	return 0
}

// containers are the pod's containers, init containers first.
func containers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

func describe(q amd.Request) string {
	what := "1 GPU"
	if q.Count > 1 {
		what = fmt.Sprintf("%d GPUs", q.Count)
	}
	if q.Whole() {
		return what + ", whole"
	}
	var parts []string
	if q.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%d %% of the CUs", q.Cores))
	}
	if q.MemoryMiB > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB", q.MemoryMiB))
	}
	each := ""
	if q.Count > 1 {
		each = " of each"
	}
	return what + ": " + strings.Join(parts, " and ") + each
}
