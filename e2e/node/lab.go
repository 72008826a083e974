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

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func (l *Lab) rendered() string {
	return filepath.Join(l.root, "examples", "deviceplugin", "testdata", "rendered")
}

// Charts are the names of all renderings of the chart.
func (l *Lab) Charts() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(l.rendered(), "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("the chart has no renderings")
	}
	for i := range files {
		files[i] = strings.TrimSuffix(filepath.Base(files[i]), ".yaml")
	}
	return files, err
}

// Apply puts the objects of a rendering into the cluster. The API server checks
// strictly.
func (l *Lab) Apply(name string) error {
	_, err := l.chart(name)
	return err
}

// chart returns a rendering of the chart by the name it has in
// examples/deviceplugin/testdata/rendered, once its objects are in the cluster.
// Renderings have objects of the same names, so the last one holds.
func (l *Lab) chart(name string) (*chart, error) {
	documents, err := os.ReadFile(filepath.Join(l.rendered(), name+".yaml"))
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
	for _, rule := range []authorizationv1.ResourceAttributes{
		{Verb: "get", Resource: "nodes"}, {Verb: "patch", Resource: "nodes", Subresource: "status"},
	} {
		given := rule.Subresource == "" || strings.Contains(string(documents), "nodes/status")
		if err := l.awaitRight(ctx, c, &rule, given); err != nil {
			return nil, fmt.Errorf("chart %s: %w", name, err)
		}
	}
	l.applied = name
	return c, nil
}

// awaitRight waits until the API server knows that the plugin's account has a
// right, or has it no more: it learns of changed roles through a watch.
func (l *Lab) awaitRight(ctx context.Context, c *chart, rule *authorizationv1.ResourceAttributes, want bool) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + c.namespace + ":" + c.account, ResourceAttributes: rule,
	}}
	for {
		answer, err := l.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask for the rights of %s: %w", review.Spec.User, err)
		}
		if answer.Status.Allowed == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s may %s %s/%s: %v, want %v", review.Spec.User, rule.Verb, rule.Resource, rule.Subresource, answer.Status.Allowed, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// access is what the plugin of a chart may do.
func (l *Lab) access(c *chart) (*rest.Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.Cluster.ServiceAccount(ctx, c.namespace, c.account)
}
