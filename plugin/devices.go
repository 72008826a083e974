package plugin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

// devices is the node's devices, looked at again and again. One goroutine calls
// look; everything else may be called from any.
type devices struct {
	cfg  Config
	mode partition.OperatingMode
	log  klog.Logger
	now  func() time.Time
	cdi  *cdiWriter // nil when CDI is off

	scanner *partition.Scanner
	checker *partition.HealthChecker
	outage  exporter.Outage
	noted   map[string]bool // what was logged the last time
	scanErr string          // the last error of the scanner, logged once

	current atomic.Pointer[snapshot]

	mu      sync.Mutex
	changed chan struct{} // closed when current is replaced
}

func newDevices(cfg Config, mode partition.OperatingMode, log klog.Logger) *devices {
	d := &devices{
		cfg: cfg, mode: mode, log: log, now: time.Now,
		scanner: partition.NewScanner(cfg.sysfs()),
		checker: &partition.HealthChecker{Dev: cfg.dev()},
		changed: make(chan struct{}),
	}
	if cfg.CDISpecDir != "" {
		d.cdi = &cdiWriter{dir: cfg.CDISpecDir}
	}
	return d
}

// Snapshot is the devices as they are now.
func (d *devices) Snapshot() *snapshot { return d.current.Load() }

// PrepareCDI implements snapshotSource.
func (d *devices) PrepareCDI(s *snapshot) error {
	if d.cdi == nil {
		return nil
	}
	return d.cdi.ensure(s)
}

// watch returns the devices and a channel that is closed when they change.
func (d *devices) watch() (*snapshot, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current.Load(), d.changed
}

// publish replaces the devices and wakes the watchers.
func (d *devices) publish(s *snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current.Store(s)
	close(d.changed)
	d.changed = make(chan struct{})
}

// start looks for the first time. A topology that changes while it is read is
// looked at again; every other error is final.
func (d *devices) start(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		next, err := d.look(ctx)
		if err == nil && d.cdi != nil {
			err = d.cdi.ensure(next)
		}
		if err == nil {
			d.logFirst(next)
			d.publish(next)
			return nil
		}
		if !errors.Is(err, partition.ErrTopologyChanged) || attempt == 10 {
			return err
		}
		if !sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// rescan is how often the devices are looked for when there are no health
// checks: a driver that is loaded late, or GPUs that change their mode, must not
// wait for a restart of the plugin.
const rescan = time.Minute

// pulse looks every cfg.Pulse until ctx ends, and publishes what changed.
// onChange is called before the watchers are woken, so that kubelet cannot ask
// for a device the allocator does not know.
func (d *devices) pulse(ctx context.Context, onChange func(prev, next *snapshot)) {
	every := d.cfg.Pulse
	if every == 0 {
		every = rescan
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.again(ctx, onChange)
	}
}

// again is one look of the pulse.
func (d *devices) again(ctx context.Context, onChange func(prev, next *snapshot)) {
	prev := d.Snapshot()
	next, err := d.look(ctx)
	if ctx.Err() != nil {
		return // what a cancelled look found says nothing
	}
	if err != nil {
		if text := err.Error(); text != d.scanErr {
			d.scanErr = text
			d.log.Error(err, "Looking at the GPUs failed, they stay as they were")
		}
		return
	}
	d.scanErr = ""
	changes := partition.Diff(prev.Devices, next.Devices)
	if len(changes) == 0 && prev.Inventory == next.Inventory {
		return
	}
	for _, c := range changes {
		d.logChange(c)
	}
	if d.cdi != nil {
		if err := d.cdi.ensure(next); err != nil { // Allocate tries again
			d.log.Error(err, "Writing the CDI spec failed")
		}
	}
	onChange(prev, next)
	d.publish(next)
}
