package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// module is the module whose plugin is tested.
const module = "github.com/Project-HAMi/hami-amd"

// Lab is what the nodes of a test binary share: a control plane and the built
// plugin.
type Lab struct {
	// Cluster runs for all tests. A test that stops its API server starts it
	// again.
	Cluster *cluster.Cluster
	// Client may do everything.
	Client kubernetes.Interface
	// Binary is the plugin, built as for its image.
	Binary string

	root    string // of the repository
	applied string // name of the chart whose objects are in the cluster
}

// Run starts a lab in a mount namespace of its own and returns what tests does,
// as an exit code. It is meant for TestMain; see kubelet.InNamespace.
func Run(tests func(*Lab) int) int {
	return kubelet.InNamespace(func() int {
		code, err := run(tests)
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
		return code
	})
}

func run(tests func(*Lab) int) (code int, err error) {
	dir, err := os.MkdirTemp("", "hami-amd-lab-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	logs, err := os.Create(filepath.Join(dir, "kubelet.log"))
	if err != nil {
		return 1, err
	}
	defer logs.Close()
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(logs, nil))) // kubelet's parts run in this process

	lab := &Lab{}
	if err := lab.build(filepath.Join(dir, "k8s-device-plugin")); err != nil {
		return 1, err
	}
	if lab.Cluster, err = cluster.Start(context.Background(), cluster.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, lab.Cluster.Stop()) }()
	// Not the tests' business to wait for: the driver's own requests.
	admin := lab.Cluster.Admin()
	admin.QPS = -1
	if lab.Client, err = kubernetes.NewForConfig(admin); err != nil {
		return 1, err
	}
	if code = tests(lab); code != 0 {
		lab.Cluster.WriteLogs(os.Stderr)
		if data, err := os.ReadFile(logs.Name()); err == nil {
			fmt.Fprintf(os.Stderr, "kubelet:\n%s", process.Tail(data, 40))
		}
	}
	return code, nil
}

// build builds the plugin as examples/deviceplugin/Dockerfile does.
func (l *Lab) build(path string) error {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Stderr = os.Stderr
	dir, err := list.Output()
	if err != nil {
		return fmt.Errorf("find the module %s: %w", module, err)
	}
	l.root, l.Binary = strings.TrimSpace(string(dir)), path
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-ldflags=-s -w", "-o", path, "./examples/deviceplugin")
	build.Dir = l.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return nil
}

// chart returns a rendering of the chart by the name it has in
// examples/deviceplugin/testdata/rendered, once its objects are in the cluster.
// Renderings have objects of the same names, so the last one holds.
func (l *Lab) chart(name string) (*chart, error) {
	documents, err := os.ReadFile(filepath.Join(l.root, "examples", "deviceplugin", "testdata", "rendered", name+".yaml"))
	if err != nil {
		return nil, err
	}
	c, err := parseChart(string(documents))
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	if l.applied == name {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Cluster.Apply(ctx, c.namespace, string(documents)); err != nil {
		return nil, fmt.Errorf("chart %s: %w", name, err)
	}
	l.applied = name
	return c, nil
}

// access is what the plugin of a chart may do.
func (l *Lab) access(c *chart) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.Cluster.ServiceAccount(ctx, c.namespace, c.account)
}
