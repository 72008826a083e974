package main

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask/draw"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// holders draws who holds which CUs of each GPU.
func (r *report) holders(c *cluster) {
	r.title("3. Who holds which compute units")
	occupancy := c.occupancy()
	for i, d := range c.registered {
		if i > 0 {
			r.line("", "")
		}
		gpu := draw.GPU{
			Name:     fmt.Sprintf("GPU %d  %s  %s", d.Index, d.GPU.BDF, d.Type),
			Geometry: d.Nodes[0].Geometry, // with the shader engines, which the annotation does not name
		}
		for _, pod := range c.pods { // letters in the order of arrival
			if cus := occupancy[d.ID].Held(podspec.Holder(pod)); !cus.Empty() {
				gpu.Holders = append(gpu.Holders, draw.Holder{Name: pod.Name, CUs: cus})
			}
		}
		r.draw(gpu)
		for _, pod := range c.memoryOnly(d.ID) {
			r.line(" -  ", pod)
		}
	}
}

func (r *report) draw(gpu draw.GPU) {
	if r.err == nil {
		r.err = draw.Text(r.w, gpu, draw.TextOptions{Width: r.term.width, Color: r.term.color})
	}
}
