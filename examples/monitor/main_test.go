package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/monitor"
)

func noEnv(string) string { return "" }

func TestRunRefuses(t *testing.T) {
	named := func(name string) string { return map[string]string{"NODE_NAME": "n"}[name] }
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	good := kubeconfig(t, "http://127.0.0.1:1")
	for name, tt := range map[string]struct {
		args  []string
		env   func(string) string
		code  int
		want  string
		usage bool
	}{
		"no NODE_NAME":            {nil, noEnv, 1, "k8s-vgpu-monitor: want the node's name in the environment variable NODE_NAME, found none\n", false},
		"not in a cluster":        {nil, named, 1, "k8s-vgpu-monitor: want to run in a cluster, or a kubeconfig: ", false},
		"a kubeconfig of nothing": {[]string{"-kubeconfig", broken + "x"}, named, 1, "k8s-vgpu-monitor: kubeconfig ", false},
		"a broken kubeconfig":     {[]string{"-kubeconfig", broken}, named, 1, "k8s-vgpu-monitor: kubeconfig ", false},
		"no address":              {[]string{"-kubeconfig", good, "-metrics_bind_address", "nowhere"}, named, 1, "k8s-vgpu-monitor: metrics_bind_address: ", false},
		"an unknown flag":         {[]string{"-drm_root", "/sys"}, named, 2, "flag provided but not defined: -drm_root\n", true},
		"an argument":             {[]string{"serve"}, named, 2, "k8s-vgpu-monitor: want flags only, found \"serve\"\n", true},
		"a short resync":          {[]string{"-resync", "1s"}, named, 2, "k8s-vgpu-monitor: resync: want 10s or more, found 1s\n", true},
		"no duration":             {[]string{"-resync", "x"}, named, 2, `invalid value "x" for flag -resync: `, true},
		"help":                    {[]string{"-h"}, named, 0, "Usage of k8s-vgpu-monitor:\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			if code := run(t.Context(), tt.args, tt.env, io.Discard, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			got := stderr.String()
			if !strings.HasPrefix(got, tt.want) || strings.Contains(got, "Usage of") != tt.usage {
				t.Errorf("standard error:\n%swant %q, usage %t", got, tt.want, tt.usage)
			}
			if first, _, _ := strings.Cut(got, "\n"); tt.code == 2 && !strings.HasSuffix(got, strings.TrimPrefix(first, "k8s-vgpu-monitor: ")+"\n") {
				t.Errorf("the last line is not what is wrong:\n%s", got)
			}
			if tt.usage && !strings.Contains(got, "NODE_NAME") {
				t.Errorf("the usage does not say that NODE_NAME is required:\n%s", got)
			}
			if !tt.usage && strings.Count(got, "\n") != 1 {
				t.Errorf("standard error has not one line:\n%s", got)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	c, _ := parse(nil, io.Discard)
	want := config{":9394", "/sys", "/sys/fs/cgroup", "/usr/local", "", 10 * time.Minute}
	if c == nil || *c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}

// kubeconfig is a file that names an API server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", server)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func get(t *testing.T, l net.Addr, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + l.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// A node from its start to its end.
func TestServe(t *testing.T) {
	sysfs := fixturetest.Machine(t, "rx7900xtx")
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{annotations.NodeRegisterKey: "[]"},
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	c := &config{sysfs: sysfs, cgroups: t.TempDir(), hookPath: t.TempDir(), resync: time.Minute}
	go func() { served <- serve(ctx, c, "n", client, l) }()
	if code, body := get(t, l.Addr(), "/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, body)
	}
	for code, tries := 0, 0; code != 200; tries++ {
		if tries == 1000 {
			t.Fatal("never ready")
		}
		time.Sleep(10 * time.Millisecond)
		code, _ = get(t, l.Addr(), "/readyz")
	}
	code, body := get(t, l.Addr(), "/metrics")
	for _, want := range []string{"hami_host_gpu_temperature_celsius{", `hami_vgpumonitor_collect_success{node="n",zone="vGPU"} 1`} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("/metrics: %d, want %s in\n%s", code, want, body)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

// The API server is away: the GPUs are served all the same.
func TestRunWithoutAnAPIServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"-kubeconfig", kubeconfig(t, "http://127.0.0.1:1"), "-metrics_bind_address", address.String(),
			"-sysfs_root", fixturetest.Machine(t, "rx7900xtx"), "-cgroup_root", t.TempDir(), "-host_hook_path", t.TempDir(),
		}, func(string) string { return "n" }, io.Discard, &stderr)
	}()
	for range 1000 {
		if conn, err := net.Dial("tcp", address.String()); err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if code, body := get(t, address, "/readyz"); code != 503 || !strings.Contains(body, monitor.ErrNotListed.Error()) || strings.Contains(body, "timeout") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	code, body := get(t, address, "/metrics")
	for _, want := range []string{"hami_host_gpu_power_usage_watts{", `hami_vgpumonitor_collect_success{node="n",zone="vGPU"} 0`} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("/metrics: %d, want %s in\n%s", code, want, body)
		}
	}
	cancel()
	if code := <-ended; code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d, standard error %q", code, stderr.String())
	}
}

// What stays wrong is logged once.
func TestProblemsAreLoggedOnce(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	p := problems{log: logger}
	a, b := fmt.Errorf("a is broken"), fmt.Errorf("b is broken")
	for _, list := range [][]error{nil, {a}, {a, a}, {b, a}, {b}, {a}, nil, nil, {b}} {
		p.report(list)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for text, want := range map[string]int{"a is broken": 2, "b is broken": 2, "collected again": 1} {
		if n := strings.Count(log, text); n != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, n, want, log)
		}
	}
}

// A name that is no node's is logged without anybody asking for metrics.
func TestWrongNodeNameIsLogged(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	p := problems{log: logger}
	watch := monitor.NewWatch(fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), "m", monitor.WatchOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); watch.Run(ctx) }()
	p.start(ctx, watch)
	_, err := watch.Node()
	p.report([]error{err}) // the first collection finds the same
	cancel()
	<-ended
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if n := strings.Count(log, `node "m": there is none`) + strings.Count(log, `node \"m\": there is none`); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log)
	}
}
