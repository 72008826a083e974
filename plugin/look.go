package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

// look finds the devices and their health. Without a pulse nothing is checked,
// and GPUs that the node keeps for itself are left alone always.
func (d *devices) look(ctx context.Context) (*snapshot, error) {
	scan, err := d.scanner.Scan()
	if err != nil {
		return nil, fmt.Errorf("discovering GPUs: %w", err)
	}
	inv := scan.Inventory
	opts := d.cfg.registerOptions(d.mode)
	gpus, partitions, notes, err := d.cfg.excludeByID(d.mode, inv)
	if err != nil {
		return nil, err
	}
	opts.Exclude = slices.Concat(opts.Exclude, gpus)
	reg, err := inv.Register(opts)
	if err == nil && d.cfg.Pulse > 0 {
		notes = append(notes, d.health(ctx, registeredGPUs(reg), scan.InReset, &opts)...)
		reg, err = inv.Register(opts)
	}
	if err != nil {
		return nil, err
	}
	reg.Devices = slices.DeleteFunc(reg.Devices, func(r partition.Registered) bool { return partitions[r.ID] })
	for _, s := range inv.Skipped {
		notes = append(notes, fmt.Sprintf("%s is left out: %v", s.Device, s.Reason))
	}
	notes = slices.Concat(inv.Notes, reg.Notes, notes)
	d.logNotes(notes)
	if scan.Changed {
		d.logTopology(inv)
	}
	return newSnapshot(reg.Devices, inv, d.mode, notes), nil
}

// registeredGPUs is an inventory of the GPUs that something is registered of.
func registeredGPUs(reg *partition.Registration) *partition.Inventory {
	_, gpus := gpuIndexes(reg.Devices)
	inv := &partition.Inventory{GPUs: make([]partition.GPU, len(gpus))}
	for i, g := range gpus {
		inv.GPUs[i] = *g
	}
	return inv
}

// health adds what the checks find to the options. The device nodes and the
// exporter are asked at the same time: each may take its whole timeout. Where
// several know a reason, the first of them counts: the kernel's reset, the
// device nodes, the exporter.
func (d *devices) health(ctx context.Context, inv *partition.Inventory, inReset map[partition.BDF]string, opts *partition.RegisterOptions) (notes []string) {
	var (
		verdicts exporter.Verdicts
		listErr  error
		done     = make(chan struct{})
	)
	go func() {
		defer close(done)
		verdicts, listErr = exporter.List(ctx, exporter.Options{Socket: d.cfg.ExporterSocket})
	}()
	checked := d.checker.Check(ctx, inv)
	<-done

	if line := d.outage.Observe(d.now(), listErr); line != "" {
		d.log.Info(line)
	}
	bdfs := make([]partition.BDF, len(inv.GPUs))
	for i := range inv.GPUs {
		bdfs[i] = inv.GPUs[i].BDF
	}
	reasons := exporter.Reasons(verdicts, bdfs)
	if reasons == nil {
		reasons = make(map[partition.BDF]string)
	}
	maps.Copy(reasons, checked.GPUs)
	maps.Copy(reasons, inReset)
	opts.Unhealthy, opts.UnhealthyRenderMinors = reasons, checked.RenderMinors
	return slices.Concat(checked.Notes, verdicts.Notes)
}

// logNotes logs the notes that were not there at the last look.
func (d *devices) logNotes(notes []string) {
	now := make(map[string]bool, len(notes))
	for _, n := range notes {
		if now[n] = true; !d.noted[n] {
			d.log.Info(n)
		}
	}
	d.noted = now
}

// logFirst says what the node has. Later looks log what changed.
func (d *devices) logFirst(s *snapshot) {
	resources := append([]string{}, partition.Resources(s.Devices)...) // not null in the log
	d.log.Info("Found the node's devices", "gpus", len(s.Inventory.GPUs), "registered", len(s.Devices), "resources", resources)
	if len(s.Inventory.GPUs)+len(s.Inventory.Skipped) == 0 {
		d.log.Info("No AMD GPU is on this node, or the amdgpu driver is not loaded: it is looked for again", "kfd", d.cfg.sysfs()+"/class/kfd")
	}
	for i := range s.Devices {
		if r := &s.Devices[i]; !r.Health {
			d.log.Error(nil, "A device is unhealthy", "device", r.ID, "bdf", r.GPU.BDF, "reason", r.Unhealthy)
		}
	}
}

// logChange logs what is worse than before as an error.
func (d *devices) logChange(c partition.Change) {
	text := "A device changed: " + c.String()
	if c.Kind == partition.Vanished || c.Kind == partition.HealthChanged && c.To != "" {
		d.log.Error(nil, text)
		return
	}
	d.log.Info(text)
}

// logTopology is what log level 4 adds.
func (d *devices) logTopology(inv *partition.Inventory) {
	log := d.log.V(4)
	if !log.Enabled() {
		return
	}
	log.Info("Read the topology", "gpus", len(inv.GPUs), "skipped", len(inv.Skipped))
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		log.Info("GPU", "bdf", g.BDF, "name", g.Name, "gfx", g.GFX, "compute", g.Compute, "memory", g.Memory,
			"modes", g.ComputeModes, "nodes", len(g.Nodes), "vf", g.VF)
		for _, n := range g.Nodes {
			log.Info("KFD node", "bdf", g.BDF, "node", n.ID, "partition", n.Partition, "render", n.RenderMinor,
				"cus", n.Geometry.CUs, "xccs", n.Geometry.XCCs, "links", len(n.Links))
		}
	}
}
