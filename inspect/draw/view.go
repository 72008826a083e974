package draw

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// Options are those of every format. The zero value draws everything.
type Options struct {
	// Title is the heading; "" is "AMD GPUs".
	Title string
	// Time is when the cluster was read; zero is not shown.
	Time time.Time
	// Node draws this node alone; "" is all of them.
	Node string
	// Problems draws only GPUs with a problem, and nodes with one.
	Problems bool
}

// view is a cluster as it is drawn, whatever the format.
type view struct {
	title    string
	time     time.Time
	nodes    []*nodeView
	problems []*problem // all that is drawn, errors first
	sum      sum
}

// nodeView is a node and its GPUs.
type nodeView struct {
	*inspect.Node
	cards []*card
	// lost are holdings of GPUs that the node does not have.
	lost []*inspect.Tenant
	// problems are those that no GPU of the node shows.
	problems []*problem
	products []string // "8 × MI300X"
	sum      sum
}

// problem is a problem and where it is drawn first.
type problem struct {
	inspect.Problem
	node *nodeView
	card *card
}

func (p *problem) bad() bool { return p.Severity == inspect.Error }

// word is the severity, and the class of its colour in pages and pictures.
func (p *problem) word() string {
	if p.bad() {
		return "error"
	}
	return "warning"
}

// sum is what a GPU, a node or all of it come to.
type sum struct {
	gpus, shares, used int
	cus, usedCUs       int
	mib, usedMiB       int64
	pods               int
	errors, warnings   int
}

func (s *sum) add(o sum) {
	s.gpus += o.gpus
	s.shares += o.shares
	s.used += o.used
	s.cus += o.cus
	s.usedCUs += o.usedCUs
	s.mib += o.mib
	s.usedMiB += o.usedMiB
}

func (s *sum) count(problems []*problem) {
	for _, p := range problems {
		if p.bad() {
			s.errors++
		} else {
			s.warnings++
		}
	}
}

// newView sorts a cluster into what is drawn where.
func newView(c *inspect.Cluster, o Options) *view {
	v := &view{title: plain(cmp.Or(o.Title, "AMD GPUs")), time: o.Time}
	place := placer{byDevice: map[deviceKey]*card{}, byNode: map[string]*nodeView{}, marks: newMarks(c)}
	for _, n := range c.Nodes {
		if o.Node == "" || o.Node == n.Name {
			v.nodes = append(v.nodes, place.node(n))
		}
	}
	if o.Node == "" {
		for i := range c.Problems {
			v.problems = append(v.problems, &problem{Problem: c.Problems[i]})
		}
	}
	for _, p := range c.Pods {
		place.pod(v, p, o.Node == "")
	}
	for _, n := range v.nodes {
		n.finish(v, o)
	}
	if o.Problems {
		v.nodes = slices.DeleteFunc(v.nodes, func(n *nodeView) bool { return len(n.cards) == 0 && len(n.problems) == 0 })
	}
	slices.SortStableFunc(v.problems, func(a, b *problem) int { return cmp.Compare(a.word(), b.word()) }) // "error" first
	v.total()
	return v
}

type deviceKey struct{ node, id string }

// placer finds where things are drawn.
type placer struct {
	byDevice map[deviceKey]*card
	byNode   map[string]*nodeView
	marks    map[podKey]podMark
}

// node makes the cards of a node: one for each physical GPU, in the order of
// the index of its first device.
func (p *placer) node(n *inspect.Node) *nodeView {
	view := &nodeView{Node: n}
	p.byNode[n.Name] = view
	view.problems = problemsOf(view, nil, n.Problems)
	physical := map[string]*card{}
	for _, g := range n.GPUs {
		c := physical[g.Physical]
		if c == nil {
			c = &card{node: n, physical: g.Physical}
			physical[g.Physical] = c
			view.cards = append(view.cards, c)
		}
		c.parts = append(c.parts, &part{GPU: g})
		p.byDevice[deviceKey{n.Name, g.Device.ID}] = c
		c.problems = append(c.problems, problemsOf(view, c, g.Problems)...)
	}
	for _, c := range view.cards {
		c.arrange(p.marks)
		for _, h := range c.holdings {
			h.problems = problemsOf(view, c, h.Problems)
			c.problems = append(c.problems, h.problems...)
		}
	}
	slices.SortStableFunc(view.cards, func(a, b *card) int { return cmp.Compare(a.index, b.index) })
	return view
}

