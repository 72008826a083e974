package main

import (
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw"
)

// utf8Locale tells whether the locale has more characters than ASCII, by the
// variables that count, the first that is set (POSIX, environment variables).
// Where none is set, as in a container, terminals are taken for today's.
func utf8Locale(env func(string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value, _ := env(name); value != "" {
			value = strings.ToLower(value)
			return strings.Contains(value, "utf-8") || strings.Contains(value, "utf8")
		}
	}
	return true
}

// drawn is the answer of draw -o json: what the pictures show.
type drawn struct {
	Time     time.Time         `json:"time"`
	Nodes    []drawnNode       `json:"nodes"`
	Problems []inspect.Problem `json:"problems"`
}

type drawnNode struct {
	Name string     `json:"name"`
	Mode string     `json:"mode"`
	Lock string     `json:"lock,omitempty"`
	GPUs []drawnGPU `json:"gpus"`
}

type drawnGPU struct {
	ID       string `json:"id"`
	Index    uint   `json:"index"`
	Type     string `json:"type"`
	Physical string `json:"physical"`
	Profile  string `json:"partitionProfile"`
	Hard     bool   `json:"hard"`
	Healthy  bool   `json:"healthy"`
	Cordoned bool   `json:"cordoned"`
	XCCs     int    `json:"xccs"`

	CUs        int   `json:"cus"`
	GrantedCUs int   `json:"grantedCUs"`
	MiB        int32 `json:"memoryMiB"`
	GrantedMiB int64 `json:"grantedMiB"`
	Count      int32 `json:"count"`
	Shares     int   `json:"shares"`
	// Free are the CUs that no mask names, as an ID list.
	Free    string        `json:"free"`
	Tenants []drawnTenant `json:"tenants"`
}

type drawnTenant struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Init      bool   `json:"init,omitempty"`
	Sidecar   bool   `json:"sidecar,omitempty"`
	Phase     string `json:"phase"`
	Whole     bool   `json:"whole"`
	CUs       int32  `json:"cus"`
	Mask      string `json:"mask"`
	Effective int    `json:"effective"`
	MiB       int32  `json:"memoryMiB"`
}

func newDrawn(c *inspect.Cluster, o draw.Options) drawn {
	d := drawn{Time: o.Time.UTC(), Nodes: []drawnNode{}, Problems: []inspect.Problem{}}
	troubled := map[string]bool{} // nodes and devices
	for p := range c.All() {
		if o.Node == "" || o.Node == p.Node {
			d.Problems = append(d.Problems, p)
			troubled[p.Node], troubled[p.GPU] = true, true
		}
	}
	for _, n := range c.Nodes {
		if o.Node != "" && o.Node != n.Name || o.Problems && !troubled[n.Name] {
			continue
		}
		node := drawnNode{Name: n.Name, Mode: n.Mode, GPUs: []drawnGPU{}}
		if n.Lock != nil {
			node.Lock = n.Lock.String()
		}
		for _, g := range n.GPUs {
			if !o.Problems || troubled[g.Device.ID] {
				node.GPUs = append(node.GPUs, newDrawnGPU(g))
			}
		}
		d.Nodes = append(d.Nodes, node)
	}
	return d
}

func newDrawnGPU(g *inspect.GPU) drawnGPU {
	d := drawnGPU{
		ID: g.Device.ID, Index: g.Device.Index, Type: g.Device.Type, Physical: g.Physical,
		Profile: g.Device.CustomInfo.PartitionProfile, Hard: g.Hard, Healthy: g.Device.Health, Cordoned: g.Cordoned,
		XCCs: max(g.Geometry.XCCs, 1), CUs: g.Geometry.CUs, GrantedCUs: g.GrantedCUs,
		MiB: g.Device.Devmem, GrantedMiB: g.GrantedMiB, Count: g.Device.Count, Shares: g.Shares,
		Tenants: []drawnTenant{},
	}
	free := cumask.Range(0, g.Geometry.CUs-1).Minus(g.Used)
	for _, t := range g.Tenants {
		if t.Whole {
			free = cumask.Set{}
		}
		d.Tenants = append(d.Tenants, drawnTenant{
			Namespace: t.Namespace, Pod: t.Pod, Container: t.Container, Init: t.Init, Sidecar: t.Sidecar,
			Phase: string(t.Phase), Whole: t.Whole, CUs: t.CUs, Mask: t.Mask.String(), Effective: t.Effective, MiB: t.MemoryMiB,
		})
	}
	d.Free = free.String()
	return d
}
