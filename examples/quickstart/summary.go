package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/amd"
)

// summary says what became of the pods, before all the details.
func (r *report) summary(c *cluster, placements []placement) {
	r.line("", r.bold("hami-amd quickstart"))
	r.line("", "")
	r.line("", "A recorded node with eight GPUs, a dozen pods, and everything that is written")
	r.line("", "between them. The GPUs are read from a copy of the node's sysfs.")
	r.title("1. What becomes of the pods")
	placed := 0
	row := "%-18s  %-9s  %4s  %5s  %6s  %s"
	r.line("  ", r.dim(fmt.Sprintf(row, "POD", "CONTAINER", "GPUS", "CUS", "MIB", "GETS")))
	for _, p := range placements {
		gets := map[string]string{}
		if p.plan != nil {
			placed++
			for _, ctr := range p.plan.Containers {
				gets[ctr.Name] = c.gets(ctr)
			}
		}
		name := p.Name
		for _, ctr := range containers(p.Pod.Pod) {
			request, err := c.devices.Request(ctr)
			if err != nil {
				r.fail(err)
			}
			if request.Count == 0 {
				continue
			}
			got := gets[ctr.Name]
			if p.plan == nil {
				got = r.bad("pending")
			}
			cus, mib := parts(request)
			r.line("  ", fmt.Sprintf(row, name, ctr.Name, strconv.Itoa(int(request.Count)), cus, mib, got))
			name = ""
		}
	}
	r.line("", "")
	r.line("  ", fmt.Sprintf("%d of %d pods are placed.", placed, len(placements)))
	for _, p := range placements {
		if p.plan == nil {
			r.pending(c, p)
		}
	}
	r.line("  ", "The scheduler has defaultCores: 0, so memory without gpucores holds no CUs.")
	r.line("  ", "HAMi's own default is all of them.")
}

// pending says why a pod is not placed.
func (r *report) pending(c *cluster, p placement) {
	most := int32(0)
	for _, d := range c.registered {
		most = max(most, d.Devmem)
	}
	r.line("  ", r.bold(p.Name)+" is pending, and the scheduler's event says why:")
	r.line("    ", r.bad(p.decision.Reason()))
	for _, ctr := range containers(p.Pod.Pod) {
		if request, err := c.devices.Request(ctr); err == nil && request.MemoryMiB > most {
			r.line("  ", fmt.Sprintf("%s asks for %d MiB of one GPU, and no GPU has more than %d.", ctr.Name, request.MemoryMiB, most))
		}
	}
}

// parts are the percentage of the CUs and the MiB of each GPU asked for.
func parts(q amd.Request) (cus, mib string) {
	cus, mib = "none", "all"
	switch {
	case q.Whole():
		cus = "all"
	case q.Cores > 0:
		cus = fmt.Sprintf("%d %%", q.Cores)
	}
	if q.MemoryMiB > 0 {
		mib = strconv.Itoa(int(q.MemoryMiB))
	}
	return cus, mib
}

// gets says what a container has of its GPUs: those that give as much together.
func (c *cluster) gets(ctr allocate.Container) string {
	var order []string
	gpus := map[string][]string{}
	for _, d := range ctr.Devices {
		what := fmt.Sprintf("%d CUs", d.CUs.Len())
		switch {
		case d.Whole:
			what = "whole"
		case d.CUs.Empty():
			what = "memory only"
		}
		if !slices.Contains(order, what) {
			order = append(order, what)
		}
		gpus[what] = append(gpus[what], strconv.Itoa(int(c.index(d.ID))))
	}
	var all []string
	for _, what := range order {
		each := ""
		if len(gpus[what]) > 1 && what != "whole" {
			each = " each"
		}
		all = append(all, fmt.Sprintf("GPU %s: %s%s", strings.Join(gpus[what], " and "), what, each))
	}
	return strings.Join(all, "; ")
}
