package inspect

import (
	"fmt"
	"strconv"
)

// maxProblems of one object are kept: one broken annotation can be wrong in ten
// thousand places.
const maxProblems = 32

// report adds a problem to the list of an object. at is a Problem with nothing
// but the place.
func report(list *[]Problem, code Code, at Problem, format string, args ...any) {
	switch n := len(*list); {
	case n >= maxProblems:
		return
	case n == maxProblems-1:
		code, format, args = TooMany, "more than %d problems: the others are left out", []any{maxProblems - 1}
	}
	// No name that Kubernetes allows is longer.
	p := Problem{
		Node: cut(at.Node, 253), GPU: cut(at.GPU, 253), Namespace: cut(at.Namespace, 253), Pod: cut(at.Pod, 253), Container: cut(at.Container, 253),
	}
	p.Code, p.Severity = code, code.Severity()
	p.Detail = fmt.Sprintf(format, args...)
	p.Remedy = fill(code.remedy(), p)
	*list = append(*list, p)
}

func (n *Node) report(code Code, format string, args ...any) {
	report(&n.Problems, code, Problem{Node: n.Name}, format, args...)
}

func (g *GPU) report(code Code, format string, args ...any) {
	report(&g.Problems, code, Problem{Node: g.Node, GPU: g.Device.ID}, format, args...)
}

func (p *Pod) report(code Code, format string, args ...any) {
	p.reportIn("", code, format, args...)
}

func (p *Pod) reportIn(container string, code Code, format string, args ...any) {
	at := Problem{Node: p.Node, Namespace: p.Namespace, Pod: p.Name, Container: container}
	report(&p.Problems, code, at, format, args...)
}

func (t *Tenant) report(code Code, format string, args ...any) {
	at := Problem{Node: t.Node, GPU: t.Device, Namespace: t.Namespace, Pod: t.Pod, Container: t.Container}
	report(&t.Problems, code, at, format, args...)
}

// short shows text that somebody else chose: escaped, and cut.
func short(s string) string { return strconv.Quote(cut(s, 80)) }

// plural is "1 container", "2 containers".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
