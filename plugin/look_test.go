package plugin

import (
	"testing"

	"k8s.io/klog/v2/ktesting"

	"github.com/Project-HAMi/hami-amd/partition"
)

// The topology that was read is for level 4.
func TestTopologyIsLoggedAtLevel4(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	for level, want := range map[int]int{3: 0, 4: 1} {
		log := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(level)))
		if _, err := newDevices(cfg, partition.ModeCU, log).look(t.Context()); err != nil {
			t.Fatal(err)
		}
		logs := log.GetSink().(ktesting.Underlier).GetBuffer()
		for _, line := range []string{"Read the topology", "KFD node"} {
			if got := countOf(logs, line); got != want {
				t.Errorf("level %d: %d lines with %q, want %d:\n%s", level, got, line, want, logs)
			}
		}
	}
}
