package plugin

import (
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
)

// What the API server says at the start that waiting does not mend: exit code 1
// and one line that says what is wrong, after the one it starts with.
func TestStartThatCannotSucceed(t *testing.T) {
	for name, tt := range map[string]struct {
		o    node.Options
		flag func(n *node.Node) []string
		want string
	}{
		"no such node": {
			o: node.Options{Env: map[string]string{"NODE_NAME": "another-node"}}, want: `nodes "another-node" not found`,
		},
		"no rights": {
			flag: func(n *node.Node) []string {
				ctx, cancel := n.Timeout()
				defer cancel()
				access, err := lab.Cluster.ServiceAccount(ctx, "default", "nobody")
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(n.Dir, "nobody")
				if err := cluster.WriteKubeconfig(path, n.Proxy.Access(access)); err != nil {
					t.Fatal(err)
				}
				return []string{"-kubeconfig=" + path}
			}, want: `is forbidden: User "system:serviceaccount:default:nobody" cannot get resource "nodes"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Stopped = true
			n := lab.Start(t, tt.o)
			var flags []string
			if tt.flag != nil {
				flags = tt.flag(n)
			}
			n.LaunchPlugin(flags...)
			<-n.Plugin.Done()
			var exit *exec.ExitError
			if err := n.Plugin.Err(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("the plugin ended with %v, want exit code 1", err)
			}
			first, log, _ := strings.Cut(strings.TrimSpace(n.PluginLog()), "\n")
			if !strings.Contains(first, `"Starting" version="`) || !strings.Contains(log, tt.want) || strings.Contains(log, "\n") {
				t.Errorf("it says %q and %q, want its version and one line with %q", first, log, tt.want)
			}
		})
	}
}

// An API server that comes up later is waited for.
func TestStartBeforeTheAPIServer(t *testing.T) {
	n := lab.Start(t, node.Options{Stopped: true})
	n.Proxy.Intercept(func(c proxy.Call) proxy.Fault {
		switch c.Number {
		case 1:
			return proxy.Fault{Refuse: http.StatusServiceUnavailable}
		case 2, 3:
			return proxy.Fault{CutRequest: true}
		}
		return proxy.Fault{}
	})
	n.StartPlugin()
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 25, 16384))))
}

// An annotation of the node that cannot be is no reason not to start: the
// variable holds, and an event tells the administrator.
func TestModeAnnotationThatCannotBe(t *testing.T) {
	n := lab.Start(t, node.Options{
		Annotations: map[string]string{annotations.OperatingModeKey: "mig"},
		Want:        map[corev1.ResourceName]int64{"amd.com/gpu": 80},
	})
	waitEvent(n, "default", n.Name, "AMDGPUSettingIgnored", "mig")
	n.CheckPlaced(n.Place(n.Pod("pod", node.Slice("app", 1, 25, 16384))))
}
