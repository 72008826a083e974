package main

import (
	"fmt"
	"io"
	"slices"
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
	r.title("2. The node registers its GPUs")

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
}

// alike are the variables that are the same in every container with a slice.
var alike = []string{"HIP_DEVICE_MEMORY_SHARED_CACHE", "LD_AUDIT"}

// legend is the key to the third part: how a grant reads, and what all slices have.
func (r *report) legend(placements []placement) {
	r.title("3. Pods are scheduled, and each container gets its part")
	r.line("  ", "The scheduler writes hami.io/amd-devices-allocated, in which a grant reads")
	r.line("  ", "<device id>,<type>,<MiB>,<CUs>: and each ; ends a container. The device plugin")
	r.line("  ", "writes hami.io/amd-cu-allocated, the pod's CUs on each device. A container")
	r.line("  ", "gets device nodes and variables; every slice has these besides its own:")
	for _, p := range placements {
		if p.plan == nil {
			continue
		}
		for _, ctr := range p.plan.Containers {
			if shared := variables(ctr, true); len(shared) == len(alike) {
				for _, v := range shared {
					r.line("    ", v)
				}
				return
			}
		}
	}
}

// variables are a container's, those that all slices have alike or the others.
func variables(ctr allocate.Container, shared bool) (list []string) {
	for _, v := range ctr.Env {
		if slices.Contains(alike, v.Name) == shared {
			list = append(list, v.Name+"="+v.Value)
		}
	}
	return list
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
	r.annotation(p, annotations.AllocatedKey, grantEnds)
	r.annotation(p, annotations.CUAllocatedKey, memberEnds)
	for _, note := range p.plan.Notes {
		r.line("  ", note)
	}
	for _, ctr := range p.plan.Containers {
		if len(ctr.Devices) > 0 {
			r.container(c, ctr)
		}
	}
}

// annotation shows one behind its key, or below it where there is no room.
func (r *report) annotation(p placement, key, best string) {
	value, ok := p.Annotations[key]
	if !ok {
		return
	}
	if len("  ")+len(key)+len("  ")+len(value) <= r.term.width {
		r.line("  ", r.key(key)+"  "+value)
		return
	}
	r.line("  ", r.key(key))
	r.folded("    ", value, best)
}

func (r *report) container(c *cluster, ctr allocate.Container) {
	r.line("  ", ctr.Name+" gets "+c.gets(ctr))
	r.wrapped("    ", variables(ctr, false))
	var nodes []string
	for _, n := range ctr.DeviceNodes {
		nodes = append(nodes, n.Path)
	}
	r.wrapped("    ", nodes)
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
