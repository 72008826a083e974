package kubectl

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/inspect"
)

func TestKubectlFindsThePlugin(t *testing.T) {
	access := kubeconfig(t, control.Admin())
	r := run(t, access, "kubectl", "plugin", "list")
	if r.code != 0 || !strings.Contains(r.stdout, filepath.Join(binaries, "kubectl-amd")) {
		t.Errorf("exit code %d, output %q, %q", r.code, r.stdout, r.stderr)
	}
	r = run(t, access, "kubectl", "amd", "-h")
	if r.code != 0 || !strings.Contains(r.stdout, "kubectl amd [command]") || strings.Contains(r.stdout, "amdctl") {
		t.Errorf("exit code %d, help:\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// What the API server holds of a cluster at work, and of one that somebody has
// broken.
func TestPluginOnALiveCluster(t *testing.T) {
	r := newRig(t)
	access := kubeconfig(t, control.Admin())
	train := r.create("team-a", "train", slice("49152", "25"))
	r.run(train, cumask.Range(0, 75), "0000:05:00.0#0")
	r.run(r.create("team-b", "serve", slice("49152", "25")), cumask.Range(0, 75), "0000:27:00.0#0")
	r.create("team-b", "big", corev1.ResourceList{"amd.com/gpu": resource.MustParse("8")})
	r.create("team-a", "big", slice("1024", "10"))
	t.Run("verify finds nothing", func(t *testing.T) {
		got := run(t, access, "kubectl", "amd", "verify")
		if got.code != 0 || got.stdout != "nothing is wrong: 1 node, 8 GPUs, 4 pods\n" || got.stderr != "" {
			t.Errorf("exit code %d, output %q, notes %q", got.code, got.stdout, got.stderr)
		}
	})
	t.Run("explain a pod that fits nowhere", func(t *testing.T) {
		got := explain(t, access, "big", "-n", "team-b")
		if got.State != inspect.Pending || !got.FitsIdle || len(got.Nodes) != 1 || got.Nodes[0].Reason == "" || len(got.Nodes[0].GPUs) != 8 {
			t.Errorf("explanation %+v", got)
		}
		if len(got.Smaller) == 0 || got.Smaller[0].Node != nodeName {
			t.Errorf("smaller requests %+v", got.Smaller)
		}
	})
	t.Run("explain a pod that waits for the scheduler", func(t *testing.T) {
		if got := explain(t, access, "team-a/big"); got.State != inspect.Fits || got.Node != nodeName {
			t.Errorf("explanation %+v", got)
		}
	})
	t.Run("explain a pod that runs", func(t *testing.T) {
		got := explain(t, access, "train")
		if got.State != inspect.Placed || len(got.Containers) != 1 || len(got.Containers[0].Holdings) != 1 {
			t.Fatalf("explanation %+v", got)
		}
		if h := got.Containers[0].Holdings[0]; h.Mask != "0-75" || h.CUs != 76 || h.Effective != 72 || h.MemoryMiB != 49152 {
			t.Errorf("holding %+v", h)
		}
	})
	t.Run("restart the device plugin as the remedies say", func(t *testing.T) {
		_, command, _ := strings.Cut(inspect.RegisterUnreadable.Remedy(), ": kubectl ")
		command, _, _ = strings.Cut(command, ";")
		command = strings.ReplaceAll(command, "NODE", nodeName)
		if got := run(t, access, "kubectl", strings.Fields(command)...); got.code != 0 || !strings.Contains(got.stdout+got.stderr, "No resources found") {
			t.Errorf("kubectl %s: exit code %d, %q, %q", command, got.code, got.stdout, got.stderr)
		}
	})
	t.Run("draw", func(t *testing.T) {
		got := run(t, access, "kubectl", "amd", "draw", "-o", "html")
		if got.code != 0 || !strings.Contains(got.stdout, nodeName) || !strings.Contains(got.stdout, "train") {
			t.Errorf("exit code %d, %d bytes, %s", got.code, len(got.stdout), got.stderr)
		}
		got = run(t, "", "kubectl-amd", "draw", "--kubeconfig", access, "--node", nodeName)
		if got.code != 0 || !strings.Contains(got.stdout, "team-a/train") {
			t.Errorf("exit code %d, output:\n%s%s", got.code, got.stdout, got.stderr)
		}
	})
	t.Run("the text is the same from a file", func(t *testing.T) {
		live := run(t, access, "kubectl", "amd", "explain", "train")
		list := run(t, access, "kubectl", "get", "nodes,pods", "-A", "-o", "yaml")
		cmd := exec.Command(filepath.Join(binaries, "kubectl-amd"), "explain", "train", "--cluster", "-")
		cmd.Stdin = strings.NewReader(list.stdout)
		if file := output(t, cmd); file != live || live.code != 0 {
			t.Errorf("live %+v, from a file %+v", live, file)
		}
	})
	t.Run("verify finds what somebody broke", func(t *testing.T) {
		grants, err := annotations.DecodePod(podAnnotations(t, r, "team-a", "train")[annotations.AllocatedKey])
		if err != nil {
			t.Fatal(err)
		}
		id := grants[0][0].UUID
		r.annotate("team-a", "train", map[string]string{
			annotations.CUAllocatedKey:  fmt.Sprintf(`{"%s":"0-303"}`, id),
			annotations.CUContainersKey: fmt.Sprintf(`{"main":{"ids":["0000:05:00.0#0"],"cus":{"%s":"0-303"}}}`, id),
		})
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"broken"}}}`, annotations.NodeLockKey)
		if _, err := r.client.CoreV1().Nodes().Patch(t.Context(), nodeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		got := run(t, access, "kubectl", "amd", "verify")
		if got.code != 1 || got.stderr != "kubectl amd: 2 errors found\n" {
			t.Errorf("exit code %d, %q", got.code, got.stderr)
		}
		for _, word := range []inspect.Code{inspect.MaskSizeDiffers, inspect.LockMalformed} {
			if !strings.Contains(got.stdout, string(word)) {
				t.Errorf("no %s in:\n%s", word, got.stdout)
			}
		}
		if e := explain(t, access, "team-a/train"); len(e.Problems) != 2 {
			t.Errorf("problems of the pod: %v", e.Problems)
		}
	})
}

func podAnnotations(t *testing.T, r *rig, namespace, name string) map[string]string {
	t.Helper()
	pod, err := r.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Annotations
}

func explain(t *testing.T, access string, args ...string) inspect.Explanation {
	t.Helper()
	got := run(t, access, "kubectl", append([]string{"amd", "explain", "-o", "json"}, args...)...)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	var e inspect.Explanation
	if err := json.Unmarshal([]byte(got.stdout), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestPluginRefuses(t *testing.T) {
	r := newRig(t)
	access := kubeconfig(t, control.Admin())
	r.create("team-a", "twin", slice("1024", "10"))
	r.create("team-b", "twin", slice("1024", "10"))
	for name, tc := range map[string]struct{ args, words []string }{
		"an unknown pod":     {[]string{"explain", "team-a/none"}, []string{`"team-a/none"`, "no such pod"}},
		"an ambiguous pod":   {[]string{"explain", "twin"}, []string{"2 of that name", "team-a, team-b"}},
		"an unknown context": {[]string{"verify", "--context", "none"}, []string{"kubectl get nodes,pods", "none"}},
		"no such kubeconfig": {[]string{"verify", "--kubeconfig", "/nonexistent"}, []string{"/nonexistent"}},
	} {
		t.Run(name, func(t *testing.T) {
			oneLine(t, run(t, access, "kubectl", append([]string{"amd"}, tc.args...)...), tc.words...)
		})
	}
	t.Run("kubectl is not there", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(binaries, "kubectl-amd"), "verify")
		cmd.Env = []string{"PATH=" + t.TempDir(), "KUBECONFIG=" + access}
		oneLine(t, output(t, cmd), "kubectl", "not found")
	})
	t.Run("nobody answers", func(t *testing.T) {
		unreachable := control.Admin()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		unreachable.Host = "https://" + l.Addr().String()
		l.Close()
		oneLine(t, run(t, kubeconfig(t, unreachable), "kubectl", "amd", "verify"), "kubectl get nodes,pods", "refused")
	})
	t.Run("the API server hangs", func(t *testing.T) {
		thaw, err := control.FreezeAPIServer()
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, access, "kubectl", "amd", "verify", "--timeout", "300ms")
		if err := thaw(); err != nil {
			t.Fatal(err)
		}
		oneLine(t, got, "kubectl get nodes,pods", "deadline exceeded")
	})
	t.Run("an account that may see pods alone", func(t *testing.T) {
		account, err := control.ServiceAccount(t.Context(), "team-a", "viewer")
		if err != nil {
			t.Fatal(err)
		}
		oneLine(t, run(t, kubeconfig(t, account), "kubectl", "amd", "verify"), "Forbidden")
	})
}
