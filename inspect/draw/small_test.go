package draw

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
)

var smallTime = time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)

// newGPU is a device of a small cluster.
func newGPU(node string, index int, d annotations.Device) *inspect.GPU {
	d.Index, d.Health = uint(index), true
	if d.ID == "" {
		d.ID = fmt.Sprintf("gpu-%d", index)
	}
	physical := d.CustomInfo.PCIBDF
	if physical == "" {
		physical = d.ID
	}
	return &inspect.GPU{Device: d, Geometry: d.Geometry(), Node: node, Physical: physical, Hard: d.Mode != ""}
}

func mi300x(node string, index int) *inspect.GPU {
	return newGPU(node, index, annotations.Device{
		Count: 10, Devmem: 196592, Devcore: 304, Type: "AMD Instinct MI300X",
		CustomInfo: annotations.CustomInfo{NumXCC: 8, PartitionProfile: "spx_nps1", PCIBDF: fmt.Sprintf("0000:%02x:00.0", 5+index)},
	})
}

// partitions are those of one MI300X in QPX.
func partitions(node string, index int) []*inspect.GPU {
	var all []*inspect.GPU
	for p := range 4 {
		g := newGPU(node, index+8*p, annotations.Device{
			ID: fmt.Sprintf("gpu-%d-p%d", index, p), Count: 1, Devmem: 49152, Devcore: 76, Type: "AMD Instinct MI300X", Mode: "qpx",
			CustomInfo: annotations.CustomInfo{NumXCC: 2, PartitionProfile: "qpx_nps1", PCIBDF: fmt.Sprintf("0000:%02x:00.0", 5+index)},
		})
		all = append(all, g)
	}
	return all
}

// hold enters a tenant in the books of a GPU.
func hold(g *inspect.GPU, t inspect.Tenant) *inspect.Tenant {
	t.Node, t.Device = g.Node, g.Device.ID
	if t.Phase == "" {
		t.Phase = corev1.PodRunning
	}
	if t.Whole {
		t.CUs, t.MemoryMiB = g.Device.Devcore, g.Device.Devmem
		t.Effective = g.Geometry.Effective(g.Geometry.All())
	} else {
		t.Effective = g.Geometry.Effective(t.Mask)
	}
	g.Tenants = append(g.Tenants, &t)
	g.Used = g.Used.Union(t.Mask)
	if !t.Init {
		g.Shares++
		g.GrantedCUs += int(t.CUs)
		g.GrantedMiB += int64(t.MemoryMiB)
	}
	return &t
}

func held(namespace, pod, container string, cus cumask.Set, mib int32) inspect.Tenant {
	return inspect.Tenant{Namespace: namespace, Pod: pod, Container: container, CUs: int32(cus.Len()), Mask: cus, MemoryMiB: mib}
}

// small is a cluster with one of everything.
func small() *inspect.Cluster {
	a, b := &inspect.Node{Name: "node-a", Mode: "cu"}, &inspect.Node{Name: "node-b", Mode: "partition"}
	a.Lock = &annotations.NodeLock{Time: smallTime.Add(-time.Minute), Namespace: "llm", Name: "chat-3"}

	shared := mi300x("node-a", 0)
	hold(shared, held("llm", "chat-1", "vllm", cumask.Range(0, 75), 49152))
	hold(shared, held("search", "rerank", "serve", cumask.Range(76, 113), 16384))
	init := hold(shared, held("search", "rerank", "warm-up", cumask.Range(76, 151), 32768))
	init.Init = true
	hold(shared, held("search", "index", "faiss", cumask.Set{}, 8192))

	broken := mi300x("node-a", 1)
	hold(broken, held("llm", "chat-2", "vllm", cumask.Range(0, 75), 49152))
	hold(broken, held("llm", "chat-3", "vllm", cumask.Range(38, 113), 49152))
	starved := hold(broken, held("research", "notebook", "jupyter", cumask.Of(160, 168, 176, 184, 192, 200, 208, 216), 8192))
	unlimited := hold(broken, inspect.Tenant{Namespace: "research", Pod: "sweep", Container: "run", CUs: 30, MemoryMiB: 16384})
	broken.Problems = []inspect.Problem{{Code: "MaskOverlap", Severity: inspect.Error, Node: "node-a", GPU: "gpu-1",
		Detail: "pods \"llm/chat-2\" and \"llm/chat-3\" both hold CUs 38-75", Remedy: "delete one of the two pods"}}
	starved.Problems = []inspect.Problem{{Code: "MaskStarvesXCC", Severity: inspect.Error, Node: "node-a", GPU: "gpu-1",
		Namespace: "research", Pod: "notebook", Container: "jupyter", Detail: "its mask has no CU on XCC 1", Remedy: "delete the pod"}}
	unlimited.Problems = []inspect.Problem{{Code: "UnlimitedTenant", Severity: inspect.Warning, Node: "node-a", GPU: "gpu-1",
		Namespace: "research", Pod: "sweep", Container: "run", Detail: "30 CUs are granted and none recorded", Remedy: "delete the pod"}}

	whole := mi300x("node-a", 2)
	whole.Cordoned = true
	hold(whole, inspect.Tenant{Namespace: "research", Pod: "pretrain", Container: "train", Whole: true})
	rdna := newGPU("node-a", 3, annotations.Device{Count: 10, Devmem: 24560, Devcore: 96, Type: "AMD Radeon RX 7900 XTX",
		CustomInfo: annotations.CustomInfo{CUsPerWGP: 2, PCIBDF: "0000:08:00.0"}})
	hold(rdna, held("llm", "small", "ollama", cumask.Range(0, 23), 8192))
	a.GPUs = []*inspect.GPU{shared, broken, whole, rdna}

	b.GPUs = partitions("node-b", 0)
	b.GPUs[3].Device.Health = false
	for _, k := range []int{0, 2} {
		hold(b.GPUs[k], inspect.Tenant{Namespace: "llm", Pod: "tensor", Container: "vllm", Whole: true})
	}
	lost := &inspect.Tenant{Namespace: "llm", Pod: "ghost", Container: "vllm", Node: "node-b", Device: "gpu-gone", CUs: 76, MemoryMiB: 49152,
		Problems: []inspect.Problem{{Code: "UnknownDevice", Severity: inspect.Error, Node: "node-b", GPU: "gpu-gone",
			Namespace: "llm", Pod: "ghost", Container: "vllm", Detail: "node \"node-b\" registers no such device", Remedy: "delete the pod"}}}
	b.Problems = []inspect.Problem{{Code: "LockOwnerGone", Severity: inspect.Warning, Node: "node-b",
		Detail: "the lock is an hour old", Remedy: "remove it"}}

	c := &inspect.Cluster{Nodes: []*inspect.Node{a, b}}
	pods := map[podKey]*inspect.Pod{}
	add := func(t *inspect.Tenant) {
		p := pods[keyOf(t)]
		if p == nil {
			p = &inspect.Pod{Namespace: t.Namespace, Name: t.Pod, Node: t.Node, Phase: t.Phase}
			pods[keyOf(t)] = p
			c.Pods = append(c.Pods, p)
		}
		p.Tenants = append(p.Tenants, t)
	}
	for _, n := range c.Nodes {
		for _, g := range n.GPUs {
			for _, t := range g.Tenants {
				add(t)
			}
		}
	}
	add(lost)
	return c
}
