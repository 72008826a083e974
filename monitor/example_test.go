package monitor_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/monitor"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// quiet is a cluster whose node has no pods with GPUs and no registration yet;
// monitor.NewWatch makes a real one.
type quiet struct{}

func (quiet) Pods() ([]*corev1.Pod, error) { return nil, nil }
func (quiet) Node() (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, nil
}

func Example() {
	dir, err := fixture.MkdirTemp()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	machine, err := testdata.Machine("rx7900xtx")
	if err == nil {
		err = fixture.Unpack(machine, dir)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	collector, err := monitor.New(monitor.Options{
		NodeName:   "node-1",
		Cluster:    quiet{},
		SysfsRoot:  filepath.Join(dir, "sys"),
		CgroupRoot: dir, // without a dmem controller
		HookPath:   dir,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(response.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			fmt.Print(line)
		}
	}
	// Output:
	// hami_host_gpu_memory_total_bytes{device_index="0",device_type="AMD Radeon RX 7900 XTX",device_uuid="53ff744c-0000-1000-80b1-a2c8e7d64f09",node="node-1",zone="vGPU"} 2.575302656e+10
	// hami_host_gpu_memory_used_bytes{device_index="0",device_type="AMD Radeon RX 7900 XTX",device_uuid="53ff744c-0000-1000-80b1-a2c8e7d64f09",node="node-1",zone="vGPU"} 2.9884416e+08
	// hami_host_gpu_power_usage_watts{device_index="0",device_type="AMD Radeon RX 7900 XTX",device_uuid="53ff744c-0000-1000-80b1-a2c8e7d64f09",node="node-1",zone="vGPU"} 139
	// hami_host_gpu_temperature_celsius{device_index="0",device_type="AMD Radeon RX 7900 XTX",device_uuid="53ff744c-0000-1000-80b1-a2c8e7d64f09",node="node-1",zone="vGPU"} 41
	// hami_host_gpu_utilization_ratio{device_index="0",device_type="AMD Radeon RX 7900 XTX",device_uuid="53ff744c-0000-1000-80b1-a2c8e7d64f09",node="node-1",zone="vGPU"} 0
	// hami_vgpumonitor_collect_success{node="node-1",zone="vGPU"} 1
}
