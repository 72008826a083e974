// Command k8s-vgpu-monitor serves Prometheus metrics of the AMD GPUs of one node
// and of the containers that share them, under the names of HAMi's NVIDIA
// monitor:
//
//	NODE_NAME=node-1 k8s-vgpu-monitor -metrics_bind_address :9394
//
// It answers /metrics, /healthz and /readyz. It reads sysfs, the host's cgroup2
// tree and the memory hook's regions, needs no right to the GPUs and writes
// nothing. Of the API server it needs list and watch of pods and nodes.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program but for the process. It returns the exit code: 2 for
// a command line it does not understand, 1 for anything else that fails.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-version" || args[0] == "--version") {
		fmt.Fprintln(stdout, program, version.String())
		return 0
	}
	c, code := parse(args, stderr)
	if c == nil {
		return code
	}
	if err := start(ctx, c, getenv("NODE_NAME")); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	return 0
}

func start(ctx context.Context, c *config, node string) error {
	if node == "" {
		return fmt.Errorf("want the node's name in the environment variable NODE_NAME, found none")
	}
	rest, err := c.cluster()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("client of the API server: %w", err)
	}
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		return fmt.Errorf("metrics_bind_address: %w", err)
	}
	klog.InfoS("Serving metrics", "version", version.String(), "node", node, "address", l.Addr().String())
	return serve(ctx, c, node, client, l)
}
