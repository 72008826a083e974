// Command localnode is a GPU node for a run of the device plugin on a machine
// without one: it lays out a recorded machine's sysfs and device files, and
// takes kubelet's place until it is interrupted.
//
//	go run ./examples/deviceplugin/localnode -dir /tmp/node mi300x-spx-8
//
// It says how to start the plugin, and what the plugin then registers. The real
// kubelet's device manager runs in the tests of e2e.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
		fmt.Fprintf(stderr, "Usage: localnode -dir DIRECTORY MACHINE\n\nmachines: %s\n\n", strings.Join(testdata.Machines(), " "))
		flags.PrintDefaults()
	}
	path := flags.String("dir", "", "`directory` to lay the node out in; it must not exist")
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1 || *path == "":
		flags.Usage()
		return 2
	}
	if err := serve(ctx, *path, flags.Arg(0), stdout); err != nil {
		fmt.Fprintln(stderr, "localnode:", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, path, machine string, out io.Writer) error {
	n, err := layOut(path, machine)
	if err != nil {
		return err
	}
	k, err := listen(n.deviceDir(), out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is %s until Ctrl-C. Start the plugin with\n\n%s\n\n", n.path, machine, n.command())
	return k.serve(ctx)
}