func problemsOf(n *nodeView, c *card, problems []inspect.Problem) []*problem {
	var all []*problem
	for i := range problems {
		all = append(all, &problem{Problem: problems[i], node: n, card: c})
	}
	return all
}

// pod puts a pod's own problems on every GPU it holds a part of, else on its
// node, and what it holds of GPUs that are not there on its node too. Where its
// node is not drawn they stand in the list alone, if all nodes are.
func (p *placer) pod(v *view, pod *inspect.Pod, all bool) {
	n := p.byNode[pod.Node]
	elsewhere := func(problems []inspect.Problem) {
		switch {
		case n != nil:
			n.problems = append(n.problems, problemsOf(n, nil, problems)...)
		case all:
			v.problems = append(v.problems, problemsOf(nil, nil, problems)...)
		}
	}
	var cards []*card
	for _, t := range pod.Tenants {
		if c := p.byDevice[deviceKey{t.Node, t.Device}]; c != nil {
			if !slices.Contains(cards, c) {
				cards = append(cards, c)
			}
			continue
		}
		elsewhere(t.Problems)
		if n != nil {
			n.lost = append(n.lost, t)
		}
	}
	if len(cards) == 0 {
		elsewhere(pod.Problems)
		return
	}
	own := problemsOf(n, cards[0], pod.Problems)
	for _, c := range cards {
		c.problems = append(c.problems, own...)
	}
}

// finish adds a node up, once all problems are in their places.
func (n *nodeView) finish(v *view, o Options) {
	seen := map[*problem]bool{}
	var all []*problem
	add := func(problems []*problem) {
		for _, p := range problems {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	add(n.problems)
	for _, c := range n.cards {
		add(c.problems)
		c.sum.count(c.problems)
		n.sum.add(c.sum)
	}
	n.sum.count(all)
	n.products = n.countProducts()
	n.sum.pods = n.pods()
	v.problems = append(v.problems, all...)
	if o.Problems {
		n.cards = slices.DeleteFunc(n.cards, func(c *card) bool { return len(c.problems) == 0 })
	}
}

func (n *nodeView) pods() int {
	pods := map[podKey]bool{}
	for _, c := range n.cards {
		for _, h := range c.holdings {
			pods[keyOf(h.Tenant)] = true
		}
	}
	return len(pods)
}

func (v *view) total() {
	for _, n := range v.nodes {
		v.sum.add(n.sum)
		v.sum.pods += n.sum.pods
	}
	v.sum.count(v.problems)
}

// words are the head of a node: what it has and what of it is granted.
func (n *nodeView) words() []string {
	parts := append([]string{plain(n.Name)}, n.products...)
	if n.Mode != "" {
		parts = append(parts, plain(n.Mode)+" mode")
	}
	if len(n.GPUs) == 0 {
		return append(parts, "no GPU is registered")
	}
	return append(append(parts, n.sum.words()...), plural(n.sum.pods, "pod"))
}

func (n *nodeView) countProducts() []string {
	var names []string
	count := map[string]int{}
	for _, c := range n.cards {
		if count[c.product()] == 0 {
			names = append(names, c.product())
		}
		count[c.product()]++
	}
	for i, name := range names {
		names[i] = decimal(int64(count[name])) + " × " + name
	}
	return names
}

// shortProduct is a product name without the maker's.
func shortProduct(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(plain(name), "AMD "), "Instinct ")
}
