package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/process"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
)

// patience is how long what must come may take.
const patience = 2 * time.Minute

// build compiles a program of the root module.
func build(t *testing.T, dir, folder string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(folder))
	build := exec.Command("go", "build", "-o", program, folder)
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The local run of examples/deviceplugin/README.md, to a pod with its mask.
func TestLocalRun(t *testing.T) {
	dir, err := fixture.MkdirTemp() // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	localnode, plugin := build(t, dir, "./examples/deviceplugin/localnode"), build(t, dir, "./examples/deviceplugin")

	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	kubeconfig, node := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "node")
	if err := cluster.WriteKubeconfig(kubeconfig, c.Admin()); err != nil {
		t.Fatal(err)
	}
	said := start(t, filepath.Join(dir, "localnode.log"), nil, localnode, "-dir", node, "-kubeconfig", kubeconfig, "mi300x-spx-8")
	wait(t, "localnode's command", func() error { return has(said(), "go run ./examples/deviceplugin ") })

	// The command that it prints, with a program that is built already.
	command := strings.Join(strings.Fields(strings.ReplaceAll(said()[strings.Index(said(), "NODE_NAME="):], "\\\n", " ")), " ")
	before, flags, _ := strings.Cut(command, "go run ./examples/deviceplugin ")
	log := start(t, filepath.Join(dir, "plugin.log"), strings.Fields(before), plugin, strings.Fields(flags)...)
	wait(t, "the plugin's devices", func() error { return has(said(), "amd.com/gpu: 80 devices, 80 of them healthy") })
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the plugin's registration", func() error {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Status.Allocatable["amd.com/gpu"]; got.Value() != 80 {
			return fmt.Errorf("allocatable %s", got.String())
		}
		return has(n.Annotations["hami.io/node-amd-register"], "MI300X")
	})

	stdout := placed(t, kubeconfig, "01-notebook.yaml")
	if !strings.Contains(stdout, "default/notebook is bound to node node-1, granted ") ||
		!regexp.MustCompile(`default/notebook is Running and holds the compute units \{"[0-9a-f-]{36}":"0-75"\}\n$`).MatchString(stdout) {
		t.Errorf("place says\n%s\nthe plugin\n%s", stdout, log())
	}
	for _, want := range []string{
		"default/notebook, container jupyter:\n", "  env     HSA_CU_MASK=0:0-75\n", "  env     HIP_DEVICE_MEMORY_LIMIT_0=49152m\n",
		"  device  /dev/kfd\n", "  mount   " + node + "/hook/vgpu/libamvgpu.so on /usr/local/vgpu/libamvgpu.so\n",
	} {
		if err := has(said(), want); err != nil {
			t.Error(err)
		}
	}

	// Without the stand-in for the hook there is no slice, and place says so.
	if err := os.Remove(filepath.Join(node, "hook/vgpu/libamvgpu.so")); err != nil {
		t.Fatal(err)
	}
	var out, problem bytes.Buffer
	if code := run(t.Context(), []string{"-kubeconfig", kubeconfig, "../../../examples/pods/02-inference.yaml"}, &out, &problem); code != 1 ||
		!strings.Contains(problem.String(), "UnexpectedAdmissionError: ") || !strings.Contains(problem.String(), "memory hook is not installed") {
		t.Errorf("exit %d\n%s%s", code, &out, &problem)
	}

	// A pod that is deleted gives back what it holds.
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "notebook", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(t, "the end of the pod", func() error {
		if _, err := client.CoreV1().Pods("default").Get(t.Context(), "notebook", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// placed is what place prints for a pod of the examples.
func placed(t *testing.T, kubeconfig, pod string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-kubeconfig", kubeconfig, "../../../examples/pods/" + pod}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return stdout.String()
}

// start runs a program until the test ends. The function it returns is what the
// program has said.
func start(t *testing.T, log string, env []string, program string, args ...string) func() string {
	t.Helper()
	p, err := process.Start(process.Options{Path: program, Args: args, Env: append(os.Environ(), env...), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Done():
		case <-time.After(patience):
			p.Kill()
		}
		if err := p.Err(); err != nil {
			t.Errorf("%s: %v\n%s", program, err, p.Tail(20))
		}
	})
	return func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func has(text, want string) error {
	if !strings.Contains(text, want) {
		return fmt.Errorf("no %q in\n%s", want, text)
	}
	return nil
}

func wait(t *testing.T, what string, done func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no pod":             {nil, 2, "Usage: place"},
		"an unknown flag":    {[]string{"-node", "x"}, 2, "Usage: place"},
		"no such file":       {[]string{filepath.Join(dir, "x")}, 1, "no such file"},
		"a deployment":       {[]string{write("d.yaml", "{kind: Deployment, metadata: {name: d}}")}, 1, `want a pod with a name, found kind "Deployment" named "d"`},
		"no such kubeconfig": {[]string{"-kubeconfig", filepath.Join(dir, "x"), write("p.yaml", "{kind: Pod, metadata: {name: p}}")}, 1, "place: kubeconfig "},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), test.args, &stdout, &stderr); code != test.code || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("exit %d, want %d: %q, want %q in it", code, test.code, stderr.String(), test.want)
			}
		})
	}
}
