// Command localnode is a GPU node for a run of the device plugin on a machine
// without one: it lays out a recorded machine's sysfs and device files, and
// takes kubelet's place until it is interrupted.
//
//	go run ./examples/deviceplugin/localnode -dir /tmp/node -kubeconfig /tmp/kubeconfig mi300x-spx-8
//
// It says how to start the plugin, what the plugin then registers and, of each
// pod that is bound to the node, what its containers get. No container runs. The
// real kubelet's device manager runs in the tests of e2e.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/Project-HAMi/hami-amd/testdata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 2
// for a command line it does not understand.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("localnode", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "Usage: localnode -dir DIRECTORY [-kubeconfig FILE] MACHINE\n\nmachines: %s\n\n", strings.Join(testdata.Machines(), " "))
		flags.PrintDefaults()
	}
	path := flags.String("dir", "", "`directory` to lay the node out in; it must not exist")
	kubeconfig := flags.String("kubeconfig", "", "`file` with the API server whose node "+nodeName+" this is; empty is none, for a plugin that runs -standalone")
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1 || *path == "":
		flags.Usage()
		return 2
	}
	if err := serve(ctx, *path, *kubeconfig, flags.Arg(0), stdout); err != nil {
		fmt.Fprintln(stderr, "localnode:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, path, kubeconfig, machine string, out io.Writer) error {
	var client kubernetes.Interface
	if kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return fmt.Errorf("kubeconfig %q: %w", kubeconfig, err)
		}
		if client, err = kubernetes.NewForConfig(config); err != nil {
			return fmt.Errorf("kubeconfig %q: %w", kubeconfig, err)
		}
		if err := createNode(ctx, client); err != nil {
			return err
		}
	}
	n, err := layOut(path, machine)
	if err != nil {
		return err
	}
	k, err := listen(n.deviceDir(), client, out)
	if err != nil {
		return err
	}
	k.say("%s is %s until Ctrl-C. %s is a stand-in for the memory hook, with nothing in it. Start the plugin with\n\n%s\n",
		n.path, machine, n.library(), n.command(kubeconfig))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	if client != nil {
		wait.Go(func() { k.servePods(ctx) })
	}
	err = k.serve(ctx)
	cancel()
	return err
}
