package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// mostNodes is how many nodes are printed with their GPUs.
const mostNodes = 8

func printExplanation(p *page, e *inspect.Explanation, all bool) {
	p.line("pod %s/%s", e.Namespace, e.Pod)
	p.paragraph("  ", string(e.State)+": "+e.Reason)
	for _, n := range e.Notes {
		p.paragraph("  ", "note: "+n)
	}
	printContainers(p, e)
	printNodes(p, e, all)
	printSmaller(p, e)
	for _, problem := range e.Problems {
		p.line("")
		printProblem(p, problem)
	}
}

func printContainers(p *page, e *inspect.Explanation) {
	var asks, holds [][]string
	for _, c := range e.Containers {
		if c.Request != nil {
			asks = append(asks, []string{c.Name, c.Role, c.Request.String()})
		}
		for _, h := range c.Holdings {
			mask := h.Mask
			switch {
			case h.Whole:
				mask = "whole"
			case mask == "" && h.CUs > 0:
				mask = "none yet"
			case mask == "":
				mask = "none"
			}
			effective := "-"
			if h.Effective > 0 {
				effective = fmt.Sprint(h.Effective)
			}
			holds = append(holds, []string{c.Name, h.GPU, fmt.Sprint(h.MemoryMiB), fmt.Sprint(h.CUs), effective, mask})
		}
	}
	if len(asks) > 0 {
		p.line("")
		p.table([]string{"CONTAINER", "ROLE", "ASKS FOR"}, asks)
	}
	if len(holds) > 0 {
		p.line("")
		p.table([]string{"CONTAINER", "DEVICE", "MIB", "CUS", "EFFECTIVE", "MASK"}, holds)
	}
}

// printNodes writes the answer of every node, and the GPUs of those that come
// nearest.
func printNodes(p *page, e *inspect.Explanation, all bool) {
	if len(e.Nodes) == 0 {
		return
	}
	var rows [][]string
	for i := range e.Nodes {
		n := &e.Nodes[i]
		rows = append(rows, []string{n.Node, unknownIf(n.Container == "", n.Container), nodeAnswer(n)})
	}
	p.line("")
	p.table([]string{"NODE", "CONTAINER", "ANSWER"}, rows)
	if e.OtherNodes > 0 {
		p.line("%s without AMD GPUs", count(e.OtherNodes, "other node"))
	}
	nodes := nearest(e.Nodes)
	shown := nodes
	if !all && len(shown) > mostNodes {
		shown = shown[:mostNodes]
	}
	for _, n := range shown {
		printNode(p, n)
	}
	if left := len(nodes) - len(shown); left > 0 {
		p.line("")
		p.line("The GPUs of %s are left out (--all prints them).", count(left, "more node"))
	}
}

func nodeAnswer(n *inspect.NodeAnswer) string {
	answer := "fits"
	if !n.Fits {
		answer = cmp.Or(n.Reason, n.Why)
	}
	if len(n.Away) > 0 {
		answer += "; " + strings.Join(n.Away, ", ")
	}
	return answer
}

// nearest are the nodes with GPUs, those with the most that would do first.
func nearest(nodes []inspect.NodeAnswer) []*inspect.NodeAnswer {
	would := func(n *inspect.NodeAnswer) int {
		do := 0
		for i := range n.GPUs {
			if n.GPUs[i].Reason == "" {
				do++
			}
		}
		return do
	}
	list := slices.DeleteFunc(pointers(nodes), func(n *inspect.NodeAnswer) bool { return len(n.GPUs) == 0 })
	slices.SortStableFunc(list, func(a, b *inspect.NodeAnswer) int { return cmp.Compare(would(b), would(a)) })
	return list
}

func printNode(p *page, n *inspect.NodeAnswer) {
	p.line("")
	p.line("node %s", n.Node)
	if n.Why != "" && n.Reason != "" {
		p.paragraph("  ", n.Why)
	}
	var rows [][]string
	of := func(free, total int32) string { return fmt.Sprintf("%d/%d", free, total) }
	for i := range n.GPUs {
		g := &n.GPUs[i]
		rows = append(rows, []string{
			"  " + g.GPU, of(g.FreeShares, g.Shares), of(g.FreeMiB, g.MemoryMiB), of(g.FreeCUs, g.CUs), g.Why,
		})
	}
	if len(rows) > 0 {
		p.table([]string{"  DEVICE", "FREE SHARES", "FREE MIB", "FREE CUS", "ANSWER"}, rows)
	}
}

func printSmaller(p *page, e *inspect.Explanation) {
	switch {
	case len(e.Smaller) > 0:
	case e.State == inspect.Pending && len(e.Nodes) > 0 && !slices.ContainsFunc(e.Nodes, func(n inspect.NodeAnswer) bool { return n.Fits }):
		p.line("")
		p.line("No smaller request fits now.")
		return
	default:
		return
	}
	p.line("")
	p.line("Any of these would fit now:")
	for _, change := range e.Smaller {
		p.line("  %s (node %s)", change.Text, change.Node)
	}
}
