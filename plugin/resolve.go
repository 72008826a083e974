package plugin

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// modes are what the node's GPUs are to be, as it was at start.
type modes struct {
	operating partition.OperatingMode
	compute   partition.ComputeMode // "" leaves the GPUs as they are
}

// resolveModes finds the modes from the variables and, over them, from the
// annotations of the node, and logs them.
func resolveModes(cfg Config, node map[string]string, log klog.Logger) (modes, error) {
	operating, source, notes, err := partition.ResolveOperatingMode(cfg.OperatingMode, node[annotations.OperatingModeKey])
	if err != nil {
		return modes{}, err
	}
	compute, from, more, err := partition.ResolveComputePartition(operating, cfg.ComputePartition, node[annotations.ComputePartitionKey])
	if err != nil {
		return modes{}, err
	}
	for _, note := range append(notes, more...) {
		log.Info(note)
	}
	log.Info(fmt.Sprintf("operating mode: %s", operating), "source", source)
	if compute != "" {
		log.Info(fmt.Sprintf("compute partition: %s", compute), "source", from)
	}
	return modes{operating: operating, compute: compute}, nil
}

// readNode reads the annotations of the node. Without them the modes are not
// known, and a node in the wrong mode is worse than one that comes late, so it
// waits for an API server that does not answer.
func readNode(ctx context.Context, c *cluster, retry time.Duration, log klog.Logger) (map[string]string, error) {
	said := ""
	for {
		node, err := c.getNode(ctx)
		if err == nil {
			return node.Annotations, nil
		}
		if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			log.Error(err, "Waiting for the node, whose annotations decide about the mode")
		}
		if !sleep(ctx, retry) {
			return nil, context.Cause(ctx)
		}
	}
}
