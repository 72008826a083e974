package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/internal/kubeyaml"
)

// clusterFlags say where the nodes and pods of a cluster come from: files, or
// the cluster itself.
type clusterFlags struct {
	cluster, nodes, pods string // files
	kubeconfig, context  string
	timeout              time.Duration
}

// clusterHelp is the part of a command's help that is about these flags.
const clusterHelp = `The cluster comes from files that hold what kubectl prints, YAML or JSON ("-" is
standard input), or live from kubectl itself with --kubeconfig or --context: so
every way to log in works that kubectl knows. Called as "kubectl amd" and without
files it is the current context. All pods of the cluster belong in it (-A); at
most 256 MiB of them are read.`

func addClusterFlags(cmd *cobra.Command, f *clusterFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "file with the nodes and the pods")
	flags.StringVar(&f.nodes, "nodes", "", "file with the nodes; its pods count too if there is no --pods")
	flags.StringVar(&f.pods, "pods", "", "file with the pods")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "read the live cluster of this kubeconfig, through kubectl")
	flags.StringVar(&f.context, "context", "", "read the live cluster of this context, through kubectl")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long kubectl may take")
}

// read reads the nodes and pods. Pods are nil where none were given, which is
// not the same as none being there.
func (f *clusterFlags) read(cmd *cobra.Command) ([]*corev1.Node, []*corev1.Pod, error) {
	files := f.cluster != "" || f.nodes != "" || f.pods != ""
	live := f.kubeconfig != "" || f.context != ""
	switch {
	case files && live:
		return nil, nil, errors.New("want files or a live cluster (--kubeconfig, --context), found both")
	case f.cluster != "" && (f.nodes != "" || f.pods != ""):
		return nil, nil, errors.New("want --cluster or --nodes and --pods, found both")
	case f.pods != "" && f.nodes == "":
		return nil, nil, errors.New("want --nodes beside --pods")
	case f.nodes == "-" && f.pods == "-":
		return nil, nil, errors.New("want standard input for one of --nodes and --pods, or for both together as --cluster")
	case live || !files && isPlugin(cmd):
		return f.live(cmd)
	case !files:
		return nil, nil, errors.New("want the cluster: --cluster FILE, --nodes FILE --pods FILE, --kubeconfig FILE or --context NAME")
	}
	path, flag := f.nodes, "nodes"
	if f.cluster != "" {
		path, flag = f.cluster, "cluster"
	}
	objects, err := readObjects(cmd, flag, path)
	if err != nil {
		return nil, nil, err
	}
	pods := objects.Pods
	if f.pods != "" {
		if pods, err = readPods(cmd, f.pods); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case len(objects.Nodes) == 0:
		return nil, nil, fmt.Errorf("--%s: %s: want the nodes of the cluster, found 0 nodes and %s", flag, path, count(len(objects.Pods), "pod"))
	case len(pods) == 0:
		note(cmd, "no pods were given: who holds what is not known")
		return pointers(objects.Nodes), nil, nil
	}
	return pointers(objects.Nodes), pointers(pods), nil
}

// kubectlName is the program that reads the cluster.
const kubectlName = "kubectl"

// live reads the cluster through kubectl. Nodes come first in the list: a pod
// that is served while kubectl reads is newer than its node.
func (f *clusterFlags) live(cmd *cobra.Command) ([]*corev1.Node, []*corev1.Pod, error) {
	args := []string{"get", "nodes,pods", "--all-namespaces", "--output=json"}
	if f.kubeconfig != "" {
		args = append(args, "--kubeconfig="+f.kubeconfig)
	}
	if f.context != "" {
		args = append(args, "--context="+f.context)
	}
	if f.timeout <= 0 {
		return nil, nil, fmt.Errorf("--timeout: want more than 0, found %v", f.timeout)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	objects, err := kubectl(ctx, cmd, args)
	if err != nil {
		return nil, nil, err
	}
	noteSkipped(cmd, objects)
	if len(objects.Nodes) == 0 {
		return nil, nil, fmt.Errorf("kubectl %s: want the nodes of the cluster, found 0 nodes and %s", strings.Join(args, " "), count(len(objects.Pods), "pod"))
	}
	return pointers(objects.Nodes), pointers(objects.Pods), nil
}

// kubectl runs kubectl and reads what it prints.
func kubectl(ctx context.Context, cmd *cobra.Command, args []string) (*kubeyaml.Objects, error) {
	path, err := exec.LookPath(kubectlName)
	if err != nil {
		return nil, fmt.Errorf("a live cluster is read through kubectl: %w; or give files", err)
	}
	run := exec.CommandContext(ctx, path, args...)
	run.WaitDelay = time.Second // of a login helper that keeps the pipe open
	if in, ok := cmd.InOrStdin().(*os.File); ok {
		run.Stdin = in // a login helper may ask
	}
	complaint := &tail{}
	run.Stderr = complaint
	stdout, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl: %w", err)
	}
	objects, readErr := kubeyaml.Read(stdout)
	if readErr != nil {
		_ = run.Process.Kill() // what is left would not be read
	}
	waitErr := run.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("kubectl %s: %w%s", strings.Join(args, " "), context.Cause(ctx), complaint.after())
	case readErr != nil && waitErr != nil && complaint.b.Len() == 0:
		return nil, fmt.Errorf("what kubectl prints: %w", readErr)
	case waitErr != nil:
		return nil, fmt.Errorf("kubectl %s: %w%s", strings.Join(args, " "), waitErr, complaint.after())
	case readErr != nil:
		return nil, fmt.Errorf("what kubectl prints: %w", readErr)
	}
	return objects, nil
}

// tail keeps the end of what kubectl complains about: the last line says why.
type tail struct{ b bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.b.Write(p)
	if over := t.b.Len() - most; over > 0 {
		t.b.Next(over)
	}
	return len(p), nil
}

// after is the last line, to follow an error.
func (t *tail) after() string {
	lines := strings.Split(strings.TrimSpace(t.b.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}
