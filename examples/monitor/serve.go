package main

import (
	"context"
	"maps"
	"net"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/monitor"
)

// serve answers on l until ctx ends.
func serve(ctx context.Context, c *config, node string, client kubernetes.Interface, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := monitor.NewWatch(client, node, monitor.WatchOptions{Resync: c.resync})
	reports := problems{log: klog.Background()}
	collector, err := monitor.New(monitor.Options{
		NodeName: node, Cluster: watch,
		SysfsRoot: c.sysfs, CgroupRoot: c.cgroups, HookPath: c.hookPath,
		Problems: reports.report,
	})
	if err != nil {
		l.Close()
		return err
	}
	var background sync.WaitGroup
	background.Go(func() { watch.Run(ctx) })
	background.Go(func() { reports.start(ctx, watch) })
	defer background.Wait()
	defer cancel()
	return monitor.Serve(ctx, l, monitor.Handler(collector, watch.Ready))
}

// problems logs what goes wrong in collections when it begins and when it is
// over, not at every scrape.
type problems struct {
	log klog.Logger

	mu    sync.Mutex // for known
	known map[string]bool
}

// patience is how long the API server may take before that is logged.
const patience = 10 * time.Second

// start reports what would make all metrics of pods missing without waiting for
// somebody to ask for metrics: no answer from the API server, and no such node.
func (p *problems) start(ctx context.Context, watch *monitor.Watch) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		err := watch.Ready()
		listed := err == nil
		if listed {
			_, err = watch.Node()
		}
		if slow := time.Since(begin) > patience; listed || slow {
			if err != nil {
				p.add(err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// add reports one problem until the next collection.
func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := err.Error()
	if !p.known[text] {
		p.log.Error(err, "Metrics are missing or old")
		p.known = maps.Clone(p.known)
		if p.known == nil {
			p.known = make(map[string]bool)
		}
		p.known[text] = true
	}
}

func (p *problems) report(list []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := make(map[string]bool, len(list))
	for _, err := range list {
		text := err.Error()
		if !p.known[text] && !now[text] {
			p.log.Error(err, "Metrics are missing or old")
		}
		now[text] = true
	}
	if len(now) == 0 && len(p.known) > 0 {
		p.log.Info("Everything is collected again")
	}
	p.known = now
}
