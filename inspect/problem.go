package inspect

import (
	"cmp"
	"fmt"
	"iter"
	"strings"
)

// Severity is how bad a problem is.
type Severity string

const (
	// Error: a limit does not hold, a pod cannot start, or the books are wrong.
	Error Severity = "error"
	// Warning: nothing is broken yet, or it may be meant so.
	Warning Severity = "warning"
)

// A Problem is one thing about a cluster that does not agree with the rest of
// it. The names say where it is: those that do not apply are "".
type Problem struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Node     string   `json:"node,omitempty"`
	// GPU is the id of the registered device.
	GPU       string `json:"gpu,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	// Detail is one line: what was found, and what was to be expected.
	Detail string `json:"detail"`
	// Remedy is one line: what to do about it.
	Remedy string `json:"remedy"`
}

// Where is the place of the problem in one word or a few: "node n1, gpu G",
// "pod team/train, container main".
func (p Problem) Where() string {
	var parts []string
	for _, part := range [...]struct{ kind, name string }{
		{"pod", joinName(p.Namespace, p.Pod)}, {"container", p.Container}, {"node", p.Node}, {"gpu", p.GPU},
	} {
		if part.name != "" {
			parts = append(parts, part.kind+" "+part.name)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "cluster")
}

// String is for logs.
func (p Problem) String() string {
	return fmt.Sprintf("%s %s: %s: %s", p.Severity, p.Code, p.Where(), p.Detail)
}

func joinName(namespace, name string) string {
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

// All yields every problem once, in a fixed order: those of the cluster, of each
// node and its GPUs by name, then of each pod and its containers.
func (c *Cluster) All() iter.Seq[Problem] {
	return func(yield func(Problem) bool) {
		each := func(problems []Problem) bool {
			for _, p := range problems {
				if !yield(p) {
					return false
				}
			}
			return true
		}
		if !each(c.Problems) {
			return
		}
		for _, n := range c.Nodes {
			if !each(n.Problems) {
				return
			}
			for _, g := range n.GPUs {
				if !each(g.Problems) {
					return
				}
			}
		}
		for _, p := range c.Pods {
			if !each(p.Problems) {
				return
			}
			for _, t := range p.Tenants {
				if !each(t.Problems) {
					return
				}
			}
		}
	}
}
