package chartcheck

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// named returns the object of a type and a name.
func named[T interface{ GetName() string }](t *testing.T, v values, name string) T {
	t.Helper()
	objects, err := decode(render(t, v))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if o, ok := object.(T); ok && o.GetName() == name {
			return o
		}
	}
	var none T
	t.Fatalf("no %T %s", none, name)
	return none
}

// The monitor listens where it is told, and is found there.
func TestMonitor(t *testing.T) {
	for line, want := range map[string]struct {
		address string
		port    int32
		text    string
	}{
		"monitor.enabled=true": {":9394", 9394, "9394"},
		"monitor.enabled=true,monitor.metricsBindAddress=127.0.0.1:9400": {"127.0.0.1:9400", 9400, "9400"},
	} {
		ds := named[*appsv1.DaemonSet](t, set(t, line), "k8s-vgpu-monitor")
		c := pluginContainer(t, ds)
		if got := given(c, "metrics_bind_address"); got != want.address {
			t.Errorf("%s: -metrics_bind_address is %q, want %q", line, got, want.address)
		}
		if len(c.Ports) != 1 || c.Ports[0].ContainerPort != want.port {
			t.Errorf("%s: ports %v, want %d", line, c.Ports, want.port)
		}
		if got := ds.Spec.Template.Annotations["prometheus.io/port"]; got != want.text {
			t.Errorf("%s: prometheus.io/port is %q, want %q", line, got, want.text)
		}
	}
}

// The monitor reads. It has neither the plugin's rights nor its privileges.
func TestMonitorOnlyReads(t *testing.T) {
	on := set(t, "monitor.enabled=true", "dp.hostHookPath=/opt/hami")
	role := named[*rbacv1.ClusterRole](t, on, "amd-gpu-monitor")
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list", "watch"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	ds := named[*appsv1.DaemonSet](t, on, "k8s-vgpu-monitor")
	if got := ds.Spec.Template.Spec.ServiceAccountName; got != role.Name {
		t.Errorf("the account is %q, want %q", got, role.Name)
	}
	if p := pluginContainer(t, ds).SecurityContext.Privileged; p != nil && *p {
		t.Error("the monitor is privileged")
	}
	wantMounts := map[string]string{
		"/sys":           "/sys Directory ro",
		"/sys/fs/cgroup": "/sys/fs/cgroup Directory ro",
		"/opt/hami/vgpu": "/opt/hami/vgpu DirectoryOrCreate ro",
	}
	if diff := cmp.Diff(wantMounts, mounts(t, ds, pluginContainer(t, ds))); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}
