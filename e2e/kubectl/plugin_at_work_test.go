package kubectl

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
	"github.com/Project-HAMi/hami-amd/inspect"
)

// What the device plugin itself writes is no problem, whatever happens to its
// pods; what somebody edits while it is away is one.
func TestVerifyBesideThePlugin(t *testing.T) {
	access := kubeconfig(t, control.Admin())
	n := lab.Start(t, node.Options{})
	quiet := func(when string) {
		t.Helper()
		if got := run(t, access, "kubectl", "amd", "verify"); got.code != 0 || !strings.HasPrefix(got.stdout, "nothing is wrong: 1 node, 8 GPUs") {
			t.Fatalf("%s: exit code %d\n%s%s", when, got.code, got.stdout, got.stderr)
		}
	}
	quiet("without pods")

	slice := n.MustPlace(n.Pod("slice", node.Slice("app", 1, 25, 16384)))
	n.MustPlace(n.Pod("whole", node.Whole("app", 1)))
	n.MustPlace(n.Pod("two", node.Slice("a", 1, 10, 8192), node.Plain("web"), node.Slice("b", 2, 50, 8192)))
	inits := n.Pod("inits", node.Slice("train", 1, 25, 8192))
	inits.Spec.InitContainers = []corev1.Container{node.Slice("prep", 1, 50, 4096), node.Sidecar(node.Plain("log"))}
	n.MustPlace(inits)
	n.MustPlace(n.Pod("memory", node.Slice("app", 1, 1, 1)))
	quiet("with pods that run")

	n.Finish(n.MustPlace(n.Pod("done", node.Slice("app", 1, 10, 1024))), corev1.PodSucceeded)
	n.Delete(n.MustPlace(n.Pod("deleted", node.Slice("app", 1, 10, 1024))).Pod)
	n.Bind(n.Pod("bound", node.Slice("app", 1, 10, 1024)))
	quiet("with pods that have ended and one that is being bound")

	n.KillPlugin()
	quiet("while the plugin is away")
	grants, err := annotations.DecodePod(n.Read(slice.Pod).Annotations[annotations.AllocatedKey])
	if err != nil {
		t.Fatal(err)
	}
	all := `{"` + grants[0][0].UUID + `":"0-303"}`
	n.AnnotatePod(slice.Pod, map[string]*string{annotations.CUAllocatedKey: &all})
	got := run(t, access, "kubectl", "amd", "verify")
	if got.code != 1 || !strings.Contains(got.stdout, string(inspect.ContainersDisagree)) {
		t.Errorf("after an edit: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	n.StartPlugin() // and does what verify says
	n.Eventually("the annotation to be put back", func() error {
		if got := run(t, access, "kubectl", "amd", "verify"); got.code != 0 {
			return errText(got.stdout + got.stderr)
		}
		return nil
	})
}

// Partitions are quiet as well.
func TestVerifyBesideThePluginInPartitionMode(t *testing.T) {
	access := kubeconfig(t, control.Admin())
	n := lab.Start(t, node.Options{
		Machine:     "mi355x-qpx-8",
		Annotations: map[string]string{annotations.OperatingModeKey: "partition", annotations.ComputePartitionKey: "qpx"},
	})
	n.MustPlace(n.Pod("one", node.Whole("app", 1)))
	if got := run(t, access, "kubectl", "amd", "verify"); got.code != 0 {
		t.Fatalf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

type errText string

func (e errText) Error() string { return string(e) }
