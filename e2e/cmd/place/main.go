// Command place is HAMi's scheduler for one pod: it admits, places and binds the
// pod of a file, and waits for the node to serve it.
//
//	go run ./cmd/place -kubeconfig /tmp/kubeconfig ../examples/pods/01-notebook.yaml
//
// It goes with cmd/apiserver and examples/deviceplugin/localnode, a local run of
// the device plugin without GPU or cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 2
// for a command line it does not understand.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("place", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "Usage: place [-kubeconfig FILE] [-timeout DURATION] POD\n\n")
		flags.PrintDefaults()
	}
	kubeconfig := flags.String("kubeconfig", "kubeconfig", "`file` with access to the API server")
	timeout := flags.Duration("timeout", time.Minute, "how long to wait for a place, and for the node")
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1:
		flags.Usage()
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	if err := place(ctx, *kubeconfig, flags.Arg(0), stdout); err != nil {
		fmt.Fprintln(stderr, "place:", err)
		return 1
	}
	return 0
}

func place(ctx context.Context, kubeconfig, file string, out io.Writer) error {
	pod, err := readPod(file)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %q: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("kubeconfig %q: %w", kubeconfig, err)
	}
	s, err := scheduler.New(client, scheduler.Options{})
	if err != nil {
		return err
	}
	bound, err := s.Schedule(ctx, pod)
	if err != nil && bound != nil {
		// So that the same command works once there is room.
		err = errors.Join(err, client.CoreV1().Pods(bound.Namespace).Delete(context.WithoutCancel(ctx), bound.Name, metav1.DeleteOptions{}))
	}
	if err != nil {
		return err
	}
	name := bound.Namespace + "/" + bound.Name
	fmt.Fprintf(out, "%s is bound to node %s, granted %s\n", name, bound.Spec.NodeName, bound.Annotations[annotations.AllocatedKey])
	return served(ctx, client, bound, out)
}

// served waits until the node has decided about a pod.
func served(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, out io.Writer) error {
	name := pod.Namespace + "/" + pod.Name
	for {
		now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return fmt.Errorf("pod %s: %w", name, err)
		case now.Status.Phase == corev1.PodFailed:
			return fmt.Errorf("pod %s: refused by node %s: %s: %s", name, pod.Spec.NodeName, now.Status.Reason, now.Status.Message)
		case now.Status.Phase != corev1.PodPending:
			fmt.Fprintf(out, "%s is %s and holds the compute units %s\n", name, now.Status.Phase, now.Annotations[annotations.CUAllocatedKey])
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("pod %s: node %s has not served it: %w", name, pod.Spec.NodeName, context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// readPod reads a file that holds one pod.
func readPod(file string) (*corev1.Pod, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		return nil, fmt.Errorf("%q: %w", file, err)
	}
	if pod.Kind != "Pod" || pod.Name == "" {
		return nil, fmt.Errorf("%q: want a pod with a name, found kind %q named %q", file, pod.Kind, pod.Name)
	}
	return &pod, nil
}
