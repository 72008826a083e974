package plugin

import (
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/node"
)

func TestSlices(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.CheckPlaced(n.Place(n.Pod("first", node.Slice("app", 1, 25, 16384))))
	n.CheckPlaced(n.Place(n.Pod("second", node.Slice("app", 1, 25, 16384))))
}
