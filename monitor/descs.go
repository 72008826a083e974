package monitor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// zone is a label of all metrics of HAMi's monitors.
const zone = "vGPU"

// descs are the metrics. The names up to success, and their labels, are
// those of HAMi's NVIDIA monitor, so that one dashboard shows both.
type descs struct {
	memoryUsed, memoryLimit                                   *prometheus.Desc
	hostUsed, hostTotal, hostBusy, hostTemperature, hostPower *prometheus.Desc
	success                                                   *prometheus.Desc
	cus, effectiveCUs, memoryGranted                          *prometheus.Desc
	registered, committed                                     shareDescs
	healthy                                                   *prometheus.Desc
}

// shareDescs are what a device has, or has given out, of each thing that pods
// share.
type shareDescs struct{ memory, cus, shares *prometheus.Desc }

func newDescs() descs {
	of := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, prometheus.Labels{"zone": zone})
	}
	container := []string{"namespace", "pod", "container", "vdevice_index", "device_uuid"}
	host := []string{"node", "device_index", "device_uuid", "device_type"}
	return descs{
		memoryUsed:      of("hami_vgpu_memory_used_bytes", "Device memory the container uses, in bytes.", container...),
		memoryLimit:     of("hami_vgpu_memory_limit_bytes", "Device memory the container is held to, in bytes; absent where nothing enforces a limit.", container...),
		hostUsed:        of("hami_host_gpu_memory_used_bytes", "Memory of the GPU in use, in bytes.", host...),
		hostTotal:       of("hami_host_gpu_memory_total_bytes", "Memory of the GPU, in bytes.", host...),
		hostBusy:        of("hami_host_gpu_utilization_ratio", "Time the GPU was busy, in percent (0-100).", host...),
		hostTemperature: of("hami_host_gpu_temperature_celsius", "Temperature of the GPU, in degrees Celsius: edge, or junction on GPUs without that sensor.", host...),
		hostPower:       of("hami_host_gpu_power_usage_watts", "Power the GPU draws, in watts.", host...),
		success:         of("hami_vgpumonitor_collect_success", "1 if everything could be collected, 0 if any part could not.", "node"),
		cus:             of("hami_vgpu_compute_units", "Compute units the container holds on the device; 0 is a slice of memory alone.", container...),
		effectiveCUs:    of("hami_vgpu_effective_compute_units", "Effective compute units of the container's mask: XCCs times the fewest CUs on any XCC.", container...),
		memoryGranted:   of("hami_vgpu_memory_granted_bytes", "Device memory the container was granted, in bytes, whether or not anything holds it to that.", container...),
		registered: shareDescs{
			memory: of("hami_gpu_registered_memory_bytes", "Memory of the device the scheduler may give out, in bytes.", host...),
			cus:    of("hami_gpu_registered_compute_units", "Compute units of the device.", host...),
			shares: of("hami_gpu_registered_shares", "Containers that may share the device.", host...),
		},
		committed: shareDescs{
			memory: of("hami_gpu_committed_memory_bytes", "Memory of the device given to pods, in bytes.", host...),
			cus:    of("hami_gpu_committed_compute_units", "Compute units of the device given to pods.", host...),
			shares: of("hami_gpu_committed_shares", "Containers that share the device; all that may while one of them has it whole.", host...),
		},
		healthy: of("hami_gpu_healthy", "1 if the node registers the device as healthy, 0 if not.", host...),
	}
}

func (d *descs) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.memoryUsed, d.memoryLimit, d.hostUsed, d.hostTotal, d.hostBusy, d.hostTemperature, d.hostPower,
		d.success, d.cus, d.effectiveCUs, d.memoryGranted,
		d.registered.memory, d.registered.cus, d.registered.shares,
		d.committed.memory, d.committed.cus, d.committed.shares, d.healthy,
	}
}

// output is where a collection puts its metrics and its problems.
type output struct {
	ch       chan<- prometheus.Metric
	seen     map[series]bool
	problems []error
}

// series is a metric with its label values.
type series struct {
	desc   *prometheus.Desc
	labels string
}

// maxProblems bounds what one collection reports; the rest is counted.
const maxProblems = 100

func (o *output) problem(err error) {
	switch n := len(o.problems); {
	case n < maxProblems:
		o.problems = append(o.problems, err)
	case n == maxProblems:
		o.problems = append(o.problems, errors.New("and more"))
	}
}

// put hands out a gauge. A registry refuses a whole collection over one metric
// that is there twice or has a label that is not text, so such a one, which
// takes a broken annotation, stops here.
func (o *output) put(desc *prometheus.Desc, value float64, labels ...string) {
	key := series{desc, strings.Join(labels, "\xff")}
	if o.seen[key] {
		o.problem(fmt.Errorf("metric with labels %.200q is there twice", labels))
		return
	}
	o.seen[key] = true
	m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	if err != nil {
		o.problem(fmt.Errorf("metric with labels %.200q: %w", labels, err))
		return
	}
	o.ch <- m
}
