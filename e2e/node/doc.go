// Package node is a GPU node for tests: a recorded machine's sysfs, kubelet's
// device manager, HAMi's scheduler, and the plugin binary between them, run as
// the chart runs it.
//
//	var lab *node.Lab
//
//	func TestMain(m *testing.M) {
//		os.Exit(node.Run(func(l *node.Lab) int { lab = l; return m.Run() }))
//	}
//
//	func TestSlice(t *testing.T) {
//		n := lab.Start(t, node.Options{})
//		served, err := n.Place(n.Pod("train", node.Slice("app", 1, 25, 16384)))
//		...
//		n.Check() // nobody has what another pod has
//	}
//
// The arguments, the environment and the rights of the plugin are those of a
// rendering of the chart that its own tests keep up to date; only the places of
// the host are others. Its calls to the API server go through package proxy.
//
// Node.Check holds what must be true of a node whatever happened to it. It
// believes neither the plugin's annotations alone nor its answers alone: it
// compares them with each other, with the grants, and between pods.
package node
