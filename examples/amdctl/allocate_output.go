package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/hook"
)

// allocated is the answer of allocate.
type allocated struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// CUs is hami.io/amd-cu-allocated.
	CUs        map[string]string    `json:"cuAllocated"`
	Containers []allocatedContainer `json:"containers"`
}

type allocatedContainer struct {
	Name    string            `json:"name"`
	Devices []allocatedDevice `json:"devices"`
	Env     map[string]string `json:"env"`
	// DeviceNodes and CDIDevices are null where they are unknown.
	DeviceNodes []deviceNode `json:"deviceNodes"`
	CDIDevices  []string     `json:"cdiDevices"`
	Mounts      []mount      `json:"mounts"`
	env         []hook.EnvVar
}

type allocatedDevice struct {
	ID        string `json:"id"`
	Whole     bool   `json:"whole"`
	CUs       string `json:"cus"`
	Count     int    `json:"count"`
	MemoryMiB int32  `json:"memoryMiB"`
}

type deviceNode struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
}

type mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	ReadOnly      bool   `json:"readOnly"`
}

func newAllocated(pod *corev1.Pod, node string, plan *allocate.Allocation, sysfs bool) allocated {
	answer := allocated{Pod: pod.Namespace + "/" + pod.Name, Node: node, CUs: lists(plan.CUs), Containers: []allocatedContainer{}}
	for _, c := range plan.Containers {
		if len(c.Devices) == 0 {
			continue
		}
		a := allocatedContainer{Name: c.Name, Env: map[string]string{}, Mounts: []mount{}, env: c.Env}
		for _, d := range c.Devices {
			a.Devices = append(a.Devices, allocatedDevice{ID: d.ID, Whole: d.Whole, CUs: d.CUs.String(), Count: d.CUs.Len(), MemoryMiB: d.MemoryMiB})
		}
		for _, v := range c.Env {
			a.Env[v.Name] = v.Value
		}
		for _, m := range c.Mounts {
			a.Mounts = append(a.Mounts, mount(m))
		}
		if sysfs {
			for _, n := range c.DeviceNodes {
				a.DeviceNodes = append(a.DeviceNodes, deviceNode(n))
			}
			a.CDIDevices = c.CDIDevices
		}
		answer.Containers = append(answer.Containers, a)
	}
	return answer
}

func printAllocation(p *page, a allocated) {
	p.line("pod %s on node %s", a.Pod, a.Node)
	for _, c := range a.Containers {
		p.line("")
		p.line("container %s", c.Name)
		for _, d := range c.Devices {
			what := fmt.Sprintf("%d CUs (%s)", d.Count, d.CUs)
			switch {
			case d.Whole:
				what = fmt.Sprintf("whole, %d CUs", d.Count)
			case d.Count == 0:
				what = "memory only"
			}
			p.line("  device  %s  %s, %d MiB", d.ID, what, d.MemoryMiB)
		}
		for _, v := range c.env {
			p.line("  env     %s=%s", v.Name, v.Value)
		}
		for _, n := range c.DeviceNodes {
			p.line("  node    %s %s", n.Path, n.Permissions)
		}
		for _, name := range c.CDIDevices {
			p.line("  cdi     %s", name)
		}
		for _, m := range c.Mounts {
			access := "rw"
			if m.ReadOnly {
				access = "ro"
			}
			p.line("  mount   %s -> %s %s", m.HostPath, m.ContainerPath, access)
		}
	}
}
