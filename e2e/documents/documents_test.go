package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// repository is the root module's folder, seen from this one.
const repository = "../.."

// nodeName is what the documents call a node.
const nodeName = "node-1"

// reader is one who follows the documents, in a folder with a checkout's
// examples and a kubeconfig.
type reader struct {
	*testing.T
	dir, bin string
}

func (r *reader) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func TestClusterCommands(t *testing.T) {
	r := &reader{T: t, dir: t.TempDir(), bin: t.TempDir()}
	r.install()
	control, err := cluster.Start(t.Context(), cluster.Options{})
	r.must(err)
	t.Cleanup(func() { r.must(control.Stop()) })
	r.populate(control)

	files, err := filepath.Glob(repository + "/docs/*.md")
	r.must(err)
	ran := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		r.must(err)
		for _, m := range regexp.MustCompile("(?ms)^```sh cluster\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(m[1]) {
				line, ok := runnable(strings.TrimSpace(line))
				if !ok {
					continue
				}
				ran++
				if err := r.run(line); err != nil {
					t.Errorf("%s: %s: %v", filepath.Base(file), line, err)
				}
			}
		}
	}
	if ran < 20 {
		t.Errorf("%d commands ran", ran)
	}
}

// inner is a command whose output is an argument of another.
var inner = regexp.MustCompile(`\$\(([^()]*)\)`)

// runnable is a command as it can be run without a kubelet: rollout does not
// wait, of logs only the pod is looked up, and drain only says what it would do.
func runnable(line string) (string, bool) {
	switch m := inner.FindStringSubmatch(line); {
	case m != nil && strings.Contains(line, " logs "):
		return m[1], true
	case strings.Contains(line, " wait "):
		return "", false
	case strings.HasPrefix(line, "kubectl exec "), strings.Contains(line, " logs "):
		return "", false
	case strings.Contains(line, " rollout status "):
		return line + " --watch=false", true
	case strings.HasPrefix(line, "kubectl drain "):
		return line + " --dry-run=server", true
	}
	return line, strings.HasPrefix(line, "kubectl ") || strings.HasPrefix(line, "amdctl ")
}

// install puts kubectl and amdctl, under both of its names, on the PATH.
func (r *reader) install() {
	r.Helper()
	cache, err := cluster.DefaultCacheDir()
	r.must(err)
	kubectl, err := cluster.Kubectl(r.Context(), cache, os.Stderr)
	r.must(err)
	r.must(os.Symlink(kubectl, filepath.Join(r.bin, "kubectl")))
	build := exec.Command("go", "build", "-o", filepath.Join(r.bin, "amdctl"), "./examples/amdctl")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		r.Fatalf("build examples/amdctl: %v\n%s", err, out)
	}
	r.must(os.Symlink("amdctl", filepath.Join(r.bin, "kubectl-amd")))
	examples, err := filepath.Abs(repository + "/examples")
	r.must(err)
	r.must(os.Symlink(examples, filepath.Join(r.dir, "examples")))
}

// populate makes what the documents speak of: a node, a pod, and all of the
// chart but what needs the Prometheus Operator.
func (r *reader) populate(control *cluster.Cluster) {
	r.Helper()
	kubeconfig := filepath.Join(r.dir, "kubeconfig")
	r.must(cluster.WriteKubeconfig(kubeconfig, control.Admin()))
	text, err := os.ReadFile(kubeconfig)
	r.must(err)
	r.must(os.WriteFile(kubeconfig, bytes.ReplaceAll(text, []byte("e2e"), []byte("production")), 0o600))

	inventory, err := partition.Discover(fixturetest.Machine(r.T, "mi300x-spx-8"))
	r.must(err)
	devices, err := inventory.Devices(partition.RegisterOptions{NodeName: nodeName})
	r.must(err)
	value, err := annotations.EncodeDevices(devices)
	r.must(err)
	client, err := kubernetes.NewForConfig(control.Admin())
	r.must(err)
	_, err = client.CoreV1().Nodes().Create(r.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, Annotations: map[string]string{annotations.NodeRegisterKey: value},
	}}, metav1.CreateOptions{})
	r.must(err)

	rendered, err := os.ReadFile(repository + "/examples/deviceplugin/testdata/rendered/monitor-prometheus.yaml")
	r.must(err)
	_, err = control.ServiceAccount(r.Context(), "kube-system", "default") // makes the namespace
	r.must(err)
	for document := range strings.SplitSeq(string(rendered), "---\n") {
		if !strings.Contains(document, "apiVersion: monitoring.coreos.com/") && strings.Contains(document, "kind: ") {
			r.must(control.Apply(r.Context(), "kube-system", document))
		}
	}
	pod, err := os.ReadFile(repository + "/examples/pods/01-notebook.yaml")
	r.must(err)
	r.must(control.Apply(r.Context(), "default", string(pod)))
	r.must(os.WriteFile(filepath.Join(r.dir, "pod.yaml"), pod, 0o600))
}

// run runs a command as its reader does. That amdctl verify finds something is
// no failure.
func (r *reader) run(line string) error {
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+r.bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(r.dir, "kubeconfig"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(line, "amd") && strings.Contains(line, " verify") && len(out) > 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return nil
}
