package prometheus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// An operator's day: a node whose first GPU is full and whose second belongs to
// one pod is looked at with Prometheus, then things go wrong.
func TestNode(t *testing.T) {
	const sick, lost, mute = 3, 4, 5 // devices
	n := newNode(t, "mi300x-spx-8", sick)
	all := n.devices[0].Devmem
	half := annotations.Grant{MemoryMiB: all / 2, CUs: 152}
	n.run("train", 0, half, 0, int64(half.MemoryMiB)*mib*97/100)
	n.run("idle", 0, half, 152, int64(half.MemoryMiB)*mib/100)
	n.run("whole", 1, annotations.Grant{MemoryMiB: all, CUs: 304}, 0, int64(all)*mib/2)
	monitor := n.startMonitor()
	s := startPrometheus(t, monitor.address)

	s.wants("hami_vgpumonitor_collect_success", `{container="monitor",namespace="kube-system",node="gpu-node",pod="k8s-vgpu-monitor-abcde"} 1`)
	t.Run("series", func(t *testing.T) { checkSeries(&server{t, s.program}, n) })
	t.Run("dashboard", func(t *testing.T) { checkDashboard(&server{t, s.program}) })
	t.Run("documents", func(t *testing.T) { checkDocuments(&server{t, s.program}) })

	host := func(i int) map[string]string {
		return map[string]string{"node": nodeName, "device_uuid": n.devices[i].ID}
	}
	tenant := func(pod string) map[string]string {
		return map[string]string{"namespace": namespace, "pod": pod, "container": "main", "vdevice_index": "0", "device_uuid": n.devices[0].ID}
	}
	s.wantAlert("AMDGPUMemoryCommitted", host(0))
	s.wantAlert("AMDGPUTenantNearLimit", tenant("train"))
	s.wantAlert("AMDGPUTenantIdle", tenant("idle"))
	s.wantAlert("AMDGPUUnhealthy", host(sick))
	for _, quiet := range []string{"AMDGPUGone", "AMDGPUMonitorIncomplete", "AMDGPUMonitorDown"} {
		s.wants(fmt.Sprintf("ALERTS{alertname=%q}", quiet))
	}
	s.wants("count by (alertname) (ALERTS)", `{alertname="AMDGPUMemoryCommitted"} 1`, `{alertname="AMDGPUTenantNearLimit"} 1`,
		`{alertname="AMDGPUTenantIdle"} 1`, `{alertname="AMDGPUUnhealthy"} 1`)

	fixturetest.Remove(t, n.sysfs, "bus/pci/devices/"+n.devices[lost].CustomInfo.PCIBDF)
	n.register(append(n.devices[:lost:lost], n.devices[lost+1:]...))
	s.wantAlert("AMDGPUGone", host(lost))

	fixturetest.Write(t, n.sysfs, "bus/pci/devices/"+n.devices[mute].CustomInfo.PCIBDF+"/gpu_busy_percent", "busy\n")
	s.wantAlert("AMDGPUMonitorIncomplete", map[string]string{"node": nodeName})

	monitor.Kill()
	s.wantAlert("AMDGPUMonitorDown", map[string]string{"instance": monitor.address, "node": nodeName})
}

// checkSeries looks at each metric as Prometheus has it.
func checkSeries(s *server, n *node) {
	id := func(i int) string { return n.devices[i].ID }
	tenant := func(pod string, i int, value string) string {
		return fmt.Sprintf(`{container="main",device_uuid=%q,namespace=%q,node=%q,pod=%q,vdevice_index="0"} %s`, id(i), namespace, nodeName, pod, value)
	}
	device := func(i int, value string) string {
		return fmt.Sprintf(`{container="monitor",device_index="%d",device_type=%q,device_uuid=%q,namespace="kube-system",node=%q,pod="k8s-vgpu-monitor-abcde"} %s`,
			i, n.devices[i].Type, id(i), nodeName, value)
	}
	each := func(value func(i int) string) (out []string) {
		for i := range n.devices {
			out = append(out, device(i, value(i)))
		}
		return out
	}
	all := func(value string) []string { return each(func(int) string { return value }) }
	first := func(values ...string) []string {
		return each(func(i int) string { return append(values, "0", "0", "0", "0", "0", "0", "0", "0")[i] })
	}
	for metric, want := range map[string][]string{
		"hami_vgpu_memory_used_bytes":       {tenant("train", 0, "99978701701"), tenant("idle", 0, "1030708264"), tenant("whole", 1, "103070826496")},
		"hami_vgpu_memory_limit_bytes":      {tenant("train", 0, "103070826496"), tenant("idle", 0, "103070826496")},
		"hami_vgpu_memory_granted_bytes":    {tenant("train", 0, "103070826496"), tenant("idle", 0, "103070826496"), tenant("whole", 1, "206141652992")},
		"hami_vgpu_compute_units":           {tenant("train", 0, "152"), tenant("idle", 0, "152"), tenant("whole", 1, "304")},
		"hami_vgpu_effective_compute_units": {tenant("train", 0, "152"), tenant("idle", 0, "152"), tenant("whole", 1, "304")},
		"hami_host_gpu_memory_used_bytes":   all("298844160"),
		"hami_host_gpu_memory_total_bytes":  all("206141652992"),
		"hami_host_gpu_utilization_ratio":   all("0"),
		"hami_host_gpu_temperature_celsius": all("44"),
		"hami_host_gpu_power_usage_watts":   all("139"),
		"hami_gpu_registered_memory_bytes":  all("206141652992"),
		"hami_gpu_registered_compute_units": all("304"),
		"hami_gpu_registered_shares":        all("10"),
		"hami_gpu_committed_memory_bytes":   first("206141652992", "206141652992"),
		"hami_gpu_committed_compute_units":  first("304", "304"),
		"hami_gpu_committed_shares":         first("2", "10"),
		"hami_gpu_healthy":                  each(func(i int) string { return map[bool]string{true: "1", false: "0"}[n.devices[i].Health] }),
	} {
		s.wants(metric, want...)
	}
	s.wants("device:hami_gpu_free_shares:count{device_index=~\"[01]\"}",
		fmt.Sprintf(`{device_index="0",device_type=%q,device_uuid=%q,node=%q} 8`, n.devices[0].Type, id(0), nodeName),
		fmt.Sprintf(`{device_index="1",device_type=%q,device_uuid=%q,node=%q} 0`, n.devices[1].Type, id(1), nodeName))
}

// checkDashboard asks each query of the dashboard, which all have an answer on
// this node.
func checkDashboard(s *server) {
	for _, q := range queries(s.T) {
		s.eventually(fmt.Sprintf("panel %q, query %s", q.panel, q.ref), func(ctx context.Context) error {
			got, err := s.query(ctx, q.expr)
			if err == nil && len(got) == 0 {
				err = errors.New("no series")
			}
			return err
		})
	}
}

// checkDocuments asks the queries of the documents. What they ask for need not
// be on this node, but for the GPUs and tenants there are.
func checkDocuments(s *server) {
	for name, query := range documented(s.T, "promql") {
		s.eventually(name, func(ctx context.Context) error {
			_, err := s.query(ctx, query)
			return err
		})
	}
}
