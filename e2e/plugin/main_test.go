package plugin

import (
	"os"
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// lab is the control plane all tests of this package share.
var lab *node.Lab

func TestMain(m *testing.M) {
	os.Exit(node.Run(func(l *node.Lab) int { lab = l; return m.Run() }))
}
