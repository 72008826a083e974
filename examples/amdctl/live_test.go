package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets this program be the kubectl of its tests: under that name it
// does what fakeEnv says.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != kubectlName {
		os.Exit(m.Run())
	}
	if args := os.Getenv("FAKE_KUBECTL_ARGS"); args != "" {
		_ = os.WriteFile(args, []byte(strings.Join(os.Args[1:], "\n")), 0o600)
	}
	if data, err := os.ReadFile(os.Getenv("FAKE_KUBECTL_OUTPUT")); err == nil {
		os.Stdout.Write(data)
	}
	if os.Getenv("FAKE_KUBECTL_HANGS") != "" {
		time.Sleep(time.Minute)
	}
	fmt.Fprint(os.Stderr, os.Getenv("FAKE_KUBECTL_COMPLAINS"))
	if os.Getenv("FAKE_KUBECTL_COMPLAINS") != "" {
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeKubectl puts this program on the PATH as kubectl, alone there.
func fakeKubectl(t *testing.T, output string) (args func() string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, kubectlName)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("FAKE_KUBECTL_OUTPUT", file(t, "output", output))
	record := filepath.Join(dir, "args")
	t.Setenv("FAKE_KUBECTL_ARGS", record)
	return func() string {
		data, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(data), "\n", " ")
	}
}

// asPlugin runs the command as kubectl does.
func asPlugin(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	clock := func() time.Time { return time.Unix(1787300000, 0) }
	code := runAs(calledAs("/usr/local/bin/kubectl-amd"), clock, args, strings.NewReader(""), &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

func TestLiveCluster(t *testing.T) {
	const get = "get nodes,pods --all-namespaces --output=json"
	want := ok(t, clean(t), "verify", "--cluster", "-").stdout
	for name, tc := range map[string]struct {
		run  func(...string) result
		args []string
		want string
	}{
		"a kubeconfig":            {func(a ...string) result { return ok(t, "", a...) }, []string{"--kubeconfig", "k.yaml"}, get + " --kubeconfig=k.yaml"},
		"a context":               {func(a ...string) result { return ok(t, "", a...) }, []string{"--context", "prod"}, get + " --context=prod"},
		"both":                    {func(a ...string) result { return ok(t, "", a...) }, []string{"--context", "prod", "--kubeconfig", "-x"}, get + " --kubeconfig=-x --context=prod"},
		"kubectl's own context":   {func(a ...string) result { return asPlugin(t, a...) }, nil, get},
		"a context of the plugin": {func(a ...string) result { return asPlugin(t, a...) }, []string{"--context", "prod"}, get + " --context=prod"},
	} {
		t.Run(name, func(t *testing.T) {
			args := fakeKubectl(t, clean(t))
			r := tc.run(append([]string{"verify"}, tc.args...)...)
			if r.code != 0 || r.stdout != want || r.stderr != "" {
				t.Errorf("exit code %d, output %q, notes %q", r.code, r.stdout, r.stderr)
			}
			if got := args(); got != tc.want {
				t.Errorf("kubectl %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFitInALiveCluster(t *testing.T) {
	want := fitAnswer(t, "", "fit", "--cluster", file(t, "cluster.yaml", clean(t)), "--pod", podFiles+"01-notebook.yaml")
	fakeKubectl(t, clean(t))
	got := fitAnswer(t, "", "fit", "--context", "prod", "--pod", podFiles+"01-notebook.yaml")
	if diff := cmp.Diff(want, got); diff != "" || got.Node == "" {
		t.Errorf("answer (-file +live):\n%s", diff)
	}
}

// Files are read as they are, under either name.
func TestPluginReadsFilesWithoutKubectl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := asPlugin(t, "verify", "--cluster", file(t, "cluster.yaml", clean(t)))
	if r.code != 0 || !strings.HasPrefix(r.stdout, "nothing is wrong") {
		t.Errorf("exit code %d, output %q, notes %q", r.code, r.stdout, r.stderr)
	}
}

func TestLiveRefuses(t *testing.T) {
	args := []string{"verify", "--context", "prod"}
	t.Run("kubectl is not there", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		refused(t, "", args, "kubectl", "not found", "files")
	})
	t.Run("kubectl fails", func(t *testing.T) {
		fakeKubectl(t, "")
		t.Setenv("FAKE_KUBECTL_COMPLAINS", "E0821 memcache.go: nope\nThe connection to the server 192.0.2.1:6443 was refused\n")
		refused(t, "", args, "kubectl get nodes,pods", "exit status 1", "192.0.2.1:6443 was refused")
	})
	t.Run("kubectl fails half way", func(t *testing.T) {
		fakeKubectl(t, clean(t))
		t.Setenv("FAKE_KUBECTL_COMPLAINS", "Error from server (Forbidden): nodes is forbidden\n")
		refused(t, "", args, "Forbidden")
	})
	t.Run("kubectl hangs", func(t *testing.T) {
		fakeKubectl(t, "")
		t.Setenv("FAKE_KUBECTL_HANGS", "1")
		refused(t, "", append(args, "--timeout", "50ms"), "kubectl get nodes,pods", "deadline exceeded")
	})
	t.Run("kubectl prints something else", func(t *testing.T) {
		fakeKubectl(t, "items: [\n")
		refused(t, "", args, "what kubectl prints", "document 1")
	})
	t.Run("an empty cluster", func(t *testing.T) {
		fakeKubectl(t, `{"kind":"List","items":[]}`)
		refused(t, "", args, "kubectl get nodes,pods", "0 nodes and 0 pods")
	})
	t.Run("no time", func(t *testing.T) {
		fakeKubectl(t, "")
		refused(t, "", append(args, "--timeout", "0s"), "--timeout", "0s")
	})
}

func TestCalledAs(t *testing.T) {
	for path, want := range map[string]string{
		"amdctl": "amdctl", "/usr/bin/amdctl": "amdctl", "kubectl-amd": "kubectl amd", "/a/b/kubectl-amd": "kubectl amd",
		"kubectl-amd.exe": "kubectl amd", "kubectl-amdgpu": "amdctl", "": "amdctl",
	} {
		if got := calledAs(path); got != want {
			t.Errorf("called by path %q it is %q, want %q", path, got, want)
		}
	}
}

// Under kubectl all that is printed says how to call it there.
func TestPluginHelpSaysKubectl(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"verify", "-h"}, {"fit", "-h"}} {
		r := asPlugin(t, args...)
		if r.code != 0 || strings.Contains(r.stdout, "amdctl") || !strings.Contains(r.stdout, "kubectl amd ") {
			t.Errorf("%v: exit code %d, help:\n%s", args, r.code, r.stdout)
		}
	}
	if r := asPlugin(t, "explode"); r.code != 1 || !strings.HasPrefix(r.stderr, "kubectl amd: ") || strings.Contains(r.stderr, "amdctl") {
		t.Errorf("exit code %d, %q", r.code, r.stderr)
	}
}
