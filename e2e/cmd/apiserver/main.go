// Command apiserver runs the tests' control plane for a person: an etcd and a
// kube-apiserver on loopback, until it is interrupted.
//
//	go run ./cmd/apiserver -kubeconfig /tmp/kubeconfig
//	kubectl --kubeconfig /tmp/kubeconfig get nodes
//
// With -build it only builds the API server and kubectl, so that a later test
// run need not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
)

func main() {
	build := flag.Bool("build", false, "build kube-apiserver and kubectl "+cluster.Version+" if they are not in the cache, print their paths and exit")
	kubeconfig := flag.String("kubeconfig", "kubeconfig", "where to write access as an administrator; it is removed at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *build, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, build bool, kubeconfig string) error {
	if build {
		cache, err := cluster.DefaultCacheDir()
		if err != nil {
			return err
		}
		for _, program := range []func(context.Context, string, io.Writer) (string, error){cluster.APIServer, cluster.Kubectl} {
			path, err := program(ctx, cache, os.Stderr)
			if err != nil {
				return err
			}
			fmt.Println(path)
		}
		return nil
	}
	c, err := cluster.Start(ctx, cluster.Options{})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := cluster.WriteKubeconfig(kubeconfig, c.Admin()); err != nil {
		return err
	}
	defer os.Remove(kubeconfig)
	fmt.Printf("kube-apiserver %s at %s, access in %s; end with Ctrl-C\n", cluster.Version, c.Admin().Host, kubeconfig)
	<-ctx.Done()
	return nil
}
