package plugin

import (
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// bufferedLog keeps what is logged.
func bufferedLog(t *testing.T) (klog.Logger, func() string) {
	l := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	return l, func() string { return l.GetSink().(ktesting.Underlier).GetBuffer().String() }
}

func TestResolveModes(t *testing.T) {
	operating, compute := annotations.OperatingModeKey, annotations.ComputePartitionKey
	for name, test := range map[string]struct {
		cfg  Config
		node map[string]string
		want modes
		log  []string
	}{
		"nothing said":   {want: modes{partition.ModeCU, ""}, log: []string{"operating mode: cu"}},
		"variables":      {Config{OperatingMode: "partition", ComputePartition: "cpx"}, nil, modes{partition.ModePartition, partition.CPX}, []string{"operating mode: partition", "compute partition: cpx"}},
		"the node wins":  {Config{OperatingMode: "cu", ComputePartition: "cpx"}, map[string]string{operating: "partition", compute: "QPX"}, modes{partition.ModePartition, partition.QPX}, []string{"operating mode: partition"}},
		"a node in cu":   {Config{OperatingMode: "partition", ComputePartition: "cpx"}, map[string]string{operating: "cu"}, modes{partition.ModeCU, ""}, []string{"operating mode: cu"}},
		"a bad one":      {Config{OperatingMode: "partition"}, map[string]string{operating: "mig\nfoo"}, modes{partition.ModePartition, ""}, []string{operating, "operating mode: partition"}},
		"a bad profile ": {Config{OperatingMode: "partition", ComputePartition: "dpx"}, map[string]string{compute: "9"}, modes{partition.ModePartition, partition.DPX}, []string{compute}},
	} {
		t.Run(name, func(t *testing.T) {
			log, text := bufferedLog(t)
			got, err := resolveModes(test.cfg, test.node, log)
			if err != nil || got != test.want {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
			for _, want := range test.log {
				if !strings.Contains(text(), want) {
					t.Errorf("log lacks %q:\n%s", want, text())
				}
			}
		})
	}
}
