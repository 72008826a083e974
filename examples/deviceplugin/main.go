// Command deviceplugin is the HAMi device plugin for AMD GPUs: flags and
// environment variables in, signals to stop. All it does is in package plugin.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/internal/version"
	"github.com/Project-HAMi/hami-amd/plugin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, filepath.Base(os.Args[0]), os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	klog.Flush()
	os.Exit(code)
}

// run is the whole program but for the process: it returns the exit code. 2 is
// a command line that is not understood, 1 is everything else that went wrong.
func run(ctx context.Context, program string, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-version" || args[0] == "--version") {
		fmt.Fprintln(stdout, program, version.String())
		return 0
	}
	cfg, err := plugin.ParseArgs(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		plugin.Usage(stdout, program)
		return 0
	case errors.Is(err, plugin.ErrUsage):
		fmt.Fprintf(stderr, "%s: %v\n\n", program, err)
		plugin.Usage(stderr, program)
		// Once more, for whoever sees the end of a log.
		fmt.Fprintf(stderr, "\n%s: %v\n", program, err)
		return 2
	case err == nil:
		err = serve(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// serve makes what the plugin works with, and runs it.
func serve(ctx context.Context, cfg plugin.Config) error {
	deps := plugin.Deps{Log: klog.Background()}
	// First the client, then the verbosity: client-go has a line for each of its
	// feature gates.
	if !cfg.Standalone {
		client, err := plugin.NewClient(cfg.Kubeconfig)
		if err != nil {
			return err
		}
		deps.Client = client
	}
	logging := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logging)
	if err := logging.Set("v", strconv.Itoa(cfg.Verbosity)); err != nil {
		return err
	}
	p, err := plugin.New(cfg, deps)
	if err != nil {
		return err
	}
	deps.Log.Info("Starting", "version", version.String(), "node", cfg.NodeName)
	return p.Run(ctx)
}
