package main

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/cumask/draw"
	"github.com/Project-HAMi/hami-amd/internal/podspec"
)

// holders draws who holds which CUs of each GPU. One that a container has whole
// takes a line.
func (r *report) holders(c *cluster) {
	r.title("4. Who holds which compute units")
	r.line("  ", "A letter is a CU. Work groups go round-robin over the XCCs, so the XCC with")
	r.line("  ", "the fewest CUs sets the pace: effective CUs are XCCs x the fewest on any.")
	r.line("  ", "Some CUs are fused off, and the kernel does not say in which shader engines,")
	r.line("  ", "so the columns are nominal.")
	occupancy := c.occupancy()
	for _, d := range c.registered {
		if holder := c.whole(d.ID); holder != "" {
			continue
		}
		r.line("", "")
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
	r.line("", "")
	for _, d := range c.registered {
		if holder := c.whole(d.ID); holder != "" {
			r.line("", fmt.Sprintf("GPU %d  %s  %s  whole: %s", d.Index, d.GPU.BDF, d.Type, holder))
		}
	}
}

func (r *report) draw(gpu draw.GPU) {
	if r.err == nil {
		r.err = draw.Text(r.w, gpu, draw.TextOptions{Width: r.term.width, Color: r.term.color, Merge: true})
	}
}
