package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/partition"
)

// Plugin is the device plugin of one node.
type Plugin struct {
	cfg      Config
	deps     Deps
	log      klog.Logger
	settings nodeSettings
	times    times
	ignored  []string // settings in the node's annotations, and why

	// build makes the allocator. Tests of kubelet's side put their own in place.
	build func(Config, Deps, snapshotSource) (allocator, error)
}

// New makes a plugin. It reads the file of node settings, if there is one, and
// nothing else; the node is left alone until Run.
func New(cfg Config, deps Deps) (*Plugin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !cfg.Standalone {
		// The clientset that client-go has for tests returns a nil client.
		if c, ok := deps.Client.(*rest.RESTClient); deps.Client == nil || ok && c == nil {
			return nil, errors.New("no client for the API server: want one, except in standalone mode")
		}
	}
	p := &Plugin{cfg: cfg, deps: deps, log: deps.Log, times: defaultTimes(), build: newAllocator}
	if cfg.NodeConfigFile != "" {
		settings, err := readNodeSettings(cfg.NodeConfigFile, cfg.NodeName)
		if err != nil {
			return nil, err
		}
		p.settings, p.cfg = settings, settings.over(cfg)
		if err := p.cfg.Validate(); err != nil {
			return nil, fmt.Errorf("node settings %s: %w", cfg.NodeConfigFile, err)
		}
	}
	return p, nil
}

// Run is the plugin at work: it puts idle GPUs into the partition mode that is
// wanted, looks for the node's devices, and serves kubelet until ctx ends.
// Calls of kubelet's that are under way then are finished first.
//
// It returns nil when ctx ended, and an error only if the plugin could not
// start, or the part that talks to the API server gave up. Nothing of it is
// running any more when it returns.
func (p *Plugin) Run(ctx context.Context) error {
	mode, err := p.prepare(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() { p.tellIgnored(ctx) })
	devices := newDevices(p.cfg, mode, p.log)
	if p.deps.Now != nil {
		devices.now = p.deps.Now
	}
	if err := devices.start(ctx); err != nil {
		return stopped(ctx, err)
	}
	alloc, err := p.build(p.cfg, p.deps, devices)
	if err != nil {
		return stopped(ctx, err)
	}

	// The allocator outlives the servers, whose last calls it answers.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	serving, stopServing := context.WithCancelCause(ctx)
	defer stopServing(nil)
	done := make(chan struct{})
	var allocErr error
	go func() {
		defer close(done)
		if err := alloc.Run(background); err != nil && background.Err() == nil {
			allocErr = err
			stopServing(err)
		}
	}()
	p.serve(serving, devices, alloc)
	stopBackground()
	<-done
	return allocErr
}

// stopped is nil for an error that comes from the end of ctx.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serve runs the health pulse and one server for each resource until ctx ends.
// A resource that has no devices left is still served, with an empty list, so
// that kubelet's capacity becomes 0 at once; amd.com/gpu always is, because
// kubelet may remember devices of it from an earlier run.
func (p *Plugin) serve(ctx context.Context, devices *devices, alloc allocator) {
	var wg sync.WaitGroup
	defer wg.Wait()
	folder := &socketFolder{dir: p.cfg.pluginDir(), log: p.log, poll: p.times.poll}
	wg.Go(func() { folder.run(ctx) })
	wg.Go(func() { devices.pulse(ctx, alloc.DevicesChanged) })

	serving := make(map[string]bool)
	for {
		now, changed := devices.watch()
		for _, resource := range append(partition.Resources(now.Devices), partition.ResourceGPU) {
			if !serving[resource] {
				serving[resource] = true
				s := newServer(resource, p, folder, devices, alloc)
				wg.Go(func() { s.run(ctx) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
