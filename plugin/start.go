package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// sourceFile is the source of a setting beside those partition knows.
const sourceFile partition.Source = "node settings file"

// prepare decides about the node's operating mode and puts its idle GPUs into
// the compute partition mode that is wanted. The node's annotations are read
// here once: later changes need a restart of the plugin.
func (p *Plugin) prepare(ctx context.Context) (partition.OperatingMode, error) {
	var annotated map[string]string
	p.ignored = nil
	if !p.cfg.Standalone {
		node, err := p.readNode(ctx)
		if err != nil {
			return "", err
		}
		annotated = node.Annotations
	}
	mode, source, notes, err := partition.ResolveOperatingMode(p.cfg.OperatingMode, annotated[annotations.OperatingModeKey])
	if err != nil {
		return "", err
	}
	p.logNotes(notes)
	if text := annotated[annotations.OperatingModeKey]; text != "" && source != partition.SourceAnnotation {
		p.ignored = append(p.ignored, notes[0])
	}
	p.log.Info("operating mode: "+string(mode), "source", fromFile(source, p.settings.OperatingMode))

	to, source, notes, err := partition.ResolveComputePartition(mode, p.cfg.ComputePartition, annotated[annotations.ComputePartitionKey])
	if err != nil {
		return "", err
	}
	p.logNotes(notes)
	if text := annotated[annotations.ComputePartitionKey]; text != "" {
		if _, err := partition.ParseComputePartition(text); err != nil {
			p.ignored = append(p.ignored, notes[0])
		}
	}
	if to != "" {
		p.log.Info("compute partition: "+string(to), "source", fromFile(source, p.settings.ComputePartition))
		p.switchPartitions(ctx, to)
	}
	return mode, ctx.Err()
}

// tellIgnored creates an event for each annotation of the node that cannot be
// followed: whoever set it looks at the node rather than into a log.
func (p *Plugin) tellIgnored(ctx context.Context) {
	if len(p.ignored) == 0 {
		return
	}
	deps := p.deps
	if deps.Now == nil {
		deps.Now = time.Now
	}
	c := &cluster{client: deps.Client, node: p.cfg.NodeName, request: defaultTiming().request}
	for _, message := range p.ignored {
		newEventSender(c, deps).nodeOnce(ctx, corev1.EventTypeWarning, eventSettingIgnored, message)
	}
}

func (p *Plugin) logNotes(notes []string) {
	for _, n := range notes {
		p.log.Info(n)
	}
}

// fromFile tells the node settings file from the variable it outranks.
func fromFile(s partition.Source, inFile *string) partition.Source {
	if s == partition.SourceVariable && inFile != nil && *inFile != "" {
		return sourceFile
	}
	return s
}

// readNode gets the node, however long the API server takes to come up. What
// waiting does not mend is an error: a wrong NODE_NAME, a missing permission.
func (p *Plugin) readNode(ctx context.Context) (*corev1.Node, error) {
	const most = 30 * time.Second
	c := &cluster{client: p.deps.Client, node: p.cfg.NodeName}
	for delay := time.Second; ; delay = min(2*delay, most) {
		call, cancel := context.WithTimeout(ctx, most)
		node, err := c.readNode(call)
		cancel()
		if err == nil {
			return node, nil
		}
		err = fmt.Errorf("reading node %q: %w", p.cfg.NodeName, err)
		if ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return nil, err
		}
		p.log.Error(err, "No answer from the API server, trying again", "delay", delay)
		if !sleep(ctx, delay) {
			return nil, ctx.Err()
		}
	}
}
